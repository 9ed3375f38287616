//! Warnings about a recording, and the JSON document of a recording with them. Each says what happened, how it affects the results, and what to do next.

mod text;

use std::collections::BTreeMap;

use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use wingbeat_text::shell_word;

use crate::{
    debuginfod::{Account, DownloadError},
    model::{BrokenReason, Mode},
    session::{TableCounts, Unwind},
    summary::{
        BrokenPlace, Summary, UnwindCounts,
        jit::{Interpreted, Jit, Nameless, Runtime},
        off_cpu::OffCpu,
    },
    symbolize::{Refused, Unusable},
};

/// A warning about a recording.
#[derive(Debug, Clone, PartialEq)]
pub enum ProfileWarning {
    NoSamples(NoSamples),
    /// Off-CPU time was requested, but hardly any occurred.
    NothingBlocked {
        /// Blocks shorter than the limit.
        below_limit: u64,
        below_limit_ns: u64,
        min_block_ns: u64,
    },
    /// Scheduler switches were recorded by the less precise method.
    FellBack {
        reason: String,
    },
    /// All blocked time was sleep, which was excluded.
    AllHidden {
        threads: u64,
    },
    /// The targets hardly used the CPU, so samples say little.
    HardlyRan {
        cpu_ns: u64,
        /// Length of the recording, in nanoseconds.
        duration_ns: u64,
        /// Command line that shows what they waited for.
        instead: String,
    },
    BlocksLost {
        lost: u64,
        of: u64,
        /// The most frequent reason.
        reason: &'static str,
    },
    /// Blocks lack part of their stack because the ring buffer was full.
    StacksLost {
        missing: u64,
        blocks: u64,
    },
    /// Stacks reused from an earlier block of the thread were wrong.
    ReusedWrong {
        wrong: u64,
        /// Number of reused stacks verified.
        checked: u64,
    },
    /// The threads' times do not add up.
    ThreadsOff {
        off: u64,
        threads: u64,
    },
    /// Samples were lost because the ring buffer was full.
    Lost {
        lost: u64,
        wanted: u64,
        /// Alternative to a larger buffer.
        or: &'static str,
    },
    /// Samples failed in the kernel.
    Failed {
        failed: u64,
        /// The most frequent error.
        error: String,
    },
    /// Stacks are short because code has no usable unwind information and no frame pointers.
    Broken {
        broken: u64,
        samples: u64,
        /// Unwind information was disabled.
        by_frame_pointers: bool,
        /// Files that caused it with their counts, most first.
        modules: Vec<(String, u64)>,
    },
    /// Stacks were truncated at the depth limit.
    Truncated {
        truncated: u64,
        samples: u64,
    },
    /// Unwind tables did not fit into their memory, so stacks were copied instead.
    TablesTight {
        limit_bytes: u64,
        /// Files whose tables did not fit.
        refused: u64,
        /// Number of evictions.
        evicted: u64,
        copied: u64,
        samples: u64,
        /// Stacks deeper than their copy.
        cut: u64,
    },
    /// Stacks reached code whose table was not loaded yet, and their copies were dropped or too short.
    CopiesCut {
        cut: u64,
        samples: u64,
    },
    /// Symbol files of a JIT compiler were rejected.
    NamesRefused {
        file: Refused,
        /// Number of further files.
        others: u64,
    },
    /// A file's debug information was not used, or was useless because the file has been replaced.
    DebugInfoUnusable {
        file: Unusable,
        /// Number of further files without a warning of their own.
        others: u64,
    },
    /// Much of a process's time was in JIT-compiled code without names.
    NamesMissing {
        process: Nameless,
        /// Stacks also break there.
        is_unframed: bool,
        /// Number of further processes of the same runtime.
        others: u64,
    },
    /// Stacks break in JIT-compiled code.
    Unframed {
        broken: u64,
        samples: u64,
        runtime: Option<Runtime>,
    },
    /// An interpreter runs the program, and samples show only the interpreter.
    Interpreted {
        process: Interpreted,
        /// Number of further processes of the same runtime.
        others: u64,
    },
    /// Files with code could not be opened for lack of descriptors.
    FilesUnopened {
        times: u64,
        limit: u64,
    },
    /// Debug information could not be fetched from the configured servers.
    DebugInfoMissing {
        /// The affected file with most samples, and the reason.
        file: String,
        error: DownloadError,
        /// Number of further files.
        others: u64,
    },
    /// Events about mappings were lost.
    EventsLost(u64),
    /// Children were not recorded.
    ChildrenLost(u64),
}

