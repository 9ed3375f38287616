//! A report: the results of one run with all that identifies it, and the environment that it was measured in.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    adapter::Adapter,
    measure::{Measure, Metric},
    name::{BranchName, ProjectName, TestbedName},
    results::{BenchmarkResults, FailedBenchmark, Results},
    verdict::{Alert, AlertStatus, Verdict},
};

/// All results of one run. The store keeps it, and `wingbeat export` writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Unique across stores.
    pub uuid: Uuid,
    pub project: ProjectName,
    pub branch: BranchName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// How often the branch's history was restarted. Earlier epochs are not history for this one.
    #[serde(default)]
    pub epoch: u32,
    /// Where the branch starts from. Its history continues there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_point: Option<StartPoint>,
    /// The user's name for the machine, or the kind of machine.
    pub testbed: TestbedName,
    /// When the first iteration began. History is ordered by it, and not by the time of storing.
    #[serde(with = "time::serde::rfc3339")]
    pub start_time: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub end_time: OffsetDateTime,
    pub adapter: Adapter,
    #[serde(default)]
    pub environment: Environment,
    /// One per iteration.
    pub iterations: Vec<Results>,
    /// Verdicts, in the order of the iterations and of their metrics.
    #[serde(default)]
    pub verdicts: Vec<Verdict>,
    #[serde(default)]
    pub alerts: Vec<Alert>,
    /// The report whose alerts this one confirms (`--confirm`). Such reports are not history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirms: Option<Uuid>,
}

impl Report {
    /// An empty report in Bencher Metric Format with a duration of 0.
    pub fn new(
        uuid: Uuid,
        project: ProjectName,
        branch: BranchName,
        testbed: TestbedName,
        start_time: OffsetDateTime,
    ) -> Self {
        Self {
            uuid,
            project,
            branch,
            hash: None,
            epoch: 0,
            start_point: None,
            testbed,
            start_time,
            end_time: start_time,
            adapter: Adapter::Json,
            environment: Environment::default(),
            iterations: Vec::new(),
            verdicts: Vec::new(),
            alerts: Vec::new(),
            confirms: None,
        }
    }

    /// All metrics in order, each with its iteration from 0, its benchmark and its measure.
    pub fn metrics(&self) -> impl Iterator<Item = (u32, &BenchmarkResults, &Measure, &Metric)> {
        let iterations = (0..).zip(&self.iterations);
        let benchmarks =
            iterations.flat_map(|(at, results)| results.benchmarks.iter().map(move |it| (at, it)));
        benchmarks.flat_map(|(at, it)| {
            it.metrics.iter().map(move |(measure, metric)| (at, it, measure, metric))
        })
    }

    /// The benchmarks that failed, each with its iteration from 0.
    pub fn failures(&self) -> impl Iterator<Item = (u32, &FailedBenchmark)> {
        let iterations = (0..).zip(&self.iterations);
        iterations
            .flat_map(|(at, results)| results.failures.iter().map(move |failure| (at, failure)))
    }

    /// Alerts that are neither dismissed nor silenced.
    pub fn active_alerts(&self) -> usize {
        self.alerts.iter().filter(|alert| alert.status == AlertStatus::Active).count()
    }
}

/// The position in another branch's history where a branch begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartPoint {
    pub branch: BranchName,
    /// Commit at which the branches diverge, if known: the merge base, or `--start-point-hash`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Reports of the other branch count up to and including this time: the start time of the last report of that
    /// commit, or of the nearest one before it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "time::serde::rfc3339::option"
    )]
    pub until: Option<OffsetDateTime>,
    /// Maximum number of the other branch's versions to use, newest first.
    pub max_versions: u32,
}

/// The machine and the tools of one report. Unknown values are `None`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// System and kernel release: `Linux 6.18.44`.
    pub kernel: Option<String>,
    pub cpu_model: Option<String>,
    /// Frequency governor of the first CPU.
    pub governor: Option<String>,
    pub cores: Option<u32>,
    /// Load average over one minute before the command ran.
    pub load: Option<f64>,
    /// Share of the CPU time during the command that was stolen by the hypervisor, 0 to 1.
    pub steal: Option<f64>,
    /// `rustc --version`, or that of the project's compiler.
    pub compiler: Option<String>,
    pub git_hash: Option<String>,
    /// Whether tracked files differ from that commit.
    pub is_dirty: Option<bool>,
    pub wingbeat: Option<String>,
}

impl Environment {
    /// The properties that are constant on an unchanged machine: without load, steal and commit.
    pub fn lasting(&self) -> Vec<(&'static str, String)> {
        let cores = self.cores.map(|cores| cores.to_string());
        [
            ("kernel", &self.kernel),
            ("CPU", &self.cpu_model),
            ("governor", &self.governor),
            ("CPUs", &cores),
            ("compiler", &self.compiler),
            ("wingbeat", &self.wingbeat),
        ]
        .into_iter()
        .filter_map(|(name, value)| value.clone().map(|value| (name, value)))
        .collect()
    }

    /// Whether both have the same CPU model and number of CPUs, as far as known.
    pub(crate) fn is_same_machine(&self, other: &Self) -> bool {
        fn agree<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
            one.zip(other).is_none_or(|(one, other)| one == other)
        }
        agree(self.cpu_model.as_ref(), other.cpu_model.as_ref())
            && agree(self.cores.as_ref(), other.cores.as_ref())
    }

    /// Differences from `before`, in words: `kernel 6.12.1 → 6.18.4`. Values unknown on either side are ignored.
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let before = before.lasting();
        let value_before = |name| before.iter().find(|(known, _)| *known == name).map(|(_, v)| v);
        self.lasting()
            .into_iter()
            .filter_map(|(name, now)| {
                let before = value_before(name)?;
                (*before != now).then(|| format!("{name} {before} → {now}"))
            })
            .collect()
    }
}

const SHORT_ID_DIGITS: usize = 8;

/// The last eight digits of a UUID: UUIDs created within a minute begin alike. Accepted by every command that takes a UUID.
pub fn short_id(uuid: Uuid) -> String {
    let digits = uuid.simple().to_string();
    digits[digits.len() - SHORT_ID_DIGITS..].to_owned()
}

/// The first ten digits of a commit's hash.
pub fn short_hash(hash: &str) -> &str {
    hash.get(..10).unwrap_or(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_in_words() {
        let kernel = |kernel: &str| Environment {
            kernel: Some(kernel.to_owned()),
            load: Some(kernel.len() as f64),
            ..Environment::default()
        };
        let check = |before: &Environment, now: &Environment, expected: &[&str]| {
            assert_eq!(now.changes_since(before), expected);
        };
        check(&kernel("6.12"), &kernel("6.18.1"), &["kernel 6.12 → 6.18.1"]);
        check(&kernel("6.12"), &kernel("6.12"), &[]);
        check(&Environment::default(), &kernel("6.12"), &[]);
    }

    #[test]
    fn last_digits() {
        assert_eq!(short_id(Uuid::from_u128((1 << 100) | 0xbeef)), "0000beef");
    }
}
