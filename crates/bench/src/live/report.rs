//! The result of looking at loaded programs: what `wingbeat live` and `wingbeat top --once`
//! write. docs/top.md describes its JSON.

use serde::{Serialize, Serializer};
use wingbeat_bpf::{owners::Owner, program::ProgramInfo};

use super::{CounterReport, EmptyRuns, SingleRuns, change::Rates};
use crate::Warning;

/// Version of the JSON. Fields are added without changing it; it changes when one is renamed, removed
/// or gets another meaning.
pub const SCHEMA_VERSION: u32 = 2;

/// Loaded programs over some time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveReport {
    pub schema_version: u32,
    pub wingbeat: String,
    pub duration_ns: u64,
    pub ended_by: EndedBy,
    pub cpus_online: u32,
    /// What statistics show for a program that does nothing, per run; `None` when it could not be
    /// measured.
    pub empty_run_ns: Option<f64>,
    /// The programs, in the order they are to be shown.
    pub programs: Vec<ProgramReport>,
    pub total: Total,
    /// Programs that were unloaded meanwhile. What they did is not counted.
    pub vanished: Vec<Vanished>,
    pub command: Option<CommandReport>,
    /// What an empty program shows where single runs are timed; `None` where they are not.
    pub empty: Option<EmptyRuns>,
    /// What to know before believing the figures.
    pub warnings: Vec<Warning>,
}

impl LiveReport {
    /// Programs over some time, which nothing ended early, and nothing else to say.
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

/// The programs with the most CPU time first.
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
    /// Type, as bpftool calls it.
    pub r#type: String,
    /// Name, whole where the program's types tell it; may be empty.
    pub name: String,
    pub tag: String,
    pub owners: Vec<Owner>,
    /// What it is attached to, by links or by netlink.
    pub attached: Vec<String>,
    pub outcome: LiveOutcome,
    /// Runs; `None`, like the rest, when the program was there before the first reading without
    /// having been seen.
    pub runs: Option<u64>,
    /// Time in these runs.
    pub run_time_ns: Option<u64>,
    pub runs_per_s: Option<f64>,
    /// Mean time of a run, as the kernel shows it; `None` without a run.
    pub time_per_run_ns: Option<f64>,
    /// The same less what an empty program shows; 0 at least.
    pub time_per_run_net_ns: Option<f64>,
    pub time_per_run_interval: Option<MeanInterval>,
    /// Share of one CPU, in percent; a fraction in JSON.
    #[serde(rename = "cpu_share", serialize_with = "fraction_if_known")]
    pub cpu_percent: Option<f64>,
    /// Runs that were left out because the program was running already on that CPU.
    pub recursion_misses: Option<u64>,
    /// Its single runs; `None` where they were not timed, or none came to its end.
    pub single_runs: Option<SingleRuns>,
    /// What perf counted in its runs; empty where that was not asked for.
    pub counters: Vec<CounterReport>,
}

/// Whether a program did anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveOutcome {
    Ran,
    NeverRan,
    Unknown,
}

/// An interval of the mean time of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeanInterval {
    pub lower_ns: f64,
    pub upper_ns: f64,
    /// Confidence, 0 to 1.
    pub confidence: f64,
    /// Slices of the measured time that it comes from.
    pub slices: u64,
}

/// All programs together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Total {
    pub runs: u64,
    /// Time in them.
    pub run_time_ns: u64,
    pub runs_per_s: f64,
    /// Share of one CPU, in percent; a fraction in JSON.
    #[serde(rename = "cpu_share", serialize_with = "fraction")]
    pub cpu_percent: f64,
    /// Share of all CPUs, in percent; a fraction in JSON.
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
    /// Its exit code; 128 + signal when a signal ended it.
    pub exit_code: i32,
    /// False when the time ran out first and it was asked to end.
    pub ended_by_itself: bool,
}

/// What to call a program in a sentence.
pub(super) fn label(id: u32, name: &str) -> String {
    match name {
        "" => format!("program {id}"),
        name => format!("{name} (id {id})"),
    }
}

impl ProgramReport {
    /// Puts together what is known of a program.
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

    /// What to call it in a sentence.
    pub fn label(&self) -> String {
        label(self.id, &self.name)
    }

    /// Adds who holds it and what attaches it.
    #[must_use]
    pub fn with_holders(mut self, owners: &[Owner], attached: &[String]) -> Self {
        self.owners = owners.to_vec();
        self.attached = attached.to_vec();
        self
    }
}

impl Total {
    /// Adds up programs.
    pub fn of(programs: &[ProgramReport], cpus_online: u32) -> Self {
        let sum = |field: fn(&ProgramReport) -> Option<u64>| {
            programs.iter().filter_map(field).fold(0, u64::saturating_add)
        };
        // Not `sum`, which makes -0 of nothing.
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
