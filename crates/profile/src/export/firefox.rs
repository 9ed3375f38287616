//! The Firefox Profiler's processed profile: a timeline per thread.
//!
//! `fxprof-processed-profile` writes the document. Its version 0.8 knows names of functions only;
//! [`source`] adds what we know besides: files, lines, inlining, libraries.

mod source;
mod tables;

use std::io::{BufWriter, Write};
use std::time::{Duration, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use fxprof_processed_profile as fx;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::ExportError;
use super::checked::Checked;
use crate::model::{BinaryKind, Frame, Profile, Sample, StackId, ThreadId};

/// Writes the profile.
pub(super) fn write(
    profile: Checked<'_>,
    gzip: bool,
    writer: &mut dyn Write,
) -> Result<(), ExportError> {
    let document = document(profile.profile())?;
    let mut writer = BufWriter::new(writer);
    if gzip {
        let mut gzip = GzEncoder::new(&mut writer, Compression::default());
        serde_json::to_writer(&mut gzip, &document).map_err(std::io::Error::from)?;
        gzip.finish()?;
    } else {
        serde_json::to_writer(&mut writer, &document).map_err(std::io::Error::from)?;
    }
    writer.flush()?;
    Ok(())
}

fn document(profile: &Profile) -> Result<Value, ExportError> {
    let meta = &profile.meta;
    // The crate panics at times before 1970.
    let start = meta.start.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let mut document = fx::Profile::new(
        &meta.target,
        fx::ReferenceTimestamp::from_duration_since_unix_epoch(start),
        // The Profiler divides by the interval.
        fx::SamplingInterval::from_nanos(meta.period_ns.max(1)),
    );
    document.set_os_name(&meta.system);
    document.set_symbolicated(true);

    let threads = add_threads(profile, &mut document);
    Timelines {
        profile,
        frames: intern_frames(profile, &mut document),
        stacks: FxHashMap::default(),
    }
    .add_samples(&threads, &mut document);

    let mut document = serde_json::to_value(&document).map_err(std::io::Error::from)?;
    source::fill(profile, &mut document)?;
    Ok(document)
}

fn add_threads(profile: &Profile, document: &mut fx::Profile) -> Vec<fx::ThreadHandle> {
    let at = fx::Timestamp::from_nanos_since_reference;
    let mut processes = Vec::with_capacity(profile.processes.len());
    for process in &profile.processes {
        let handle = document.add_process(&process.name, process.pid, at(process.start_ns));
        if let Some(end_ns) = process.end_ns {
            document.set_process_end_time(handle, at(end_ns));
        }
        processes.push(handle);
    }
    let mut threads = Vec::with_capacity(profile.threads.len());
    for thread in &profile.threads {
        let is_main = thread.tid == profile.processes[thread.process as usize].pid;
        let process = processes[thread.process as usize];
        let handle = document.add_thread(process, thread.tid, at(thread.start_ns), is_main);
        document.set_thread_name(handle, &thread.name);
        if let Some(end_ns) = thread.end_ns {
            document.set_thread_end_time(handle, at(end_ns));
        }
        threads.push(handle);
    }
    threads
}

/// Every frame's functions as labels, outermost first. The labels are keys that [`source`] replaces.
fn intern_frames(profile: &Profile, document: &mut fx::Profile) -> Vec<Vec<fx::FrameInfo>> {
    let categories = Categories::new(document);
    let frames = profile.frames.iter().enumerate();
    frames
        .map(|(id, frame)| {
            let lines = (0..frame.lines.len()).rev();
            lines
                .map(|line| fx::FrameInfo {
                    frame: fx::Frame::Label(document.intern_string(&source::key(id, line))),
                    category_pair: categories.of(profile, frame).into(),
                    flags: fx::FrameFlags::empty(),
                })
                .collect()
        })
        .collect()
}

/// Kinds of code: the colours of the activity graph.
struct Categories {
    user: fx::CategoryHandle,
    kernel: fx::CategoryHandle,
    bpf: fx::CategoryHandle,
    jit: fx::CategoryHandle,
}

impl Categories {
    fn new(document: &mut fx::Profile) -> Self {
        Self {
            user: document.add_category("User", fx::CategoryColor::Yellow),
            kernel: document.add_category("Kernel", fx::CategoryColor::Blue),
            bpf: document.add_category("BPF", fx::CategoryColor::Green),
            jit: document.add_category("JIT", fx::CategoryColor::Purple),
        }
    }

    fn of(&self, profile: &Profile, frame: &Frame) -> fx::CategoryHandle {
        let Some(binary) = frame.binary else { return fx::CategoryHandle::OTHER };
        match profile.binaries[binary as usize].kind {
            BinaryKind::User | BinaryKind::Vdso => self.user,
            BinaryKind::Kernel => self.kernel,
            BinaryKind::Bpf => self.bpf,
            BinaryKind::Anonymous => self.jit,
        }
    }
}

/// The samples of all threads.
struct Timelines<'a> {
    profile: &'a Profile,
    frames: Vec<Vec<fx::FrameInfo>>,
    /// Stacks belong to threads in this format.
    stacks: FxHashMap<(ThreadId, StackId), Option<fx::StackHandle>>,
}

impl Timelines<'_> {
    fn add_samples(mut self, threads: &[fx::ThreadHandle], document: &mut fx::Profile) {
        let period_ns = self.profile.meta.period_ns;
        let mut busy_until: Vec<u64> = self.profile.threads.iter().map(|it| it.start_ns).collect();
        for sample in &self.profile.samples {
            let thread = threads[sample.thread as usize];
            let busy_until = &mut busy_until[sample.thread as usize];
            // A sample stands for the period before it. Where that does not reach back to the last
            // one the thread was idle, and without this mark the graph would spread the sample's
            // CPU time over the gap.
            let busy_from = sample.time_ns.saturating_sub(period_ns);
            if busy_from.saturating_sub(*busy_until) > period_ns / 2 {
                let idle_end = fx::Timestamp::from_nanos_since_reference(busy_from);
                document.add_sample(thread, idle_end, None, fx::CpuDelta::ZERO, 0);
            }
            *busy_until = sample.time_ns;

            let stack = self.stack(thread, sample, document);
            let time = fx::Timestamp::from_nanos_since_reference(sample.time_ns);
            document.add_sample(thread, time, stack, fx::CpuDelta::from_nanos(period_ns), 1);
        }
    }

    fn stack(
        &mut self,
        thread: fx::ThreadHandle,
        sample: &Sample,
        document: &mut fx::Profile,
    ) -> Option<fx::StackHandle> {
        *self.stacks.entry((sample.thread, sample.stack)).or_insert_with(|| {
            let frames = self.profile.stacks[sample.stack as usize].frames.iter().rev();
            let infos = frames.flat_map(|&frame| self.frames[frame as usize].iter().cloned());
            document.intern_stack_frames(thread, infos)
        })
    }
}
