//! What a user should know about a recording before believing it. Each warning says what happened,
//! what it does to the figures, and what to do next.

use std::{collections::BTreeMap, fmt};

use wingbeat_profile_common::USER_FRAMES_MAX;

use wingbeat_text::{duration, plural, share};

use crate::model::Mode;
use crate::session::Unwind;
use crate::summary::{
    Summary,
    jit::{Jit, Nameless, Runtime},
    off_cpu::OffCpu,
};
use crate::symbolize::refused::Refused;

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
    /// Files that name code of a JIT compiler were not believed.
    NamesRefused {
        file: Refused,
        /// How many more there are.
        others: u64,
    },
    /// Much of what a process ran is code of a JIT compiler that has no names.
    NamesMissing {
        process: Nameless,
        /// How many more processes of the same runtime there are.
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

/// Code without names in more of the samples of a process hides what it does.
const NAMELESS_SHARE_MAX: f64 = 0.2;

/// A share of fewer samples is no share.
const NAMELESS_SAMPLES_MIN: u64 = 10;

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
    let modules = stacks.broken_by_build();
    let blamed = modules.iter().map(|(_, samples)| samples).sum();
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
    of_names(&summary.jit, &mut warnings);
    if summary.events_lost > 0 {
        warnings.push(ProfileWarning::EventsLost(summary.events_lost));
    }
    if summary.children_lost > 0 {
        warnings.push(ProfileWarning::ChildrenLost(summary.children_lost));
    }
    warnings
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
fn of_names(jit: &Jit, warnings: &mut Vec<ProfileWarning>) {
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
    for (process, others) in by_runtime.into_values() {
        warnings.push(ProfileWarning::NamesMissing { process: process.clone(), others });
    }
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
    let mut words: Vec<String> = command_line.iter().map(|word| quoted(word)).collect();
    let verb = words.iter().position(|word| word == "profile").map_or(words.len(), |at| at + 1);
    words.splice(verb..verb, ["--mode".to_owned(), mode.name().to_owned()]);
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
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

impl ProfileWarning {
    /// Name for machines, which stays the same from version to version.
    fn code(&self) -> &'static str {
        match self {
            Self::NoSamples(_) => "no-samples",
            Self::NothingBlocked { .. } => "nothing-blocked",
            Self::FellBack { .. } => "fell-back",
            Self::AllHidden { .. } => "all-hidden",
            Self::HardlyRan { .. } => "hardly-ran",
            Self::BlocksLost { .. } => "blocks-lost",
            Self::StacksLost { .. } => "stacks-lost",
            Self::ReusedWrong { .. } => "reused-wrong",
            Self::ThreadsOff { .. } => "threads-off",
            Self::Lost { .. } => "samples-lost",
            Self::Failed { .. } => "samples-failed",
            Self::Broken { .. } => "stacks-broken",
            Self::Truncated { .. } => "stacks-truncated",
            Self::NamesRefused { .. } => "names-refused",
            Self::NamesMissing { .. } => "names-missing",
            Self::EventsLost(_) => "events-lost",
            Self::ChildrenLost(_) => "children-lost",
        }
    }

    /// The warning as every report of wingbeat writes it.
    pub fn text(&self) -> wingbeat_text::Warning {
        wingbeat_text::Warning::new(self.code(), self.cause(), self.effect(), self.next_step())
    }

    fn cause(&self) -> String {
        match self {
            Self::NoSamples(_) => "no samples, so nothing was written".to_owned(),
            Self::NothingBlocked { below_limit: 0, .. } => {
                "no thread of the target left the CPU, so nothing was written".to_owned()
            }
            Self::NothingBlocked { below_limit, below_limit_ns, min_block_ns } => {
                let (limit, sum) = (duration(*min_block_ns), duration(*below_limit_ns));
                format!("all {below_limit} blocks were shorter than {limit} ({sum} in total)")
            }
            Self::FellBack { reason } => format!(
                "the kernel refused tp_btf for the scheduler ({reason}), so a raw tracepoint was \
                 used"
            ),
            Self::AllHidden { threads } => {
                format!("{} slept the whole time", plural(threads, "thread"))
            }
            Self::HardlyRan { cpu_ns, duration_ns, .. } => format!(
                "the target ran for {} of {}, and samples show nothing else",
                duration(*cpu_ns),
                duration(*duration_ns)
            ),
            Self::BlocksLost { lost, of, reason } => {
                let why = why_lost(reason).0;
                format!("{lost} of {of} blocks ({}) were lost, most {why}", share::part(*lost, *of))
            }
            Self::StacksLost { missing, blocks } => format!(
                "{missing} of {blocks} blocks ({}) lack a part of their stack, because the buffer was full",
                share::part(*missing, *blocks)
            ),
            Self::ReusedWrong { wrong, checked } => format!(
                "{} of reused stacks failed the spot check ({wrong} of {checked})",
                share::part(*wrong, *checked)
            ),
            Self::ThreadsOff { off, threads } => format!(
                "the times of {off} of {} differ from their elapsed time by more than 1 %",
                plural(threads, "thread")
            ),
            Self::Lost { lost, wanted, .. } => format!(
                "{lost} of {wanted} samples ({}) were lost because the buffer was full",
                share::part(*lost, *wanted)
            ),
            Self::Failed { failed, error } => {
                format!("{failed} samples failed in the kernel, most with \"{error}\"")
            }
            Self::Broken { broken, samples, modules, by_frame_pointers } => {
                let part = share::part(*broken, *samples);
                let why = match by_frame_pointers {
                    true => "missing frame pointers",
                    false => "missing unwind information and frame pointers",
                };
                let named = shares(modules, *broken);
                format!("{part} of the stacks end too early, because of {why} in {named}")
            }
            Self::Truncated { truncated, samples } => format!(
                "{} of the stacks are deeper than {USER_FRAMES_MAX} frames and were cut",
                share::part(*truncated, *samples)
            ),
            Self::NamesRefused { file: Refused { pid, path, reason }, others } => {
                format!("{path} of PID {pid} was not used, because {reason}{}", more(*others))
            }
            Self::NamesMissing { process, others } => process.cause(*others),
            Self::EventsLost(lost) => {
                format!("{lost} of the kernel's events on mappings and processes were lost")
            }
            Self::ChildrenLost(lost) => format!("{lost} child processes could not be followed"),
        }
    }

    fn effect(&self) -> String {
        let text = match self {
            Self::NoSamples(why) => return why.to_string(),
            Self::NothingBlocked { below_limit: 0, .. } => "it ran all the time",
            Self::NothingBlocked { .. } => "the target ran nearly all the time",
            Self::FellBack { .. } => {
                "threads that were not scheduled during the recording are missing, and the cost is \
                 higher"
            }
            Self::AllHidden { .. } => "--hide-idle hid it, so nothing was written",
            Self::BlocksLost { .. } => "times off the CPU are too small",
            Self::ReusedWrong { .. } => "outer callers may be wrong",
            Self::ThreadsOff { .. } => "some of their blocks are missing or counted twice",
            Self::Lost { .. } | Self::Failed { .. } => "shares are of the remaining samples",
            Self::Broken { .. } => "callers are missing there",
            Self::Truncated { .. } => "their outermost callers are missing",
            Self::NamesRefused { .. } => "code of its JIT compiler has no names",
            Self::NamesMissing { .. } => "it appears as addresses, [anon]+0x…",
            Self::EventsLost(_) => "some frames may lack names",
            Self::ChildrenLost(_) => "the table of targets was full",
            Self::HardlyRan { .. } | Self::StacksLost { .. } => "",
        };
        text.to_owned()
    }

    fn next_step(&self) -> String {
        let text = match self {
            Self::NothingBlocked { below_limit: 0, .. } => "use --mode on-cpu to see where",
            Self::NothingBlocked { .. } => {
                "use --mode on-cpu to see where, or a shorter --min-block to see the blocks"
            }
            Self::FellBack { .. } => "see `wingbeat doctor`",
            Self::AllHidden { .. } => "record without it",
            Self::HardlyRan { instead, .. } => {
                return format!("to see what it waited for: {instead}");
            }
            Self::BlocksLost { reason, .. } => why_lost(reason).1,
            Self::StacksLost { .. } => "use a larger --buffer-size or a longer --min-block",
            Self::Lost { or, .. } => {
                return format!("use a larger --buffer-size or {or}");
            }
            Self::Broken { by_frame_pointers: true, .. } => "use --unwind auto",
            Self::Broken { .. } => {
                "keep its .eh_frame section, or rebuild it with frame pointers: RUSTFLAGS=\"-C force-frame-pointers=yes\" for Rust, \
                 -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer for C and C++"
            }
            Self::NamesRefused { .. } => {
                "make it a regular file that belongs to the user of the process"
            }
            Self::NamesMissing { process, .. } => how_to_name(process.runtime),
            Self::NoSamples(_)
            | Self::ReusedWrong { .. }
            | Self::ThreadsOff { .. }
            | Self::Failed { .. }
            | Self::Truncated { .. }
            | Self::EventsLost(_)
            | Self::ChildrenLost(_) => "",
        };
        text.to_owned()
    }
}

/// How to make a runtime tell the names of its code.
fn how_to_name(runtime: Option<Runtime>) -> &'static str {
    match runtime {
        Some(Runtime::Node) => {
            "start Node with --perf-basic-prof, and with --interpreted-frames-native-stack for \
             functions that it interprets"
        }
        Some(Runtime::Python) => "start Python (3.12 or later) with -X perf",
        Some(Runtime::Java) => {
            "attach a perf-map agent to Java (from JDK 17 on: jcmd PID Compiler.perfmap, while it \
             runs), and start it with -XX:+PreserveFramePointer"
        }
        Some(Runtime::Dotnet) => "start .NET with DOTNET_PerfMapEnabled=1 in its environment",
        None => {
            "make its compiler write a perf map (/tmp/perf-PID.map) or a jitdump file: most have a \
             flag for it"
        }
    }
}

