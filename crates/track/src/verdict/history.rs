//! Selects the points of a history that count.

use std::sync::OnceLock;

use time::Duration;
use wingbeat_stats::sample::median;

use super::{ReportInput, Series};
use crate::model::{
    MeasureKind, PastPoint, PastReport, ReasonKind, Shortage, ThresholdModel, threshold::Test,
};

/// Points on each side that decide which value of a repeated point counts.
const AROUND: usize = 5;

pub(super) const REPORTS_MIN: usize = 5;

/// The environments of the past reports and the report's own, each compared once for all series.
pub(super) struct Environments<'a> {
    report: &'a ReportInput<'a>,
    is_same_machine: Vec<bool>,
    /// Changes since each of them, computed on demand.
    news: Vec<OnceLock<Vec<String>>>,
}

impl<'a> Environments<'a> {
    pub(super) fn of(report: &'a ReportInput<'a>) -> Self {
        let is_same = |past: &PastReport| report.environment.is_same_machine(&past.environment);
        let is_same_machine = report.past.iter().map(is_same).collect();
        Self { report, is_same_machine, news: vec![OnceLock::new(); report.past.len()] }
    }

    fn news_since(&self, past: usize) -> &[String] {
        let changes = || self.report.environment.changes_since(&self.report.past[past].environment);
        self.news[past].get_or_init(changes)
    }
}

#[derive(Debug, Clone)]
pub(super) struct History<'a> {
    /// Index of the metric's series in the report, and of its verdict.
    pub(super) index: usize,
    pub(super) series: &'a Series<'a>,
    pub(super) model: ThresholdModel,
    past: &'a [PastReport],
    /// The commit of the report.
    pub(super) commit: Option<&'a str>,
    pub(super) points: Vec<&'a PastPoint>,
    /// Environment changes since the newest of all points, used or not.
    pub(super) news: &'a [String],
    /// Points excluded because they come from another machine.
    pub(super) of_other_machines: usize,
    least: usize,
}

impl<'a> History<'a> {
    pub(super) fn pick(
        environments: &'a Environments<'a>,
        index: usize,
        model: ThresholdModel,
    ) -> Self {
        let report = environments.report;
        let series = &report.series[index];
        let newest = series.history.last();
        let news = newest.map_or(&[][..], |newest| environments.news_since(newest.report));
        let oldest = model
            .window
            .and_then(|window| report.start_time.checked_sub(Duration::seconds(i64::from(window))));
        let is_machine_asked = matches!(model.test, Test::Auto | Test::ChangePoint)
            && series.measure.kind == MeasureKind::Noisy;
        let most = model.max_sample_size.map_or(usize::MAX, |most| most as usize);
        let mut of_other_machines = 0;
        let start_time = |point: &PastPoint| report.past[point.report].start_time;
        let mut points: Vec<&PastPoint> = series
            .history
            .iter()
            .rev()
            .take_while(|point| oldest.is_none_or(|oldest| start_time(point) >= oldest))
            .filter(|point| point.value.is_finite())
            .filter(|point| {
                let counts = !is_machine_asked || environments.is_same_machine[point.report];
                of_other_machines += usize::from(!counts);
                counts
            })
            .take(most)
            .collect();
        points.reverse();
        let least = model.min_sample_size.map_or(0, |least| least as usize);
        let (past, commit) = (report.past, report.hash);
        Self { index, series, model, past, commit, points, news, of_other_machines, least }
    }

    /// The commit of an earlier report.
    pub(super) fn hash(&self, report: usize) -> Option<&'a str> {
        self.past[report].hash.as_deref()
    }

    /// Whether there are enough points for the threshold and the test.
    pub(super) fn suffices(&self, test_least: usize) -> bool {
        self.points.len() >= self.least.max(test_least)
    }

    /// Whether the points come from at least this many reports. Iterations of a report share the machine's state, so
    /// they count once.
    pub(super) fn suffices_in_reports(&self, test_least: usize) -> bool {
        self.suffices(0) && self.reports() >= test_least
    }

    pub(super) fn reports(&self) -> usize {
        self.points.chunk_by(|one, next| one.report == next.report).count()
    }

    /// Why there are too few reports, or too few points for the threshold.
    pub(super) fn shortage_in_reports(&self, needed: usize) -> ReasonKind {
        match self.reports() {
            found if found < needed => ReasonKind::TooFewReports(self.found(found, needed)),
            _ => self.shortage(0),
        }
    }

    pub(super) fn shortage(&self, test_least: usize) -> ReasonKind {
        let needed = self.least.max(test_least);
        ReasonKind::TooFewPoints(self.found(self.points.len(), needed))
    }

    fn found(&self, found: usize, needed: usize) -> Shortage {
        Shortage { found, needed, of_other_machines: self.of_other_machines }
    }

    pub(super) fn report_numbers(&self) -> Vec<usize> {
        self.points.iter().map(|point| point.report).collect()
    }

    pub(super) fn values(&self) -> Vec<f64> {
        self.points.iter().map(|point| point.value).collect()
    }

    /// The values, where a repeated point counts with the value nearest to its neighbours: a value refuted by a repeat
    /// is a spike, and not the first of a new level.
    pub(super) fn settled_values(&self) -> Vec<f64> {
        let values = self.values();
        if self.points.iter().all(|point| point.repeats.is_empty()) {
            return values;
        }
        let settled = |(place, point): (usize, &&PastPoint)| {
            let (from, to) = (place.saturating_sub(AROUND), (place + AROUND + 1).min(values.len()));
            let around = [&values[from..place], &values[place + 1..to]].concat();
            let middle = if around.is_empty() { point.value } else { median(around) };
            let distance = |value: &f64| (value - middle).abs();
            let values = point.repeats.iter().copied().chain([point.value]);
            values.min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(point.value)
        };
        self.points.iter().enumerate().map(settled).collect()
    }
}
