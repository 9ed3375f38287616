//! Earlier reports by series: for each measure of each benchmark its values, oldest first.

use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    alert::AlertStatus,
    environment::Environment,
    measure::Measure,
    name::{BenchmarkName, BranchName},
    verdict::{Limit, Outcome},
};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Past {
    pub reports: Vec<PastReport>,
    /// In the order of benchmark, measure and units.
    pub series: Vec<PastSeries>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PastReport {
    pub uuid: Uuid,
    /// The measured branch: the start point's, or that of its own start point.
    pub branch: BranchName,
    pub hash: Option<String>,
    pub start_time: OffsetDateTime,
    pub environment: Environment,
}

impl PastReport {
    /// A report of which only the branch and the time matter.
    pub fn at(branch: BranchName, start_time: OffsetDateTime) -> Self {
        let (uuid, environment) = (Uuid::nil(), Environment::default());
        Self { uuid, branch, hash: None, start_time, environment }
    }
}

/// The values of one measure of one benchmark, all in the same units.
#[derive(Debug, Clone, PartialEq)]
pub struct PastSeries {
    pub benchmark: BenchmarkName,
    /// As the newest report has it.
    pub measure: Measure,
    pub points: Vec<PastPoint>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PastPoint {
    /// Its report: an index of [`Past::reports`].
    pub report: usize,
    pub iteration: u32,
    /// The measured value; finite.
    pub value: f64,
    /// The values when it was measured again. One that these refute never begins a new level.
    pub repeats: Vec<f64>,
    /// Single measurements, if the report is among the newest, for which samples are read.
    pub samples: Vec<f64>,
    pub alert: Option<(Limit, AlertStatus)>,
    /// The decision about it, if it [stands out](Outcome::stands_out).
    pub outcome: Option<Outcome>,
}

impl Past {
    /// The series of a benchmark's measure in the same units.
    pub fn find(&self, benchmark: &BenchmarkName, measure: &Measure) -> Option<&PastSeries> {
        let key = (benchmark, &measure.slug, &measure.units);
        let at = self.series.binary_search_by(|series| {
            (&series.benchmark, &series.measure.slug, &series.measure.units).cmp(&key)
        });
        at.ok().map(|at| &self.series[at])
    }
}

impl PastPoint {
    /// A value of the first iteration of a report, which raised no alert.
    pub fn new(report: usize, value: f64) -> Self {
        let (repeats, samples) = (Vec::new(), Vec::new());
        Self { report, iteration: 0, value, repeats, samples, alert: None, outcome: None }
    }
}
