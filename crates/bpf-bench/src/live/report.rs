//! Results for loaded programs: the output of `wingbeat live` and `wingbeat top --once`.
//! docs/top.md describes its JSON.

use serde::{Serialize, Serializer};
use wingbeat_bpf_loader::{fd_holders::Owner, program::ProgramInfo};

use super::{CounterReport, EmptyRuns, SingleRuns, change::Rates};
use crate::Warning;

/// Version of the JSON schema. New fields do not change it; renaming, removing or redefining one does.
pub const SCHEMA_VERSION: u32 = 2;

/// Loaded programs over some time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveReport {
    pub schema_version: u32,
    pub wingbeat: String,
    pub duration_ns: u64,
    pub ended_by: EndedBy,
    pub cpus_online: u32,
    /// Time per run that statistics report for an empty program; `None` if it could not be measured.
    pub empty_run_ns: Option<f64>,
    /// Programs in display order.
    pub programs: Vec<ProgramReport>,
    pub total: Total,
    /// Programs that were unloaded meanwhile. Their activity is not counted.
    pub vanished: Vec<Vanished>,
    pub command: Option<CommandReport>,
    /// Results of an empty program if single runs are timed; else `None`.
    pub empty: Option<EmptyRuns>,
    /// Warnings about the reliability of the figures.
    pub warnings: Vec<Warning>,
}

impl LiveReport {
    /// A report without warnings of a period that ended normally.
    pub fn new(programs: Vec<ProgramReport>, cpus_online: u32, duration_ns: u64) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            wingbeat: env!("CARGO_PKG_VERSION").to_owned(),
            duration_ns,
            ended_by: EndedBy::Time,
            cpus_online,
            empty_run_ns: None,
            total: Total::of(&programs, cpus_online),
            programs,
            vanished: Vec::new(),
            command: None,
            empty: None,
            warnings: Vec::new(),
        }
    }
}

/// Sorts the programs by CPU time, highest first.
pub(super) fn busiest_first(mut programs: Vec<ProgramReport>) -> Vec<ProgramReport> {
    programs.sort_by(|a, b| b.cpu_percent.unwrap_or(0.0).total_cmp(&a.cpu_percent.unwrap_or(0.0)));
    programs
}

/// Why the measured time ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EndedBy {
    Time,
    Command,
    Signal,
}

/// One program over some time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProgramReport {
    pub id: u32,
    /// Type, with bpftool's name.
    pub r#type: String,
    /// Name, in full if the program's types have it; may be empty.
    pub name: String,
    pub tag: String,
    pub owners: Vec<Owner>,
    /// Attachments, by links or by netlink.
    pub attached: Vec<String>,
    pub outcome: LiveOutcome,
    /// Runs; `None`, like the rest, if the first reading missed the program although it was loaded.
    pub runs: Option<u64>,
    /// Total time of these runs.
    pub run_time_ns: Option<u64>,
    pub runs_per_s: Option<f64>,
    /// Mean time of a run as reported by the kernel; `None` without runs.
    pub time_per_run_ns: Option<f64>,
    /// Mean time minus that of an empty program; at least 0.
    pub time_per_run_net_ns: Option<f64>,
    pub time_per_run_interval: Option<MeanInterval>,
    /// Share of one CPU in percent; a fraction in JSON.
    #[serde(rename = "cpu_share", serialize_with = "fraction_if_known")]
    pub cpu_percent: Option<f64>,
    /// Runs skipped by the kernel because the program was already running on that CPU.
    pub recursion_misses: Option<u64>,
    /// Its single runs; `None` if they were not timed, or none finished.
    pub single_runs: Option<SingleRuns>,
    /// Perf counters of its runs; empty if not requested.
    pub counters: Vec<CounterReport>,
}

/// Whether a program ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveOutcome {
    Ran,
    NeverRan,
    Unknown,
}

/// Confidence interval of the mean time of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeanInterval {
    pub lower_ns: f64,
    pub upper_ns: f64,
    /// Confidence level, 0 to 1.
    pub confidence: f64,
    /// Number of time slices that it is derived from.
    pub slices: u64,
}

