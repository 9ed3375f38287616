//! The accounting of a recording: every tick, every stack, and what the profiler itself cost.

mod accounts;
pub mod jit;
pub mod off_cpu;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use serde::Serialize;

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    cost::Own,
    counts::Ticks,
    debuginfod::Account,
    export::places::is_c_library,
    fold::Folded,
    model::{Binary, BinaryKind, BrokenReason, Completeness, Profile},
    session::{Finished, TableCounts, Unwinding},
    symbolize::refused::{Refused, Unusable},
};

/// Samples and blocks by how far their user stack reaches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stacks {
    /// Down to the entry point of the thread.
    pub complete: u64,
    pub truncated: u64,
    pub broken: u64,
    /// Broken ones by reason.
    pub broken_by_reason: BTreeMap<&'static str, u64>,
    /// Broken ones by reason and the file whose caller could not be found, most first.
    pub broken_by_file: Vec<BrokenIn>,
}

/// Samples and blocks whose stack broke for one reason in one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokenIn {
    pub reason: &'static str,
    pub file: String,
    pub count: u64,
    /// What the file is.
    #[serde(skip)]
    pub place: BrokenPlace,
}

/// What kind of code it is whose caller could not be found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum BrokenPlace {
    /// That of a file, which could be built otherwise.
    #[default]
    Build,
    /// Code in memory that a process made.
    Memory,
    /// That of a file that could not be read, or of nobody knows what.
    Unknown,
    /// Of a library that switches stacks: on a new one nobody called its first function.
    NewStack,
}

impl BrokenPlace {
    fn of(binary: &Binary) -> Self {
        let switches = ["libboost_context.so", "libcoro", "libco.so", "libaco"];
        match binary.kind {
            BinaryKind::Anonymous => Self::Memory,
            BinaryKind::User if is_c_library(binary.name()) => Self::NewStack,
            BinaryKind::User if switches.iter().any(|it| binary.name().starts_with(it)) => {
                Self::NewStack
            }
            BinaryKind::User if binary.text == (0, 0) => Self::Unknown,
            _ => Self::Build,
        }
    }
}

impl BrokenReason {
    /// Name in the summary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable_memory",
            Self::NoFramePointer => "no_frame_pointer",
            Self::Unsupported => "unsupported_rule",
            Self::NoTable => "no_table_yet",
            Self::BadReturnAddress => "bad_return_address",
            Self::NotTaken => "not_taken",
        }
    }
}

impl Stacks {
    /// Those for want of rules or frame pointers, by file, most first.
    pub(crate) fn broken_in(&self, place: BrokenPlace) -> Vec<(String, u64)> {
        let reasons = [
            BrokenReason::NoFramePointer,
            BrokenReason::Unsupported,
            BrokenReason::BadReturnAddress,
        ];
        let rows = self.broken_by_file.iter().filter(|row| row.place == place);
        let rows = rows.filter(|row| reasons.iter().any(|reason| reason.name() == row.reason));
        let mut by_file: BTreeMap<&str, u64> = BTreeMap::new();
        for row in rows {
            *by_file.entry(&row.file).or_default() += row.count;
        }
        let mut by_file: Vec<(String, u64)> =
            by_file.into_iter().map(|(file, count)| (file.to_owned(), count)).collect();
        by_file.sort_by_key(|(_, count)| Reverse(*count));
        by_file
    }

    /// Counts the samples and the blocks of a profile.
    pub fn count(profile: &Profile) -> Self {
        let mut samples_by_stack = vec![0u64; profile.stacks.len()];
        for sample in &profile.samples {
            if let Some(count) = samples_by_stack.get_mut(sample.stack as usize) {
                *count += 1;
            }
        }
        for blocked in profile.blocked.iter().filter(|blocked| blocked.state.has_stack()) {
            if let Some(count) = samples_by_stack.get_mut(blocked.stack as usize) {
                *count += blocked.count;
            }
        }
        let mut stacks = Self::default();
        let mut by_file: BTreeMap<(BrokenReason, &str, BrokenPlace), u64> = BTreeMap::new();
        let counted = profile.stacks.iter().zip(&samples_by_stack);
        for (stack, &samples) in counted.filter(|(_, samples)| **samples > 0) {
            match stack.completeness {
                Completeness::Complete => stacks.complete += samples,
                Completeness::Truncated => stacks.truncated += samples,
                Completeness::Broken(reason) => {
                    stacks.broken += samples;
                    *stacks.broken_by_reason.entry(reason.name()).or_default() += samples;
                    let frame = stack.frames.last().map(|&frame| &profile.frames[frame as usize]);
                    let binary = frame
                        .and_then(|frame| frame.binary)
                        .map(|id| &profile.binaries[id as usize])
                        // A stack of which no user code is left.
                        .filter(|binary| {
                            binary.kind != BinaryKind::State && !binary.kind.is_kernel()
                        });
                    let file = binary.map_or("[unknown]", |binary| binary.name());
                    let place = binary.map_or(BrokenPlace::Unknown, BrokenPlace::of);
                    *by_file.entry((reason, file, place)).or_default() += samples;
                }
            }
        }
        let rows = by_file.into_iter().map(|((reason, file, place), count)| BrokenIn {
            reason: reason.name(),
            file: file.to_owned(),
            count,
            place,
        });
        stacks.broken_by_file = rows.collect();
        stacks.broken_by_file.sort_by_key(|row| Reverse(row.count));
        stacks
    }
}