/// Why there are no samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoSamples {
    /// The recording was not much longer than the time between two ticks.
    TooShort {
        /// Length of the recording, in seconds.
        duration_s: f64,
        /// A frequency that yields some samples.
        frequency_hz: u64,
    },
    /// The targets hardly ran.
    Slept {
        /// CPU time of the targets, in seconds.
        cpu_s: f64,
        /// Length of the recording, in seconds.
        duration_s: f64,
    },
    /// All samples were lost or failed.
    NoneKept,
    /// All samples were in the excluded half of the stacks.
    OtherHalf,
}

impl ProfileWarning {
    /// Whether there is nothing to show.
    pub fn is_failure(&self) -> bool {
        matches!(
            self,
            Self::NoSamples(_)
                | Self::NothingBlocked { below_limit: 0, .. }
                | Self::AllHidden { .. }
        )
    }
}

/// Broken stacks below this share are normal: first instructions of programs, hand-written assembly.
const BROKEN_SHARE_MIN: f64 = 0.05;

/// Targets that used less than this share of the CPUs available to them count as idle.
const BUSY_SHARE_MIN: f64 = 0.05;

/// Maximum share of wrong stacks among the verified reused ones.
const WRONG_SHARE_MAX: f64 = 0.01;

/// Copied stacks below this share are normal: code that was mapped just before.
const COPIED_SHARE_MIN: f64 = 0.05;

/// Above this share of a process's samples, unnamed code hides what it does.
const NAMELESS_SHARE_MAX: f64 = 0.2;

/// Above this share of a process's samples, the interpreter hides what it does.
const INTERPRETED_SHARE_MAX: f64 = 0.5;

/// Minimum number of samples for a share to mean anything.
const NAMELESS_SAMPLES_MIN: u64 = 10;

/// Maximum number of files with a warning of their own when debug information is unusable.
const UNUSABLE_MAX: usize = 5;

/// Returns the warnings for a run, most severe first.
pub fn warnings(summary: &Summary, samples_kept: u64) -> Vec<ProfileWarning> {
    let ticks = &summary.ticks;
    let stacks = &summary.stacks;
    let mut warnings = Vec::new();
    match &summary.off_cpu {
        None if samples_kept == 0 => warnings.push(ProfileWarning::NoSamples(why_none(summary))),
        None => {}
        Some(off_cpu) => of_blocks(summary, off_cpu, samples_kept, &mut warnings),
    }
    if let Some(warning) = hardly_ran(summary, &warnings) {
        warnings.push(warning);
    }
    if ticks.lost > 0 {
        let wanted = ticks.lost + ticks.sampled;
        warnings.push(ProfileWarning::Lost { lost: ticks.lost, wanted, or: less_to_send(summary) });
    }
    if let Some((error, _)) = ticks.failed.iter().max_by_key(|(_, count)| **count) {
        let failed = ticks.failed_total();
        warnings.push(ProfileWarning::Failed { failed, error: error.clone() });
    }
    let taken = stacks.complete + stacks.truncated + stacks.broken;
    let share = |part: u64| part as f64 / taken.max(1) as f64;
    if summary.files_unopened > 0 {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(0);
        warnings.push(ProfileWarning::FilesUnopened { times: summary.files_unopened, limit });
    }
    let modules = stacks.broken_in(BrokenPlace::Build);
    let blamed = modules.iter().map(|(_, samples)| samples).sum();
    let in_memory = stacks.broken_in(BrokenPlace::Memory).iter().map(|(_, samples)| samples).sum();
    if share(in_memory) >= BROKEN_SHARE_MIN {
        let (samples, runtime) = (taken, summary.jit.unframed);
        warnings.push(ProfileWarning::Unframed { broken: in_memory, samples, runtime });
    }
    if share(blamed) >= BROKEN_SHARE_MIN {
        warnings.push(ProfileWarning::Broken {
            broken: blamed,
            samples: taken,
            by_frame_pointers: summary.unwind.mode == Unwind::FramePointer.name(),
            modules,
        });
    }
    if stacks.truncated > 0 {
        let truncated = stacks.truncated;
        warnings.push(ProfileWarning::Truncated { truncated, samples: taken });
    }
    warnings.extend(of_tables(summary, taken));
    let is_unframed = warnings.iter().any(|it| matches!(it, ProfileWarning::Unframed { .. }));
    of_names(&summary.jit, is_unframed, &mut warnings);
    let shown = &summary.unusable[..summary.unusable.len().min(UNUSABLE_MAX)];
    for (index, file) in shown.iter().enumerate() {
        let is_last = index + 1 == UNUSABLE_MAX;
        let others = if is_last { (summary.unusable.len() - UNUSABLE_MAX) as u64 } else { 0 };
        warnings.push(ProfileWarning::DebugInfoUnusable { file: file.clone(), others });
    }
    warnings.extend(summary.debuginfod.as_ref().and_then(of_downloads));
    if summary.events_lost > 0 {
        warnings.push(ProfileWarning::EventsLost(summary.events_lost));
    }
    if summary.children_lost > 0 {
        warnings.push(ProfileWarning::ChildrenLost(summary.children_lost));
    }
    warnings
}

