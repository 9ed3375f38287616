//! The Firefox Profiler's processed profile: a timeline per thread, of samples and of blocks.
//!
//! `fxprof-processed-profile` writes the document. Its version 0.8 knows names of functions only;
//! [`source`] adds what we know besides: files, lines, inlining, libraries.

mod markers;
mod source;
mod stacks;
mod tables;

use std::io::{self, BufWriter, Write};
use std::time::{Duration, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use fxprof_processed_profile as fx;
use serde_json::Value;

use super::ExportError;
use super::checked::Checked;
use crate::model::{BinaryKind, Frame, Mode, Profile};
use stacks::StackHandles;

/// Writes the profile.
pub(super) fn write(
    profile: Checked<'_>,
    gzip: bool,
    writer: &mut dyn Write,
) -> Result<(), ExportError> {
    let document = document(profile.profile())?;
    // serde_json writes a few bytes at a time: both the file and the compressor need a buffer.
    if gzip {
        let mut gzip = BufWriter::new(GzEncoder::new(writer, Compression::fast()));
        serde_json::to_writer(&mut gzip, &document).map_err(io::Error::from)?;
        gzip.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?.flush()?;
    } else {
        let mut writer = BufWriter::new(writer);
        serde_json::to_writer(&mut writer, &document).map_err(io::Error::from)?;
        writer.flush()?;
    }
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
    let categories = Categories::new(profile.meta.mode, &mut document);
    let frames = frame_infos(profile, &categories, &mut document);
    let stacks = stacks::intern(profile, &frames, &threads, &mut document);
    add_samples(profile, &threads, &stacks, &mut document);
    if let Some(states) = &categories.states {
        markers::add(profile, &threads, &stacks, states, &mut document);
        markers::show_threads(profile, &threads, &mut document);
    }

    let mut document = serde_json::to_value(&document).map_err(io::Error::from)?;
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
fn frame_infos(
    profile: &Profile,
    categories: &Categories,
    document: &mut fx::Profile,
) -> Vec<Vec<fx::FrameInfo>> {
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

/// Kinds of code, and states: the colours of the activity graph.
struct Categories {
    user: fx::CategoryHandle,
    kernel: fx::CategoryHandle,
    bpf: fx::CategoryHandle,
    jit: fx::CategoryHandle,
    /// Where time off the CPU was measured.
    states: Option<markers::Categories>,
}

impl Categories {
    fn new(mode: Mode, document: &mut fx::Profile) -> Self {
        Self {
            user: document.add_category("User", fx::CategoryColor::Yellow),
            kernel: document.add_category("Kernel", fx::CategoryColor::Blue),
            bpf: document.add_category("BPF", fx::CategoryColor::Green),
            jit: document.add_category("JIT", fx::CategoryColor::Purple),
            states: mode.blocks().then(|| markers::Categories::new(document)),
        }
    }

    fn of(&self, profile: &Profile, frame: &Frame) -> fx::CategoryHandle {
        let Some(binary) = frame.binary else { return fx::CategoryHandle::OTHER };
        match profile.binaries[binary as usize].kind {
            BinaryKind::User | BinaryKind::Vdso => self.user,
            BinaryKind::Kernel => self.kernel,
            BinaryKind::Bpf => self.bpf,
            BinaryKind::Anonymous => self.jit,
            BinaryKind::State => {
                let line = frame.lines.first().map(|line| line.function as usize);
                match (&self.states, line) {
                    (Some(states), Some(function)) => {
                        states.of_frame(&profile.functions[function].name)
                    }
                    _ => fx::CategoryHandle::OTHER,
                }
            }
        }
    }
}

/// The samples, each in the timeline of its thread.
fn add_samples(
    profile: &Profile,
    threads: &[fx::ThreadHandle],
    stacks: &StackHandles,
    document: &mut fx::Profile,
) {
    let at = fx::Timestamp::from_nanos_since_reference;
    let period_ns = profile.meta.period_ns;
    let mut busy_until: Vec<u64> = profile.threads.iter().map(|thread| thread.start_ns).collect();
    for sample in &profile.samples {
        let thread = threads[sample.thread as usize];
        let busy_until = &mut busy_until[sample.thread as usize];
        // A sample stands for the period before it. Where that does not reach back to the last one
        // the thread was idle, and without this mark the graph would spread the sample's CPU time
        // over the gap.
        let busy_from = sample.time_ns.saturating_sub(period_ns);
        if busy_from.saturating_sub(*busy_until) > period_ns / 2 {
            document.add_sample(thread, at(busy_from), None, fx::CpuDelta::ZERO, 0);
        }
        *busy_until = sample.time_ns;

        let stack = stacks.get(&(sample.thread, sample.stack)).copied().flatten();
        let cpu = fx::CpuDelta::from_nanos(period_ns);
        document.add_sample(thread, at(sample.time_ns), stack, cpu, 1);
    }
}
