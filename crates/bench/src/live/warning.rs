//! What a user should know about live figures before believing them. Each warning says what happened,
//! what it does to the figures, and what to do next.

use std::fmt;

use serde::{Serialize, Serializer, ser::SerializeStruct as _};
use wingbeat_bpf::{
    Capability,
    loader::CounterEvent,
    owners::{Owner, Owners},
    rights::how_to_get,
};

use super::{
    ProgramReport, Untimed,
    format::{grouped, printable},
};

/// Counters of the processor that are tried.
const HARDWARE_EVENTS: usize = CounterEvent::HARDWARE.len();

/// Something to know about live figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveWarning {
    /// Statistics were on before.
    StatisticsWereOn {
        /// By `kernel.bpf_stats_enabled`.
        by_sysctl: bool,
        kept_on_by: Vec<Owner>,
    },
    /// Some processes do not let their descriptors be seen.
    OwnersHidden { processes: u32 },
    /// Runs were left out by the kernel.
    Recursion { program: String, misses: u64 },
    /// The mean is of few runs.
    FewRuns { program: String, runs: u64 },
    /// The ruler could not be measured.
    NoRuler { reason: String },
    /// Single runs of a program are not timed.
    NotTraced {
        program: String,
        /// Why not.
        reason: String,
    },
    /// Runs are missing in the distribution.
    Untimed {
        program: String,
        timed: u64,
        /// Those that were not.
        untimed: Untimed,
    },
    /// Runs took longer than the bins reach.
    BeyondBins { program: String, runs: u64 },
    /// A program takes part in tail calls.
    TailCalls { program: String, has_table: bool, is_in_table: bool },
    /// Some counters are not to be had.
    NoCounters {
        events: Vec<&'static str>,
        /// The kernel's answer to the first.
        reason: String,
    },
}

impl LiveWarning {
    /// What to know of owners: hidden ones matter where none is seen.
    pub(super) fn about_owners(owners: &Owners, programs: &[ProgramReport]) -> Option<Self> {
        let processes = owners.unreadable_processes;
        let is_any_orphaned = programs.iter().any(|program| program.owners.is_empty());
        (processes > 0 && is_any_orphaned).then_some(Self::OwnersHidden { processes })
    }

    /// What to know of the single runs of a program.
    pub(super) fn about_single_runs(report: &ProgramReport) -> Vec<Self> {
        let Some(single) = &report.single_runs else { return Vec::new() };
        let mut warnings = Vec::new();
        if single.untimed.lost() > 0 {
            let (timed, untimed) = (single.runs, single.untimed);
            warnings.push(Self::Untimed { program: report.label(), timed, untimed });
        }
        if single.runs_beyond_bins > 0 {
            let runs = single.runs_beyond_bins;
            warnings.push(Self::BeyondBins { program: report.label(), runs });
        }
        warnings
    }

    /// A name for machines, which stays the same from version to version.
    pub fn code(&self) -> &'static str {
        match self {
            Self::StatisticsWereOn { .. } => "statistics_were_on",
            Self::OwnersHidden { .. } => "owners_hidden",
            Self::Recursion { .. } => "recursion",
            Self::FewRuns { .. } => "few_runs",
            Self::NoRuler { .. } => "no_ruler",
            Self::NotTraced { .. } => "not_traced",
            Self::Untimed { .. } => "runs_untimed",
            Self::BeyondBins { .. } => "beyond_bins",
            Self::TailCalls { .. } => "tail_calls",
            Self::NoCounters { .. } => "no_counters",
        }
    }
}

impl fmt::Display for LiveWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StatisticsWereOn { by_sysctl, kept_on_by } => {
                let mut by: Vec<String> = kept_on_by
                    .iter()
                    .map(|owner| format!("process {} ({})", owner.pid, printable(&owner.name)))
                    .collect();
                if *by_sysctl {
                    by.insert(0, "kernel.bpf_stats_enabled=1".to_owned());
                }
                let by = if by.is_empty() { "somebody else".to_owned() } else { by.join(" and ") };
                write!(
                    f,
                    "run-time statistics were on already, by {by}: the figures are right, but every program is some tens of nanoseconds slower all the time, and stays so afterwards; "
                )?;
                match by_sysctl {
                    true => f.write_str("switch them off with `sysctl kernel.bpf_stats_enabled=0`"),
                    false => f.write_str("end that process if nobody needs it"),
                }
            }
            Self::OwnersHidden { processes } => write!(
                f,
                "the descriptors of {processes} {} cannot be seen: programs that only they hold seem to have no owner; CAP_SYS_PTRACE shows most: {}",
                if *processes == 1 { "process" } else { "processes" },
                how_to_get(&[Capability::SysPtrace])
            ),
            Self::Recursion { program, misses } => write!(
                f,
                "{program} was left out {misses} times because it, or a program of its kind, was running already on that CPU: its runs are fewer than its events; look for what it does that triggers itself"
            ),
            Self::FewRuns { program, runs } => write!(
                f,
                "{program} ran {runs} times only: its mean is mostly that of cold caches; measure for longer, or cause more of its events"
            ),
            Self::NoRuler { reason } => write!(
                f,
                "an empty program cannot be run for comparison ({reason}): the time of the statistics' own clock reads, some tens of ns per run, is in the figures and not shown apart"
            ),
            Self::NotTraced { program, reason } => write!(
                f,
                "the single runs of {program} are not timed: {reason}; without --distribution and --counters its mean is"
            ),
            Self::Untimed { program, timed, untimed } => write!(
                f,
                "of {program} {} runs are not among the {} that were timed: {} because a tracer was running already on that CPU, {} because too many runs were under way, or ended without an exit; long runs that others break into are rarer in the percentiles than they are",
                grouped(untimed.lost()),
                grouped(*timed),
                grouped(untimed.recursion),
                grouped(untimed.displaced),
            ),
            Self::BeyondBins { program, runs } => write!(
                f,
                "{} of {program} took 4.29 s or more, where percentiles end; mean and max are exact all the same",
                if *runs == 1 { "1 run".to_owned() } else { format!("{} runs", grouped(*runs)) }
            ),
            Self::TailCalls { program, has_table, is_in_table } => {
                write!(f, "{program} takes part in tail calls: ")?;
                if *has_table {
                    f.write_str("what it jumps to is in the time of its runs")?;
                }
                if *has_table && *is_in_table {
                    f.write_str("; ")?;
                }
                if *is_in_table {
                    f.write_str(
                        "its runs after a jump from another program are not seen; measure the program that jumps",
                    )?;
                }
                Ok(())
            }
            Self::NoCounters { events, reason } => write!(
                f,
                "no {} here ({reason}): {}",
                events.join(", "),
                match events.len() {
                    HARDWARE_EVENTS =>
                        "this machine lets nobody use the processor's counters, as virtual ones often do; the kernel's own are read instead",
                    _ => "the other counters are read",
                }
            ),
        }
    }
}

