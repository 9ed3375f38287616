//! Earlier reports by series: the values of each measure of each benchmark, oldest first.

use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    measure::Measure,
    name::{BenchmarkName, BranchName},
    report::Environment,
    verdict::{AlertStatus, Limit, Outcome},
};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Past {
    pub reports: Vec<PastReport>,
    /// Sorted by benchmark, measure and units.
    pub series: Vec<PastSeries>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PastReport {
    pub uuid: Uuid,
    /// The branch of the report: the start point, or its own start point, and so on.
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
    /// As in the newest report.
    pub measure: Measure,
    pub points: Vec<PastPoint>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PastPoint {
    /// Index of its report in [`Past::reports`].
    pub report: usize,
    pub iteration: u32,
    /// The measured value, which is finite.
    pub value: f64,
    /// Repeated measurements. A value refuted by them never begins a new level.
    pub repeats: Vec<f64>,
    /// Raw samples, if the report is among the newest, for which they are read.
    pub samples: Vec<f64>,
    pub alert: Option<(Limit, AlertStatus)>,
    /// The verdict, if it [stands out](Outcome::stands_out).
    pub outcome: Option<Outcome>,
}

impl Past {
    /// The series of a benchmark's measure in the same units. A series continues when units are first described or no
    /// longer described, and under the slug now derived from its name.
    pub fn find(&self, benchmark: &BenchmarkName, measure: &Measure) -> Option<&PastSeries> {
        let key = (benchmark, &measure.slug, &measure.units);
        let at = self.series.binary_search_by(|series| {
            (&series.benchmark, &series.measure.slug, &series.measure.units).cmp(&key)
        });
        let Err(at) = at else { return at.ok().map(|at| &self.series[at]) };
        let is_own = |series: &&PastSeries| series.benchmark == *benchmark;
        let mut own = self.series[..at].iter().rev().take_while(is_own);
        let mut behind = self.series[at..].iter().take_while(is_own);
        let goes_on = |series: &&PastSeries| series.measure.goes_on_as(measure);
        own.find(goes_on).or_else(|| behind.find(goes_on))
    }
}

impl PastSeries {
    /// Splits the points after the last one within a limit. All points after it are beyond the limit: the level may
    /// have changed some reports before the alert.
    pub fn split_at_limit(&self, crossed: Limit, limit: f64) -> (&[PastPoint], &[PastPoint]) {
        let is_beyond = |point: &&PastPoint| match crossed {
            Limit::Upper => point.value > limit,
            Limit::Lower => point.value < limit,
        };
        let beyond = self.points.iter().rev().take_while(is_beyond).count();
        self.points.split_at(self.points.len() - beyond)
    }
}

impl PastPoint {
    /// A point of the first iteration of a report, without an alert.
    pub fn new(report: usize, value: f64) -> Self {
        let (repeats, samples) = (Vec::new(), Vec::new());
        Self { report, iteration: 0, value, repeats, samples, alert: None, outcome: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_may_have_changed_before_an_alert() {
        let check = |values: &[f64], crossed, expected: usize| {
            let points = values.iter().enumerate();
            let series = PastSeries {
                benchmark: BenchmarkName::new("a").expect("a name"),
                measure: Measure::latency(),
                points: points.map(|(at, &value)| PastPoint::new(at, value)).collect(),
            };
            assert_eq!(series.split_at_limit(crossed, 2.0).1.len(), expected, "{values:?}");
        };
        check(&[1.0, 1.0, 3.0, 3.0], Limit::Upper, 2);
        check(&[3.0, 1.0, 3.0], Limit::Upper, 1);
        check(&[1.0, 1.0], Limit::Upper, 0);
        check(&[3.0, 1.0], Limit::Lower, 1);
        check(&[], Limit::Upper, 0);
    }
}
