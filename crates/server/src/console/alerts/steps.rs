//! Groups alerts by cause: a level that rises raises an alert in each report until the new level is known.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;
use wingbeat_stats::{changes, sample::median};
use wingbeat_track::{
    model::{AlertStatus, Limit, MeasureKind},
    store::{StoreError, StoredAlert},
};

use crate::database::{Database, Project};

/// Alerts of one series that one change of its level raised, oldest first, never empty.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step(Vec<StoredAlert>);

/// Reports without an alert that do not end a step: noise, or reports without the series.
const GAP_MAX: usize = 5;

/// Place of each report among those of its branch and testbed.
type Places = HashMap<Uuid, usize>;

impl Step {
    /// Steps of alerts that are sorted newest first, likewise.
    pub(super) fn all(
        database: &Database,
        project: &Project,
        alerts: Vec<StoredAlert>,
    ) -> Result<Vec<Self>, StoreError> {
        let Some(oldest) = alerts.last() else { return Ok(Vec::new()) };
        let places = database.results.places(&project.stored, oldest.start_time)?;
        Ok(steps(alerts, &places))
    }

    pub(super) fn alerts(&self) -> &[StoredAlert] {
        &self.0
    }

    pub(super) fn oldest(&self) -> &StoredAlert {
        &self.0[0]
    }

    pub(super) fn newest(&self) -> &StoredAlert {
        &self.0[self.0.len() - 1]
    }

    /// Number of reports with these alerts: an iteration has an alert of its own.
    pub(super) fn reports(&self) -> usize {
        self.0.iter().map(|alert| alert.report).collect::<HashSet<_>>().len()
    }

    pub(super) fn count(&self, status: AlertStatus) -> usize {
        self.0.iter().filter(|it| it.alert.status == status).count()
    }

    /// The new level.
    pub(super) fn value(&self) -> f64 {
        median(self.0.iter().map(|alert| alert.value).collect())
    }

    /// The level before. Later baselines may include the new level.
    pub(super) fn baseline(&self) -> Option<f64> {
        self.oldest().boundary?.baseline
    }

    /// Relative change of the level.
    pub(super) fn change(&self) -> Option<f64> {
        let baseline = self.baseline()?;
        Some((self.value() - baseline) / baseline.abs()).filter(|change| change.is_finite())
    }

    /// Names the step in a form, by its ends.
    pub(super) fn name(&self) -> String {
        format!("{}..{}", self.oldest().alert.uuid, self.newest().alert.uuid)
    }

    /// Whether a later alert is of the same step.
    fn takes(&self, later: &StoredAlert, places: &Places) -> bool {
        let place = |alert: &StoredAlert| places.get(&alert.report).copied().unwrap_or_default();
        let gap = place(later).saturating_sub(place(self.newest()));
        gap <= GAP_MAX + 1 && !self.is_known_to(later)
    }

    /// Whether the alert is against a history that has the new level already.
    fn is_known_to(&self, later: &StoredAlert) -> bool {
        let baseline = later.boundary.and_then(|boundary| boundary.baseline);
        let Some((limit, baseline)) = self.oldest().limit().zip(baseline) else { return false };
        match self.oldest().alert.limit {
            Limit::Lower => baseline < limit,
            Limit::Upper => baseline > limit,
        }
    }

    /// Divides the alerts where the level changed again before the first change was known.
    fn divided(mut self) -> impl Iterator<Item = Self> {
        let values: Vec<f64> = self.0.iter().map(|alert| alert.value).collect();
        let mut settings = changes::Settings::default();
        if self.oldest().measure.kind == MeasureKind::Exact {
            settings.change_min = 0.0;
        }
        let ends: Vec<_> = changes::find(&values, &settings).iter().map(|it| it.index).collect();
        let mut parts: Vec<_> =
            ends.into_iter().rev().map(|at| Self(self.0.split_off(at))).collect();
        parts.push(self);
        parts.into_iter()
    }
}