/// As code and text.
impl Serialize for LiveWarning {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut warning = serializer.serialize_struct("LiveWarning", 2)?;
        warning.serialize_field("code", self.code())?;
        warning.serialize_field("text", &self.to_string())?;
        warning.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{
        SingleRuns,
        format::tests::{program, single_runs::single_runs},
    };

    #[test]
    fn who_keeps_statistics_on() {
        let check = |by_sysctl, pids: &[u32], expected: &str| {
            let kept_on_by =
                pids.iter().map(|&pid| Owner { pid, name: "top\u{1b}".to_owned() }).collect();
            let text = LiveWarning::StatisticsWereOn { by_sysctl, kept_on_by }.to_string();
            assert!(text.contains(expected), "{text}");
        };
        check(true, &[], "by kernel.bpf_stats_enabled=1:");
        check(true, &[], "sysctl kernel.bpf_stats_enabled=0");
        check(false, &[7, 9], "by process 7 (top?) and process 9 (top?):");
        check(true, &[7], "by kernel.bpf_stats_enabled=1 and process 7 (top?):");
        check(false, &[], "by somebody else:");
    }

    #[test]
    fn what_to_know_of_single_runs() {
        let check = |warning: LiveWarning, code: &str, parts: &[&str]| {
            assert_eq!(warning.code(), code);
            let text = warning.to_string();
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        };
        let program = || "p (id 7)".to_owned();
        let untimed = Untimed { recursion: 1_200, displaced: 3, unmatched: 9, unfinished: 9 };
        check(
            LiveWarning::Untimed { program: program(), timed: 50_000, untimed },
            "runs_untimed",
            &["of p (id 7) 1,203 runs are not among the 50,000", "1,200 because", "3 because"],
        );
        let tail_calls = |has_table, is_in_table| LiveWarning::TailCalls {
            program: program(),
            has_table,
            is_in_table,
        };
        let (into, from) = ("what it jumps to is in the time", "its runs after a jump");
        check(tail_calls(true, false), "tail_calls", &[into]);
        check(tail_calls(false, true), "tail_calls", &[from]);
        check(tail_calls(true, true), "tail_calls", &[into, "; its runs", from]);
        let beyond = |runs| LiveWarning::BeyondBins { program: program(), runs };
        check(beyond(1), "beyond_bins", &["1 run of p (id 7) took 4.29 s or more"]);
        check(beyond(2), "beyond_bins", &["2 runs of "]);
        let counters = |events: &[&'static str]| LiveWarning::NoCounters {
            events: events.to_vec(),
            reason: "No such file".to_owned(),
        };
        let all = CounterEvent::HARDWARE.map(CounterEvent::name);
        check(
            counters(&all),
            "no_counters",
            &["cycles, instructions, cache-misses", "the kernel's own"],
        );
        check(counters(&["cycles"]), "no_counters", &["no cycles here", "the other counters"]);
    }

    #[test]
    fn only_what_is_missing_is_told() {
        let check = |untimed: Untimed, runs_beyond_bins, expected: &[&str]| {
            let mut report = program(7, "p", 10, 1_000);
            report.single_runs =
                Some(SingleRuns { untimed, runs_beyond_bins, ..single_runs(10, 100.0) });
            let found = LiveWarning::about_single_runs(&report);
            let codes: Vec<_> = found.iter().map(LiveWarning::code).collect();
            assert_eq!(codes, expected, "{untimed:?}");
        };
        let none = Untimed::default();
        check(none, 0, &[]);
        // At both ends of the measured time that is usual.
        check(Untimed { unmatched: 1, unfinished: 2, ..none }, 0, &[]);
        check(Untimed { recursion: 1, ..none }, 0, &["runs_untimed"]);
        check(Untimed { displaced: 1, ..none }, 3, &["runs_untimed", "beyond_bins"]);
    }

    #[test]
    fn machines_read_code_and_text() {
        let warning = LiveWarning::FewRuns { program: "p".to_owned(), runs: 3 };
        let json = serde_json::to_value(&warning).expect("JSON");
        assert_eq!(json["code"], "few_runs");
        assert!(json["text"].as_str().expect("text").starts_with("p ran 3 times only"));
    }
}
