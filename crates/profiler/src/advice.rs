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

/// Warnings by recording.
#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::counts::{Switches, Ticks};
    use crate::debuginfod::{Asked, BuildId, Outcome};
    use crate::summary::{BrokenIn, off_cpu::Reused};

    /// A CPU-time recording of one second on two CPUs with one busy thread.
    fn summary() -> Summary {
        Summary {
            command_line: ["wingbeat", "profile", "-o", "it's.svg", "--pid", "7"]
                .map(str::to_owned)
                .into(),
            mode: Mode::OnCpu.name(),
            duration_ns: 1_000_000_000,
            frequency_hz: 99,
            cpus: 2,
            ticks: Ticks { sampled: 99, ..Ticks::default() },
            target_cpu_time_ns: 1_000_000_000,
            processes: 1,
            threads: 1,
            ..Summary::default()
        }
    }

    /// Same as [`summary`] in another mode, with a thousand blocks.
    fn blocked(mode: Mode) -> (Summary, OffCpu) {
        let off_cpu = OffCpu {
            min_block_ns: 1_000,
            switches: Switches { out: 1_000, reported: 1_000, ..Switches::default() },
            stacks_taken: Reused {
                walked: 100,
                reused: 900,
                checked: 100,
                wrong: 1,
                ..Reused::default()
            },
            ..OffCpu::default()
        };
        (Summary { mode: mode.name(), ..summary() }, off_cpu)
    }

    #[test]
    fn targets_that_hardly_ran_are_sent_to_the_other_mode() {
        let check = |cpu_ms: u64, threads: u32, samples: u64, expected: &[&str]| {
            let mut summary = summary();
            summary.target_cpu_time_ns = cpu_ms * 1_000_000;
            summary.threads = threads;
            summary.ticks.sampled = samples;
            let texts: Vec<String> =
                warnings(&summary, samples).iter().map(ProfileWarning::to_string).collect();
            assert_eq!(texts.len(), expected.len(), "{texts:?}");
            for (text, expected) in texts.iter().zip(expected) {
                assert!(text.starts_with(expected), "{text}");
            }
        };
        check(1_000, 1, 99, &[]);
        check(51, 1, 5, &[]);
        check(49, 1, 5, &["the target ran for 49.0 ms of 1.00 s"]);
        check(99, 2, 9, &["the target ran for 99.0 ms of 1.00 s"]);
        // A hundred threads share two CPUs.
        check(101, 100, 9, &[]);
        check(2, 0, 0, &["no samples", "the target ran for 2.00 ms of 1.00 s"]);
    }

    #[test]
    fn the_other_mode_comes_with_its_command_line() {
        let check = |words: &[&str], expected| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(in_mode(&words, Mode::OffCpu), expected);
        };
        check(&["wingbeat", "profile", "-p", "7"], "wingbeat profile --mode off-cpu -p 7");
        check(
            &["/bin/wingbeat", "-q", "profile", "--", "sh", "-c", "profile it's; a"],
            r"/bin/wingbeat -q profile --mode off-cpu -- sh -c 'profile it'\''s; a'",
        );
        check(&["wingbeat", "profile", ""], "wingbeat profile --mode off-cpu ''");
    }

    /// `expected` is the only warning, or empty for none.
    fn check_blocks(mode: Mode, change: fn(&mut OffCpu), is_failure: bool, expected: &str) {
        let (mut summary, mut off_cpu) = blocked(mode);
        change(&mut off_cpu);
        summary.off_cpu = Some(off_cpu);
        let samples = if mode == Mode::OffCpu { 0 } else { 99 };
        let found = warnings(&summary, samples);
        let texts: Vec<String> = found.iter().map(ProfileWarning::to_string).collect();
        assert_eq!(texts.join("\n"), expected);
        assert_eq!(found.iter().any(ProfileWarning::is_failure), is_failure);
    }

    #[test]
    fn accounts_of_blocks_give_warnings() {
        let check = check_blocks;
        check(Mode::OffCpu, |_| (), false, "");
        check(Mode::Wall, |it| it.switches = Switches::default(), false, "");
        check(
            Mode::OffCpu,
            |it| it.switches = Switches::default(),
            true,
            "no thread of the target left the CPU, so nothing was written: it ran all the time; use \
         --mode on-cpu to see where",
        );
        check(
            Mode::OffCpu,
            |it| {
                it.switches.reported = 0;
                it.switches.below_limit = 1_000;
                it.switches.below_limit_ns = 700_000;
            },
            false,
            "all 1000 blocks were shorter than 1.00 µs (700 µs in total): the target ran nearly all the \
         time; use --mode on-cpu to see where, or a shorter --min-block to see the blocks",
        );
        check(
            Mode::Wall,
            |it| it.switches.lost = BTreeMap::from([("buffer_full", 20), ("forgotten", 1)]),
            false,
            "21 of 1000 blocks (2.1 %) were lost, most because the buffer was full: times off the CPU \
         are too small; use a larger --buffer-size or a longer --min-block",
        );
        check(
            Mode::OffCpu,
            |it| it.stacks_taken.missing = 5,
            false,
            "5 of 1000 blocks (0.50 %) lack a part of their stack, because the buffer was full; use a \
         larger --buffer-size or a longer --min-block",
        );
        check(
            Mode::OffCpu,
            |it| it.stacks_taken.wrong = 2,
            false,
            "2.0 % of reused stacks failed the spot check (2 of 100): outer callers may be wrong",
        );
        check(
            Mode::Wall,
            |it| it.threads_off = 3,
            false,
            "the times of 3 of 0 threads differ from their elapsed time by more than 1 %: some of their \
         blocks are missing or counted twice",
        );
        check(
            Mode::OffCpu,
            |it| it.idle_hidden = 1,
            true,
            "1 thread slept the whole time: --hide-idle hid it, so nothing was written; \
         record without it",
        );
    }

    #[test]
    fn files_with_names_that_were_not_believed() {
        let file = |pid| Refused {
            pid,
            path: format!("/tmp/perf-{pid}.map"),
            reason: "it is a symbolic link".to_owned(),
        };
        let check = |pids: &[u32], expected: &[&str]| {
            let mut summary = summary();
            summary.jit.refused = pids.iter().copied().map(file).collect();
            let texts: Vec<String> =
                warnings(&summary, 99).iter().map(ProfileWarning::to_string).collect();
            assert_eq!(texts, expected);
        };
        check(&[], &[]);
        check(
            &[7],
            &[
                "/tmp/perf-7.map of PID 7 was not used, because it is a symbolic link: code of its JIT \
           compiler has no names; make it a regular file that belongs to the user of the process",
            ],
        );
        check(
            &[7, 8],
            &[
                "/tmp/perf-7.map of PID 7 was not used, because it is a symbolic link (and 1 more): \
           code of its JIT compiler has no names; make it a regular file that belongs to the user of \
           the process",
            ],
        );
    }

    #[test]
    fn debug_information_that_could_not_be_had() {
        let asked = |path: &str, error: Option<DownloadError>| Asked {
            path: path.to_owned(),
            build_id: BuildId::new(&[1]).expect("a build id"),
            outcome: if error.is_some() { Outcome::Failed } else { Outcome::NotFound },
            error,
        };
        let check = |files: Vec<Asked>, expected: &[&str]| {
            let mut summary = summary();
            summary.debuginfod = Some(Account { bytes: 0, files });
            let texts: Vec<String> =
                warnings(&summary, 99).iter().map(ProfileWarning::to_string).collect();
            assert_eq!(texts, expected);
        };
        let late = || Some(DownloadError::TimeIsUp { limit_s: 30 });
        check(vec![asked("/lib/a.so", None)], &[]);
        check(
            vec![asked("/lib/a.so", None), asked("/lib/b.so", late())],
            &[
                "debug information of b.so was not downloaded, because the 30 s for downloads were over: \
           functions that it does not export appear as addresses, and all lack source lines; record \
           again with a larger DEBUGINFOD_MAXTIME, in seconds; what was downloaded is kept",
            ],
        );
        let server = "https://a".to_owned();
        check(
            vec![
                asked("c", Some(DownloadError::Status { server, status: 500 })),
                asked("/lib/b.so", late()),
            ],
            &[
                "debug information of c (and 1 more) was not downloaded, because https://a answered with \
           status 500: functions that it does not export appear as addresses, and all lack source \
           lines; check the address, try another server, or record again later",
            ],
        );
    }

    #[test]
    fn processes_whose_code_has_no_names() {
        let process = |pid, runtime, samples, nameless| Nameless {
            pid,
            process: "MainThread".to_owned(),
            runtime,
            samples,
            nameless,
        };
        let check = |processes: &[Nameless], refused: &[u32], expected: &[(&str, &str)]| {
            let mut summary = summary();
            summary.jit.nameless = processes.to_vec();
            summary.jit.refused = refused
                .iter()
                .map(|&pid| Refused { pid, path: String::new(), reason: String::new() })
                .collect();
            let texts: Vec<String> = warnings(&summary, 99)
                .iter()
                .filter(|warning| matches!(warning, ProfileWarning::NamesMissing { .. }))
                .map(ProfileWarning::to_string)
                .collect();
            assert_eq!(texts.len(), expected.len(), "{texts:?}");
            for (text, (start, end)) in texts.iter().zip(expected) {
                assert!(text.starts_with(start) && text.ends_with(end), "{text}");
            }
        };
        let node = Some(Runtime::Node);
        check(&[process(7, node, 100, 20)], &[], &[]);
        check(&[process(7, node, 9, 9)], &[], &[]);
        check(&[process(7, node, 100, 21)], &[7], &[]);
        check(
            &[process(7, node, 100, 21)],
            &[8],
            &[(
                "21 % of the samples of MainThread (PID 7) contain code of a JIT compiler without names: \
             all of it appears as one function, [anon]; start Node with --perf-basic-prof",
                "for functions that it interprets",
            )],
        );
        check(
            &[
                process(7, None, 100, 90),
                process(8, node, 100, 80),
                process(9, node, 100, 70),
                process(6, Some(Runtime::Python), 100, 60),
                process(5, Some(Runtime::Java), 100, 50),
            ],
            &[],
            &[
                ("90 % of the samples of MainThread (PID 7) contain", "most have a flag for it"),
                ("80 % of the samples of MainThread (PID 8) (and 1 more) contain", "interprets"),
                ("60 %", "start Python (3.12 or later) with -X perf"),
                ("50 %", "-XX:+PreserveFramePointer"),
            ],
        );
    }

    #[test]
    fn tables_that_find_no_room_are_reported_if_it_matters() {
        let check = |tables: Option<(u64, u64, u64)>, copied, cut, expected: &str| {
            let mut summary = summary();
            summary.stacks.complete = 99 - cut;
            summary.stacks.broken = cut;
            summary.stacks.broken_by_reason = BTreeMap::from([("no_table_yet", cut)]);
            let tables = tables.map(|(mib, refused, evicted)| TableCounts {
                limit_bytes: mib << 20,
                refused,
                evicted,
                ..TableCounts::default()
            });
            summary.unwind = UnwindCounts { mode: "auto", tables, copied };
            let texts: Vec<String> =
                warnings(&summary, 99).iter().map(ProfileWarning::to_string).collect();
            assert_eq!(texts.join("\n"), expected);
        };
        check(None, 0, 0, "");
        check(Some((1, 0, 0)), 99, 0, "");
        check(Some((1, 1, 1)), 4, 0, "");
        check(
            Some((1, 1, 2)),
            33,
            0,
            "the unwind tables did not fit into 1M: 1 file found no room, and tables made room for \
         others 2 times: 33.3 % of the stacks were copied instead, which costs time; use a larger \
         --unwind-memory",
        );
        check(
            Some((64, 0, 1)),
            200,
            3,
            "the unwind tables did not fit into 64M: tables made room for others 1 time: 100 % of the stacks were copied instead, which costs time, and 3 are cut where \
         their copy ends; record fewer processes",
        );
        check(Some((64, 0, 0)), 33, 4, "");
        check(
            Some((64, 0, 0)),
            33,
            5,
            "5.1 % of the stacks met code whose unwind table was not built yet, and their copies did not fit \
         into the ring buffer: callers are missing there; use a larger --buffer-size, such as 64M, or \
         record for longer: tables stay once they are built",
        );
    }

    #[test]
    fn what_fills_the_buffer_is_to_be_made_less() {
        let check = |mode, expected: &str| {
            let (mut summary, off_cpu) = blocked(mode);
            summary.off_cpu = mode.blocks().then_some(off_cpu);
            summary.ticks.lost = 1;
            let texts: Vec<String> =
                warnings(&summary, 99).iter().map(ProfileWarning::to_string).collect();
            assert_eq!(texts.len(), 1, "{texts:?}");
            assert!(texts.iter().all(|text| text.ends_with(expected)), "{texts:?}");
        };
        check(Mode::OnCpu, "a larger --buffer-size or a lower --frequency");
        check(Mode::OffCpu, "a larger --buffer-size or a longer --min-block");
        check(Mode::Wall, "a larger --buffer-size or a longer --min-block");
    }

    /// What is advised about 99 complete stacks that were changed.
    fn texts(change: &dyn Fn(&mut Summary)) -> Vec<String> {
        let mut summary = summary();
        summary.stacks.complete = 99;
        change(&mut summary);
        warnings(&summary, 99).iter().map(ProfileWarning::to_string).collect()
    }

    #[test]
    fn advice_fits_what_broke_or_was_interpreted() {
        let broken = |place, runtime, nameless: u64| {
            texts(&|summary| {
                summary.stacks.complete = 19;
                summary.stacks.broken = 80;
                let (reason, file) = (BrokenReason::NoFramePointer.name(), "a".to_owned());
                summary.stacks.broken_by_file = vec![BrokenIn { reason, file, count: 80, place }];
                summary.jit.unframed = runtime;
                let process = Nameless { runtime, samples: 99, nameless, ..Nameless::default() };
                summary.jit.nameless = vec![process];
            })
        };
        let check = |texts: Vec<String>, expected: &[(&str, &str)]| {
            assert_eq!(texts.len(), expected.len(), "{texts:?}");
            for (text, (start, end)) in texts.iter().zip(expected) {
                assert!(text.starts_with(start) && text.ends_with(end), "{text}");
            }
        };
        let java = Some(Runtime::Java);
        let with_names = "80.8 % of the stacks end too early, in code that was made while it ran";
        let rebuild = "for C and C++";
        check(
            broken(BrokenPlace::Build, None, 0),
            &[("80.8 % of the stacks end too early", rebuild)],
        );
        // The file cannot be built, its kind is unknown, or no information is missing.
        check(broken(BrokenPlace::Memory, java, 0), &[(with_names, "-XX:+PreserveFramePointer")]);
        check(broken(BrokenPlace::Memory, None, 0), &[(with_names, "a flag for frame pointers")]);
        check(broken(BrokenPlace::Unknown, None, 0), &[]);
        check(broken(BrokenPlace::NewStack, None, 0), &[]);
        // One warning covers both.
        check(
            broken(BrokenPlace::Memory, java, 90),
            &[("90.9 % of the samples", "PreserveFramePointer")],
        );

        let interpreted = |runtime, version, interpreted| {
            texts(&|summary| {
                summary.jit.interpreted = vec![Interpreted {
                    pid: 7,
                    process: "p".to_owned(),
                    runtime,
                    version,
                    function: "loop".to_owned(),
                    samples: 99,
                    interpreted,
                }];
            })
        };
        let begins = "60.6 % of the samples of p (PID 7) are of functions that ";
        let says = |runtime, version, end: &str| {
            check(interpreted(runtime, version, 60), &[(begins, end)]);
        };
        says(Runtime::Python, Some((3, 11)), "Python 3.12 and later tells them with -X perf");
        says(Runtime::Python, Some((3, 12)), "py-spy record --pid 7");
        says(
            Runtime::Ruby,
            Some((3, 1)),
            "Ruby 3.3 and later names what it compiles with --yjit --yjit-perf",
        );
        says(Runtime::Php, None, "opcache.jit_debug=0x10");
        says(Runtime::Perl, None, "perl -d:NYTProf");
        says(Runtime::Erlang, None, "+JPperf true");
        says(Runtime::LuaJit, None, "luajit -jp");
        check(interpreted(Runtime::Perl, None, 40), &[]);
        let unopened = texts(&|summary| summary.files_unopened = 3);
        check(unopened, &[("3 files could not be opened, because", "or record fewer processes")]);
    }
}