/// Warns of tables that did not fit, if that affected the `taken` stacks.
fn of_tables(summary: &Summary, taken: u64) -> Option<ProfileWarning> {
    let UnwindCounts { tables, copied, .. } = &summary.unwind;
    let cut = summary.stacks.broken_by_reason.get(BrokenReason::NoTable.name());
    let cut = cut.copied().unwrap_or(0);
    let &TableCounts { limit_bytes, refused, evicted, .. } = tables.as_ref()?;
    let copied = (*copied).min(taken);
    let is_much = copied > 0 && copied as f64 >= COPIED_SHARE_MIN * taken as f64;
    if is_much && refused + evicted > 0 {
        let samples = taken;
        return Some(ProfileWarning::TablesTight {
            limit_bytes,
            refused,
            evicted,
            copied,
            samples,
            cut,
        });
    }
    let is_much = cut > 0 && cut as f64 >= BROKEN_SHARE_MIN * taken as f64;
    is_much.then_some(ProfileWarning::CopiesCut { cut, samples: taken })
}

fn of_blocks(
    summary: &Summary,
    off_cpu: &OffCpu,
    samples_kept: u64,
    warnings: &mut Vec<ProfileWarning>,
) {
    let switches = &off_cpu.switches;
    if switches.reported + switches.still_blocked == 0 {
        // If samples were taken too, running all the time is not a failure.
        if summary.mode == Mode::OffCpu.name() {
            warnings.push(ProfileWarning::NothingBlocked {
                below_limit: switches.below_limit,
                below_limit_ns: switches.below_limit_ns,
                min_block_ns: off_cpu.min_block_ns,
            });
        } else if samples_kept == 0 && switches.below_limit == 0 {
            warnings.push(ProfileWarning::NoSamples(why_none(summary)));
        }
    } else if off_cpu.idle_hidden > 0 && summary.outputs.is_empty() {
        warnings.push(ProfileWarning::AllHidden { threads: off_cpu.idle_hidden });
    }
    if let Some(reason) = &off_cpu.fell_back {
        warnings.push(ProfileWarning::FellBack { reason: reason.clone() });
    }
    let lost = switches.lost_total();
    if let Some((reason, _)) = switches.lost.iter().max_by_key(|(_, count)| **count)
        && lost > 0
    {
        let of = switches.out + switches.born + switches.begun_before;
        warnings.push(ProfileWarning::BlocksLost { lost, of, reason });
    }
    let taken = &off_cpu.stacks_taken;
    if taken.missing > 0 {
        let blocks = switches.reported + switches.still_blocked;
        warnings.push(ProfileWarning::StacksLost { missing: taken.missing, blocks });
    }
    if taken.wrong as f64 > WRONG_SHARE_MAX * taken.checked as f64 {
        warnings.push(ProfileWarning::ReusedWrong { wrong: taken.wrong, checked: taken.checked });
    }
    if off_cpu.threads_off > 0 {
        let threads = off_cpu.threads.len() as u64;
        warnings.push(ProfileWarning::ThreadsOff { off: off_cpu.threads_off, threads });
    }
}

/// Warns of rejected symbol files and of processes without one: one warning per runtime.
fn of_names(jit: &Jit, is_unframed: bool, warnings: &mut Vec<ProfileWarning>) {
    if let Some((file, others)) = jit.refused.split_first() {
        let (file, others) = (file.clone(), others.len() as u64);
        warnings.push(ProfileWarning::NamesRefused { file, others });
    }
    let is_refused = |pid: u32| jit.refused.iter().any(|file| file.pid == pid);
    let mut by_runtime: BTreeMap<Option<Runtime>, (&Nameless, u64)> = BTreeMap::new();
    for process in &jit.nameless {
        let Nameless { pid, runtime, samples, nameless, .. } = process;
        let is_much = *nameless as f64 > NAMELESS_SHARE_MAX * *samples as f64;
        if is_much && *samples >= NAMELESS_SAMPLES_MIN && !is_refused(*pid) {
            let first = by_runtime.entry(*runtime);
            first.and_modify(|(_, others)| *others += 1).or_insert((process, 0));
        }
    }
    for (process, others) in by_runtime.values() {
        let process = (*process).clone();
        // The same advice covers names and frame pointers, or both are in one warning.
        let is_unframed = is_unframed && process.runtime == jit.unframed;
        if is_unframed {
            warnings.retain(|it| !matches!(it, ProfileWarning::Unframed { .. }));
        }
        warnings.push(ProfileWarning::NamesMissing { process, is_unframed, others: *others });
    }
    let mut by_loop: BTreeMap<Runtime, (&Interpreted, u64)> = BTreeMap::new();
    for process in &jit.interpreted {
        let Interpreted { runtime, samples, interpreted, .. } = process;
        let is_much = *interpreted as f64 > INTERPRETED_SHARE_MAX * *samples as f64;
        // Its JIT-compiled code lacks names too, and has a warning already.
        if is_much && *samples >= NAMELESS_SAMPLES_MIN && !by_runtime.contains_key(&Some(*runtime))
        {
            let first = by_loop.entry(*runtime);
            first.and_modify(|(_, others)| *others += 1).or_insert((process, 0));
        }
    }
    for (process, others) in by_loop.into_values() {
        warnings.push(ProfileWarning::Interpreted { process: process.clone(), others });
    }
}

