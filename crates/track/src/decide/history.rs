//! Which points of a history count.

use time::Duration;
use wingbeat_stats::sample::median;

use super::{Point, ReportInput, Series};
use crate::model::{Environment, ThresholdModel, threshold::Test};

/// Points on each side that tell what a point that was measured again should have been.
const AROUND: usize = 5;

/// The points that count for one metric.
#[derive(Debug, Clone)]
pub(super) struct History<'a> {
    /// The oldest first.
    pub(super) points: Vec<Point<'a>>,
    /// What is new since the newest of all points, counting or not.
    pub(super) news: Vec<String>,
    /// Points that were left out because they come from another machine.
    pub(super) of_other_machines: usize,
    /// Points that have to count for a decision.
    least: usize,
}

impl<'a> History<'a> {
    pub(super) fn pick(
        report: &ReportInput<'_>,
        series: &Series<'a>,
        model: &ThresholdModel,
    ) -> Self {
        let newest = series.history.iter().rev().find_map(|point| point.environment);
        let news = newest.map(|before| report.environment.changes_since(before));
        let oldest = model
            .window
            .and_then(|window| report.start_time.checked_sub(Duration::seconds(i64::from(window))));
        let is_machine_asked = matches!(model.test, Test::Auto | Test::ChangePoint)
            && series.measure.kind == crate::model::Kind::Noisy;
        let most = model.max_sample_size.map_or(usize::MAX, |most| most as usize);
        let mut of_other_machines = 0;
        // Points of one report, and often of many, share their environment.
        let mut known: Option<(&Environment, bool)> = None;
        let mut is_same_machine = |point: &Point<'a>| {
            let Some(environment) = point.environment else { return true };
            match known {
                Some((other, is_same)) if std::ptr::eq(other, environment) => is_same,
                _ => {
                    let is_same = is_same_machine(report.environment, environment);
                    known = Some((environment, is_same));
                    is_same
                }
            }
        };
        let mut points: Vec<Point<'a>> = series
            .history
            .iter()
            .rev()
            .take_while(|point| oldest.is_none_or(|oldest| point.start_time >= oldest))
            .filter(|point| point.value.is_finite())
            .filter(|point| {
                let counts = !is_machine_asked || is_same_machine(point);
                of_other_machines += usize::from(!counts);
                counts
            })
            .take(most)
            .copied()
            .collect();
        points.reverse();
        let least = model.min_sample_size.map_or(0, |least| least as usize);
        Self { points, news: news.unwrap_or_default(), of_other_machines, least }
    }

    /// Whether there are as many points as the threshold and the test ask for.
    pub(super) fn suffices(&self, test_least: usize) -> bool {
        self.points.len() >= self.least.max(test_least)
    }

    /// Whether the points come from as many reports. The iterations of one report share the state of the
    /// machine, so they are one however many there are.
    pub(super) fn suffices_in_reports(&self, test_least: usize) -> bool {
        self.suffices(0) && self.reports() >= test_least
    }

    /// Reports that the points come from.
    pub(super) fn reports(&self) -> usize {
        self.points.chunk_by(|one, next| one.report == next.report).count()
    }

    /// Why there are too few reports, or too few points for what the threshold asks.
    pub(super) fn shortage_in_reports(&self, test_least: usize) -> String {
        match self.reports() {
            found if found < test_least => self.found(found, test_least, "reports"),
            _ => self.shortage(0),
        }
    }

    /// Why there are too few points.
    pub(super) fn shortage(&self, test_least: usize) -> String {
        self.found(self.points.len(), self.least.max(test_least), "points")
    }

    fn found(&self, found: usize, least: usize, what: &str) -> String {
        let others = match self.of_other_machines {
            0 => String::new(),
            others => format!("; {others} more were measured on another machine"),
        };
        format!("history has {found} of the {least} {what} that are needed{others}")
    }

    /// The report of each point.
    pub(super) fn report_numbers(&self) -> Vec<usize> {
        self.points.iter().map(|point| point.report).collect()
    }

    pub(super) fn values(&self) -> Vec<f64> {
        self.points.iter().map(|point| point.value).collect()
    }

    /// The same, but what was measured again counts as whichever of its values is nearest to the points
    /// around it: a value that a repeat refuted is a spike, and not the first of a new level.
    pub(super) fn settled_values(&self) -> Vec<f64> {
        let values = self.values();
        if self.points.iter().all(|point| point.repeats.is_empty()) {
            return values;
        }
        let settled = |(place, point): (usize, &Point<'_>)| {
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

/// Whether both have the same CPU model and as many CPUs, as far as is known.
fn is_same_machine(one: &Environment, other: &Environment) -> bool {
    let is_same_cpu = match (&one.cpu_model, &other.cpu_model) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    let are_as_many = match (one.cores, other.cores) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    is_same_cpu && are_as_many
}
