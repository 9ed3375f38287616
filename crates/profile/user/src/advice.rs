//! What a user should know about a recording before believing it. Each warning says what happened,
//! what it does to the figures, and what to do next.

mod downloads;
mod text;

use std::collections::BTreeMap;

use rustix::process::{Resource, getrlimit};
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
    symbolize::refused::{Refused, Unusable},
};

/// Something to know about a recording.
#[derive(Debug, Clone, PartialEq)]
pub enum ProfileWarning {
    NoSamples(NoSamples),
    /// Time off the CPU was to be measured, and there was none to speak of.
    NothingBlocked {
        /// Blocks that were shorter than the limit.
        below_limit: u64,
        below_limit_ns: u64,
        min_block_ns: u64,
    },
    /// The scheduler was watched by the poorer way.
    FellBack {
        reason: String,
    },
    /// What was blocked slept all the time, and was to be left out.
    AllHidden {
        threads: u64,
    },
    /// The targets hardly used the CPU, which is all that samples tell of.
    HardlyRan {
        cpu_ns: u64,
        /// Length of the recording, nanoseconds.
        duration_ns: u64,
        /// The command line that tells what they waited for.
        instead: String,
    },
    BlocksLost {
        lost: u64,
        of: u64,
        /// The most frequent reason.
        reason: &'static str,
    },
    /// Blocks lack a part of their stack, because the ring buffer was full.
    StacksLost {
        missing: u64,
        blocks: u64,
    },
    /// Stacks that were taken from an earlier block of the thread were not those of the block.
    ReusedWrong {
        wrong: u64,
        /// Of how many that were looked at.
        checked: u64,
    },
    /// The times of threads do not add up.
    ThreadsOff {
        off: u64,
        threads: u64,
    },
    /// Samples were lost because the ring buffer was full.
    Lost {
        lost: u64,
        wanted: u64,
        /// What helps, but a larger buffer.
        or: &'static str,
    },
    /// Samples failed in the kernel.
    Failed {
        failed: u64,
        /// The most frequent error.
        error: String,
    },
    /// Stacks are short because code has no unwind information that could be used, and keeps no frame
    /// pointers.
    Broken {
        broken: u64,
        samples: u64,
        /// Unwind information was not to be used.
        by_frame_pointers: bool,
        /// The files to blame, with their counts, most first.
        modules: Vec<(String, u64)>,
    },
    /// Stacks were cut at the limit of depth.
    Truncated {
        truncated: u64,
        samples: u64,
    },
    /// Unwind tables found no room, so that stacks were copied instead.
    TablesTight {
        limit_bytes: u64,
        /// Files that found no room.
        refused: u64,
        /// How often one made room for others.
        evicted: u64,
        copied: u64,
        samples: u64,
        /// Stacks that are deeper than their copy.
        cut: u64,
    },
    /// Stacks met code whose table was not there yet, and their copies found no room, or were too short.
    CopiesCut {
        cut: u64,
        samples: u64,
    },
    /// Files that name code of a JIT compiler were not believed.
    NamesRefused {
        file: Refused,
        /// How many more there are.
        others: u64,
    },
    /// A file's debug information was not used, or names nothing since another file took its place.
    DebugInfoUnusable {
        file: Unusable,
        /// How many more there are that have no warning of their own.
        others: u64,
    },
    /// Much of what a process ran is code of a JIT compiler that has no names.
    NamesMissing {
        process: Nameless,
        /// Stacks break there as well.
        is_unframed: bool,
        /// How many more processes of the same runtime there are.
        others: u64,
    },
    /// Stacks break in code that a compiler made while its process ran.
    Unframed {
        broken: u64,
        samples: u64,
        runtime: Option<Runtime>,
    },
    /// An interpreter runs what a process does, and shows only itself.
    Interpreted {
        process: Interpreted,
        /// How many more processes of the same runtime there are.
        others: u64,
    },
    /// Files with code found no descriptor.
    FilesUnopened {
        times: u64,
        limit: u64,
    },
    /// Debug information could not be had from the servers that were to be asked.
    DebugInfoMissing {
        /// The file with most samples of those, and why.
        file: String,
        error: DownloadError,
        /// How many more there are.
        others: u64,
    },
    /// Events about mappings were lost.
    EventsLost(u64),
    /// Children were not followed.
    ChildrenLost(u64),
}