/// Warns of debug information that could not be fetched. Files that no server has are not failures.
fn of_downloads(account: &Account) -> Option<ProfileWarning> {
    let mut failed =
        account.files.iter().filter_map(|asked| Some((&asked.path, asked.error.as_ref()?)));
    let (path, error) = failed.next()?;
    let file = path.rsplit('/').next().unwrap_or(path).to_owned();
    let others = failed.count() as u64;
    Some(ProfileWarning::DebugInfoMissing { file, error: error.clone(), others })
}

/// Option that reduces the data sent through the buffer. Blocks, if recorded, are most of it.
fn less_to_send(summary: &Summary) -> &'static str {
    if summary.off_cpu.is_some() { "a longer --min-block" } else { "a lower --frequency" }
}

/// Warns that samples of sleeping targets say little, with an alternative.
fn hardly_ran(summary: &Summary, warnings: &[ProfileWarning]) -> Option<ProfileWarning> {
    if summary.off_cpu.is_some() {
        return None;
    }
    let slept = match warnings.first() {
        Some(ProfileWarning::NoSamples(NoSamples::Slept { .. })) => true,
        Some(_) => false,
        None => {
            // Many short-lived threads, or more threads than CPUs, cannot all run at once.
            let at_once = f64::from(summary.threads.min(summary.cpus).max(1));
            let could_ns = summary.duration_ns as f64 * at_once;
            (summary.target_cpu_time_ns as f64) < BUSY_SHARE_MIN * could_ns
        }
    };
    slept.then(|| ProfileWarning::HardlyRan {
        cpu_ns: summary.target_cpu_time_ns,
        duration_ns: summary.duration_ns,
        instead: in_mode(&summary.command_line, Mode::OffCpu),
    })
}

/// The command line with another mode, quoted for a shell.
fn in_mode(command_line: &[String], mode: Mode) -> String {
    let mut words: Vec<String> =
        command_line.iter().map(|word| shell_word(word).into_owned()).collect();
    let verb = words.iter().position(|word| word == "profile").map_or(words.len(), |at| at + 1);
    words.splice(verb..verb, ["--mode".to_owned(), mode.name().to_owned()]);
    words.join(" ")
}

fn why_none(summary: &Summary) -> NoSamples {
    let ticks = &summary.ticks;
    let duration_s = summary.duration_ns as f64 / 1e9;
    let cpu_s = summary.target_cpu_time_ns as f64 / 1e9;
    if ticks.sampled > 0 {
        NoSamples::OtherHalf
    } else if ticks.lost + ticks.failed_total() > 0 {
        NoSamples::NoneKept
    } else if duration_s * (summary.frequency_hz as f64) < 5.0 {
        let wanted = (50.0 / duration_s.max(1e-3)).ceil() as u64;
        NoSamples::TooShort { duration_s, frequency_hz: wanted.clamp(99, 9_999) }
    } else {
        NoSamples::Slept { cpu_s, duration_s }
    }
}

/// Incremented when a field is renamed or removed.
const SCHEMA_VERSION: u32 = 1;

/// The JSON of a recording: its summary and warnings.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema_version: u32,
    #[serde(flatten)]
    summary: &'a Summary,
    warnings: Vec<wingbeat_text::Warning>,
}

impl<'a> Document<'a> {
    /// Creates the document of a recording with `samples_kept` shown samples.
    pub fn of(summary: &'a Summary, samples_kept: u64) -> Self {
        let warnings = warnings(summary, samples_kept).iter().map(ProfileWarning::text).collect();
        Self { schema_version: SCHEMA_VERSION, summary, warnings }
    }
}

#[cfg(test)]
mod tests;