fn steps(alerts: Vec<StoredAlert>, places: &Places) -> Vec<Step> {
    let mut all: Vec<Step> = Vec::new();
    let mut last: HashMap<_, usize> = HashMap::new();
    for alert in alerts.into_iter().rev() {
        let series = (
            alert.branch.clone(),
            alert.testbed.clone(),
            alert.alert.benchmark.clone(),
            alert.alert.measure.clone(),
            alert.alert.limit,
        );
        match last.get(&series) {
            Some(&at) if Step::takes(&all[at], &alert, places) => all[at].0.push(alert),
            _ => {
                last.insert(series, all.len());
                all.push(Step(vec![alert]));
            }
        }
    }
    let mut all: Vec<_> = all.into_iter().flat_map(Step::divided).collect();
    let age = |step: &Step| (step.newest().start_time, step.newest().report);
    all.sort_by_key(|step| std::cmp::Reverse(age(step)));
    all
}

#[cfg(test)]
mod tests {
    use wingbeat_track::model::{Alert, Boundary, Measure, Verdict};

    use super::*;

    /// The alert of a report number, with its value and baseline. The limit is 10 above the baseline.
    fn alert(number: u128, value: f64, baseline: f64, limit: Limit) -> StoredAlert {
        let benchmark = "parse".parse().expect("a name");
        let verdict =
            Verdict { limit: Some(limit), ..Verdict::new(0, benchmark, Measure::latency().slug) };
        StoredAlert {
            alert: Alert::of(Uuid::from_u128(1000 + number), &verdict),
            changed: None,
            report: Uuid::from_u128(number),
            start_time: time::OffsetDateTime::UNIX_EPOCH + time::Duration::days(number as i64),
            project: "p".parse().expect("a name"),
            branch: "main".parse().expect("a name"),
            testbed: "ci".parse().expect("a name"),
            hash: None,
            measure: Measure::latency(),
            position: 0,
            value,
            lower_value: None,
            upper_value: None,
            boundary: Some(Boundary {
                baseline: Some(baseline),
                lower_limit: Some(baseline - 10.0),
                upper_limit: Some(baseline + 10.0),
            }),
        }
    }

    /// Sizes of the steps, newest first, of alerts with report numbers, values and baselines.
    fn sizes(alerts: impl IntoIterator<Item = (u128, f64, f64)>) -> Vec<usize> {
        let places: Places =
            (0..200).map(|number| (Uuid::from_u128(number as u128), number)).collect();
        let mut alerts: Vec<_> = alerts
            .into_iter()
            .map(|(number, value, baseline)| {
                let limit = if value > baseline { Limit::Upper } else { Limit::Lower };
                alert(number, value, baseline, limit)
            })
            .collect();
        alerts.reverse();
        steps(alerts, &places).iter().map(|step| step.alerts().len()).collect()
    }

    #[test]
    fn reports_of_one_level_are_one_step() {
        let level = |numbers: std::ops::Range<u128>, value: f64, baseline: f64| {
            numbers.map(move |number| (number, value + (number % 3) as f64 * 0.1, baseline))
        };
        assert_eq!(sizes(level(20..31, 118.0, 100.0)), [11]);
        // A few reports within the limit are noise, and many are the old level.
        assert_eq!(sizes(level(20..25, 118.0, 100.0).chain(level(30..35, 118.0, 100.0))), [10]);
        assert_eq!(sizes(level(20..25, 118.0, 100.0).chain(level(31..36, 118.0, 100.0))), [5, 5]);
        // The other direction.
        assert_eq!(sizes([(20, 118.0, 100.0), (21, 80.0, 100.0)]), [1, 1]);
        // The level of the first step is the baseline of the second one.
        assert_eq!(sizes(level(20..25, 118.0, 100.0).chain(level(25..28, 140.0, 118.0))), [3, 5]);
        // The level rose again before it was known.
        assert_eq!(sizes(level(20..26, 118.0, 100.0).chain(level(26..32, 150.0, 100.0))), [6, 6]);
    }

    #[test]
    fn a_step_is_from_the_first_baseline_to_the_middle_of_its_values() {
        let alerts = [(1, 120.0, 100.0), (2, 90.0, 104.0), (3, 121.0, 108.0)];
        let alerts = alerts.map(|(number, value, base)| alert(number, value, base, Limit::Upper));
        let step = Step(alerts.to_vec());
        assert_eq!((step.value(), step.baseline(), step.reports()), (120.0, Some(100.0), 3));
        assert!(step.change().is_some_and(|change| (change - 0.2).abs() < 1e-9));
    }
}