/// Why there are no samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoSamples {
    /// The recording was shorter than the time between two ticks or little more.
    TooShort {
        /// Its length, seconds.
        duration_s: f64,
        /// A frequency that gives some samples.
        frequency_hz: u64,
    },
    /// The targets hardly ran.
    Slept {
        /// Their CPU time, seconds.
        cpu_s: f64,
        /// Length of the recording, seconds.
        duration_s: f64,
    },
    /// There were some, all lost or failed.
    NoneKept,
    /// Only samples of the other half of the stacks.
    OtherHalf,
}

impl ProfileWarning {
    /// Is there nothing to show?
    pub fn is_failure(&self) -> bool {
        matches!(
            self,
            Self::NoSamples(_)
                | Self::NothingBlocked { below_limit: 0, .. }
                | Self::AllHidden { .. }
        )
    }
}

/// Broken stacks below this share are ordinary: first instructions of programs, hand-written
/// assembly.
const BROKEN_SHARE_MIN: f64 = 0.05;

/// Targets that used less than this of the CPUs that they could have used are idle ones.
const BUSY_SHARE_MIN: f64 = 0.05;

/// Reused stacks that may be wrong, as a share of those that were looked at.
const WRONG_SHARE_MAX: f64 = 0.01;

/// Copies of stacks below this share are ordinary: those of code that was mapped just before.
const COPIED_SHARE_MIN: f64 = 0.05;

/// Code without names in more of the samples of a process hides what it does.
const NAMELESS_SHARE_MAX: f64 = 0.2;

/// Most of what a process does is what an interpreter runs.
const INTERPRETED_SHARE_MAX: f64 = 0.5;

/// A share of fewer samples is no share.
const NAMELESS_SAMPLES_MIN: u64 = 10;

/// Files that have a warning of their own, where the debug information of many is not to be used.
const UNUSABLE_MAX: usize = 5;

/// The warnings that a run deserves, the gravest first.
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

/// Tables that found no room, if that made a difference to the `taken` stacks.
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
        // Where samples were taken as well, running all the time is no failure.
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

/// Files with names that were not believed, and processes that nobody asked for names: one warning for
/// each runtime.
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
        // What gives names to code gives it frame pointers, or is told with what does.
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
        // What its compiler makes has the same names, and is told already.
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

/// Debug information that could not be had. What no server has is no failure.
fn of_downloads(account: &Account) -> Option<ProfileWarning> {
    let mut failed =
        account.files.iter().filter_map(|asked| Some((&asked.path, asked.error.as_ref()?)));
    let (path, error) = failed.next()?;
    let file = path.rsplit('/').next().unwrap_or(path).to_owned();
    let others = failed.count() as u64;
    Some(ProfileWarning::DebugInfoMissing { file, error: error.clone(), others })
}

/// What to ask for so that less goes through the buffer: blocks are what fills it where there are any.
fn less_to_send(summary: &Summary) -> &'static str {
    if summary.off_cpu.is_some() { "a longer --min-block" } else { "a lower --frequency" }
}

/// Samples of targets that sleep tell little: says so, and what to do instead.
fn hardly_ran(summary: &Summary, warnings: &[ProfileWarning]) -> Option<ProfileWarning> {
    if summary.off_cpu.is_some() {
        return None;
    }
    let slept = match warnings.first() {
        Some(ProfileWarning::NoSamples(NoSamples::Slept { .. })) => true,
        Some(_) => false,
        None => {
            // Many threads that live shortly, or more than there are CPUs, cannot all run.
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

/// The command line with another mode, fit for a shell.
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

#[cfg(test)]
mod tests;