/// The first of some files, each with its part of the whole.
fn shares(files: &[(String, u64)], whole: u64) -> String {
    let named = files.iter().take(4);
    let named = named.map(|(file, of)| format!("{file} ({})", share::part(*of, whole)));
    named.collect::<Vec<_>>().join(", ")
}

impl Nameless {
    fn cause(&self, others: impl Into<u64>) -> String {
        let Self { pid, process, samples, nameless, .. } = self;
        let (part, more) = (share::part(*nameless, *samples), more(others));
        format!(
            "{part} of the samples of {process} (PID {pid}){more} contain code of a JIT compiler \
             without names"
        )
    }
}

/// That there are others.
fn more(others: impl Into<u64>) -> String {
    match others.into() {
        0 => String::new(),
        others => format!(" (and {others} more)"),
    }
}

/// Why blocks were lost, and what to do about it.
fn why_lost(reason: &'static str) -> (&'static str, &'static str) {
    match reason {
        "buffer_full" => {
            ("because the buffer was full", "use a larger --buffer-size or a longer --min-block")
        }
        "thread_table_full" => (
            "because there were more threads than the table of threads holds",
            "record fewer processes",
        ),
        reason => (reason, "record for a shorter time"),
    }
}

impl fmt::Display for ProfileWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

impl fmt::Display for NoSamples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { duration_s, frequency_hz } => write!(
                f,
                "the recording took only {:.1} ms; record for longer (a process in the background: --pid), \
                 or sample more often, for example -F {frequency_hz}",
                duration_s * 1e3
            ),
            Self::Slept { cpu_s, duration_s } => write!(
                f,
                "the target slept {:.1} % of {duration_s:.1} s (it ran for {:.1} ms), and a sleeping \
                 process is not sampled; record while it works, for longer (-d), or more often (-F)",
                100.0 * (1.0 - cpu_s / duration_s).clamp(0.0, 1.0),
                cpu_s * 1e3
            ),
            Self::NoneKept => f.write_str("all of them were lost or failed, see below"),
            Self::OtherHalf => {
                f.write_str("all of them are in the other half of the stacks; use --stacks both")
            }
        }
    }
}

#[cfg(test)]
mod tests;