/// All programs together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Total {
    pub runs: u64,
    /// Total time of the runs.
    pub run_time_ns: u64,
    pub runs_per_s: f64,
    /// Share of one CPU in percent; a fraction in JSON.
    #[serde(rename = "cpu_share", serialize_with = "fraction")]
    pub cpu_percent: f64,
    /// Share of all CPUs in percent; a fraction in JSON.
    #[serde(rename = "all_cpus_share", serialize_with = "fraction")]
    pub cpu_percent_of_all: f64,
}

/// A program that was unloaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Vanished {
    pub id: u32,
    pub name: String,
}

impl From<&ProgramInfo> for Vanished {
    fn from(info: &ProgramInfo) -> Self {
        Self { id: info.id, name: info.name.clone() }
    }
}

/// How the launched command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommandReport {
    pub words: Vec<String>,
    /// Its exit code; 128 + signal if a signal terminated it.
    pub exit_code: i32,
    /// False if the time ran out first and it was asked to terminate.
    pub ended_by_itself: bool,
}

/// Name of a program in messages.
pub(super) fn label(id: u32, name: &str) -> String {
    match name {
        "" => format!("program {id}"),
        name => format!("{name} (id {id})"),
    }
}

impl ProgramReport {
    /// Builds the report of a program.
    pub fn new(
        info: &ProgramInfo,
        name: &str,
        rates: Option<Rates>,
        empty_run_ns: Option<f64>,
    ) -> Self {
        let time_per_run_ns = rates.and_then(|rates| rates.time_per_run_ns());
        let net = |mean: f64| Some((mean - empty_run_ns?).max(0.0));
        Self {
            id: info.id,
            r#type: info.r#type.name(),
            name: name.to_owned(),
            tag: info.tag_text(),
            owners: Vec::new(),
            attached: Vec::new(),
            outcome: match rates {
                Some(rates) if rates.runs > 0 => LiveOutcome::Ran,
                Some(_) => LiveOutcome::NeverRan,
                None => LiveOutcome::Unknown,
            },
            runs: rates.map(|rates| rates.runs),
            run_time_ns: rates.map(|rates| rates.run_time_ns),
            runs_per_s: rates.map(|rates| rates.runs_per_s()),
            time_per_run_ns,
            time_per_run_net_ns: time_per_run_ns.and_then(net),
            time_per_run_interval: None,
            cpu_percent: rates.map(|rates| rates.cpu_percent()),
            recursion_misses: rates.map(|rates| rates.recursion_misses),
            single_runs: None,
            counters: Vec::new(),
        }
    }

    /// Name of the program in messages.
    pub fn label(&self) -> String {
        label(self.id, &self.name)
    }

    /// Adds owners and attachments.
    #[must_use]
    pub fn with_holders(mut self, owners: &[Owner], attached: &[String]) -> Self {
        self.owners = owners.to_vec();
        self.attached = attached.to_vec();
        self
    }
}

impl Total {
    /// Sums over programs.
    pub fn of(programs: &[ProgramReport], cpus_online: u32) -> Self {
        let sum = |field: fn(&ProgramReport) -> Option<u64>| {
            programs.iter().filter_map(field).fold(0, u64::saturating_add)
        };
        // Not `sum`, which gives -0 for no values.
        let add = |field: fn(&ProgramReport) -> Option<f64>| -> f64 {
            programs.iter().filter_map(field).fold(0.0, |sum, each| sum + each)
        };
        let cpu_percent = add(|program| program.cpu_percent);
        Self {
            runs: sum(|program| program.runs),
            run_time_ns: sum(|program| program.run_time_ns),
            runs_per_s: add(|program| program.runs_per_s),
            cpu_percent,
            cpu_percent_of_all: cpu_percent / f64::from(cpus_online.max(1)),
        }
    }
}

fn fraction<S: Serializer>(percent: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(percent / 100.0)
}

fn fraction_if_known<S: Serializer>(
    percent: &Option<f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    percent.map(|percent| percent / 100.0).serialize(serializer)
}