/// How user stacks were walked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct UnwindCounts {
    /// As on the command line.
    pub mode: &'static str,
    /// What the tables took; `None` if there were none.
    pub tables: Option<TableCounts>,
    /// Stacks that the kernel sent with a copy, since a table was not there yet.
    pub copied: u64,
}

impl UnwindCounts {
    fn of(unwinding: &Unwinding) -> Self {
        let Unwinding { unwind, tables, copied } = unwinding;
        Self { mode: unwind.name(), tables: tables.clone(), copied: *copied }
    }
}

/// One file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Output {
    pub path: String,
    pub format: String,
    pub bytes: u64,
}

/// Where names came from besides the files themselves, and what went wrong there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameSources {
    /// Files with names that were not used.
    pub refused: Vec<Refused>,
    /// Files whose debug information was not used.
    pub unusable: Vec<Unusable>,
    /// What debuginfod servers were asked for, if they were to be asked.
    pub debuginfod: Option<Account>,
}

/// The accounting of a run, as `--summary-json` prints it. docs/profile.md is its description for
/// users.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub wingbeat: String,
    /// Kernel release and machine.
    pub kernel: String,
    pub command_line: Vec<String>,
    /// What was measured: `on-cpu`, `off-cpu` or `wall`.
    pub mode: &'static str,
    pub target: String,
    /// Wall-clock time of the start, RFC 3339, UTC.
    pub start_time: String,
    /// From start to end of recording.
    pub duration_ns: u64,
    /// Asked sampling frequency, per CPU.
    pub frequency_hz: u64,
    /// CPUs with a clock.
    pub cpus: u32,
    pub ticks: Ticks,
    pub stacks: Stacks,
    /// Time off the CPU, where it was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off_cpu: Option<off_cpu::OffCpu>,
    /// CPU time that the targets used during the recording.
    pub target_cpu_time_ns: u64,
    /// Processes with samples.
    pub processes: u32,
    /// Threads with samples.
    pub threads: u32,
    /// Mean size of what a sample puts into the ring buffer.
    pub bytes_per_sample: u64,
    /// Sideband events (mappings, forks) that were lost: names may be missing.
    pub events_lost: u64,
    pub unwind: UnwindCounts,
    pub jit: jit::Jit,
    /// Files whose debug information was not used.
    pub unusable: Vec<Unusable>,
    /// What debuginfod servers were asked for; `None` without `--debuginfod`.
    pub debuginfod: Option<Account>,
    /// What `--fold-runtime` folded; `None` without it.
    pub folded: Option<Folded>,
    /// Children that could not be followed.
    pub children_lost: u64,
    /// How often a file with code could not be opened because too many were open.
    pub files_unopened: u64,
    /// Exit status of the launched command, as a shell would give it.
    pub exit_status: Option<i32>,
    pub own: Own,
    pub outputs: Vec<Output>,
}

impl Summary {
    /// Puts the accounts together. What was folded is for who did it to add.
    pub fn new(
        finished: &Finished,
        profile: &Profile,
        names: NameSources,
        own: Own,
        idle_hidden: u64,
        command_line: Vec<String>,
        outputs: Vec<Output>,
    ) -> Self {
        let start = OffsetDateTime::from(finished.meta.start);
        Self {
            wingbeat: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: profile.meta.system.clone(),
            command_line,
            mode: profile.meta.mode.name(),
            target: finished.meta.target.clone(),
            start_time: start.format(&Rfc3339).unwrap_or_default(),
            duration_ns: finished.meta.duration_ns,
            frequency_hz: finished.meta.frequency_hz,
            cpus: finished.cpus,
            ticks: finished.ticks.clone(),
            stacks: Stacks::count(profile),
            off_cpu: accounts::off_cpu(finished, profile, idle_hidden),
            target_cpu_time_ns: finished.target_cpu_time_ns(),
            processes: profile.processes.len() as u32,
            threads: threads(profile),
            bytes_per_sample: finished.record_bytes / finished.ticks.sampled.max(1),
            events_lost: finished.events_lost,
            unwind: UnwindCounts::of(&finished.unwinding),
            jit: jit::Jit::of(profile, names.refused),
            unusable: names.unusable,
            debuginfod: names.debuginfod,
            folded: None,
            children_lost: finished.children_lost,
            files_unopened: finished.recorder.binaries.without_descriptor,
            exit_status: finished.ended.map(|ended| ended.code()),
            own,
            outputs,
        }
    }
}

/// How many threads have samples: one that got another name meanwhile has several entries.
fn threads(profile: &Profile) -> u32 {
    let all: BTreeSet<_> = profile.threads.iter().map(|it| (it.process, it.tid)).collect();
    // Entries have numbers of 32 bits.
    all.len() as u32
}
