//! What a user should know about live figures before believing them. Each warning says what happened,
//! what it does to the figures, and what to do next.

use std::fmt;

use serde::{Serialize, Serializer, ser::SerializeStruct as _};
use wingbeat_bpf::owners::{Owner, Owners};

use super::{ProgramReport, format::printable};

/// Something to know about live figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveWarning {
    /// Statistics were on before.
    StatisticsWereOn {
        /// By `kernel.bpf_stats_enabled`.
        by_sysctl: bool,
        /// By these processes.
        kept_on_by: Vec<Owner>,
    },
    /// Some processes do not let their descriptors be seen.
    OwnersHidden {
        /// How many.
        processes: u32,
    },
    /// Runs were left out by the kernel.
    Recursion {
        /// The program.
        program: String,
        /// How many.
        misses: u64,
    },
    /// The mean is of few runs.
    FewRuns {
        /// The program.
        program: String,
        /// How many.
        runs: u64,
    },
    /// The ruler could not be measured.
    NoRuler {
        /// The kernel's answer.
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

    /// A name for machines, which stays the same from version to version.
    pub fn code(&self) -> &'static str {
        match self {
            Self::StatisticsWereOn { .. } => "statistics_were_on",
            Self::OwnersHidden { .. } => "owners_hidden",
            Self::Recursion { .. } => "recursion",
            Self::FewRuns { .. } => "few_runs",
            Self::NoRuler { .. } => "no_ruler",
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
                "the descriptors of {processes} {} cannot be seen: programs that only they hold seem to have no owner; `sudo` or CAP_SYS_PTRACE shows most",
                if *processes == 1 { "process" } else { "processes" }
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
    fn machines_read_code_and_text() {
        let warning = LiveWarning::FewRuns { program: "p".to_owned(), runs: 3 };
        let json = serde_json::to_value(&warning).expect("JSON");
        assert_eq!(json["code"], "few_runs");
        assert!(json["text"].as_str().expect("text").starts_with("p ran 3 times only"));
    }
}
