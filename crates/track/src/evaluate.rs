//! Judges a report by its history and records the verdicts. `wingbeat run` uses the local store, a server its own.
//!
//! `head` finds the history that the report belongs to, [`Background`] reads it, [`evaluate`] decides.

mod head;
mod notices;

use std::collections::HashSet;

use uuid::Uuid;
use wingbeat_stats::sample;

use crate::{
    model::{
        Alert, AlertStatus, BenchmarkName, Limit, Measure, MeasureKind, Notice, Outcome, Past,
        PastPoint, PastReport, ReasonNote, Report, Results, Slug, Threshold, ThresholdModel,
        Verdict,
        threshold::{Test, best_of},
    },
    store::{HistoryLimits, Store, StoreError},
    verdict::{self, Decision, Look, ReportInput, Series, Settings},
};

pub(crate) use head::place;
pub use head::{Branching, settle};

const LIMITS: HistoryLimits = HistoryLimits { reports: 512, sampled_reports: 8 };

/// Thresholds and settings of the decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    pub thresholds: Vec<Threshold>,
    /// The threshold of a metric that matches none of these. `None`: it is not judged.
    pub otherwise: Option<ThresholdModel>,
    pub settings: Settings,
}

/// A report with its verdicts.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// With its verdicts and alerts.
    pub report: Report,
    /// The threshold behind each verdict.
    pub thresholds: Vec<Option<ThresholdModel>>,
    pub notices: Vec<Notice>,
    /// Metrics with too short a history that look changed.
    pub looks: Vec<Look>,
    /// The newest report of the history used.
    pub compared_with: Option<ComparedWith>,
}

/// A report of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedWith {
    pub uuid: Uuid,
    pub hash: Option<String>,
}

/// Data from the store that a report is judged by.
#[derive(Debug, Clone, Default)]
pub struct Background {
    past: Past,
    /// Earlier reports of the branch, if `past` is that of its start point.
    pushes: Past,
    silenced: HashSet<(BenchmarkName, Slug)>,
}

impl Background {
    /// Reads the background that the rules need. Empty without a store.
    pub fn read(report: &Report, rules: &Rules, store: Option<&Store>) -> Result<Self, StoreError> {
        let Some(store) = store else { return Ok(Self::default()) };
        let mut branches = vec![report.branch.clone()];
        branches.extend(report.start_point.iter().map(|start| start.branch.clone()));
        Ok(Self {
            past: history(report, rules, store)?,
            pushes: store.pushes(report, PUSHES_MAX)?,
            silenced: store.silenced(&report.project, &branches, &report.testbed)?,
        })
    }

    /// Whether the user silenced alerts of the series.
    pub(crate) fn is_silenced(&self, verdict: &Verdict) -> bool {
        self.silenced.contains(&(verdict.benchmark.clone(), verdict.measure.clone()))
    }

    pub(crate) fn alert(&self, verdict: &Verdict) -> Alert {
        let status = match self.is_silenced(verdict) {
            true => AlertStatus::Silenced,
            false => AlertStatus::Active,
        };
        Alert { status, ..Alert::of(Uuid::now_v7(), verdict) }
    }

    /// The newest report of history that has a value of one of these benchmarks.
    pub(crate) fn nearest(&self, benchmarks: &[BenchmarkName]) -> Option<&PastReport> {
        let of_one = self.past.series.iter().filter(|it| benchmarks.contains(&it.benchmark));
        let newest = of_one.filter_map(|series| series.points.last()).map(|point| point.report);
        self.past.reports.get(newest.max()?)
    }
}

/// The history of a report. Thresholds that use few points mostly need few reports.
fn history(report: &Report, rules: &Rules, store: &Store) -> Result<Past, StoreError> {
    if let Some(reports) = rules.points_max(report).filter(|most| *most < LIMITS.reports) {
        let past = store.history(report, HistoryLimits { reports, ..LIMITS })?;
        if past.reports.len() < reports || rules.have_all_points(report, &past) {
            return Ok(past);
        }
    }
    store.history(report, LIMITS)
}

/// A repeated value, measured to confirm an alert.
#[derive(Debug, Clone, PartialEq)]
pub struct Repeat {
    pub benchmark: BenchmarkName,
    pub measure: Slug,
    pub value: f64,
}

impl Rules {
    /// Rules from a command line. Without any threshold, `auto` judges everything.
    pub fn of(thresholds: Vec<Threshold>, settings: Settings) -> Self {
        let otherwise = thresholds.is_empty().then(|| ThresholdModel::new(Test::Auto));
        Self { thresholds, otherwise, settings }
    }

    /// Lets thresholds match measures by name if the store has them under another slug.
    pub(crate) fn follow(&mut self, iterations: &[Results]) {
        let metrics = iterations.iter().flat_map(|it| &it.benchmarks).flat_map(|it| &it.metrics);
        let mut seen: Vec<&Measure> = Vec::new();
        for (measure, _) in metrics {
            if !seen.iter().any(|known| known.slug == measure.slug) {
                seen.push(measure);
            }
        }
        for threshold in &mut self.thresholds {
            let named = |it: &&&Measure| Measure::named(&it.name).slug == threshold.measure;
            if seen.iter().all(|it| it.slug != threshold.measure)
                && let Some(measure) = seen.iter().find(named)
            {
                threshold.measure = measure.slug.clone();
            }
        }
    }

    /// Most points of history that a threshold of the report's metrics uses; `None` without a limit.
    fn points_max(&self, report: &Report) -> Option<usize> {
        let mut most = 0;
        for (_, benchmark, measure, _) in report.metrics() {
            let Some(model) = self.model(benchmark.name.as_str(), &measure.slug) else { continue };
            most = most.max(model.points_max()?);
        }
        Some(most)
    }

    /// Whether a history has all points that the thresholds of the report's metrics use.
    fn have_all_points(&self, report: &Report, past: &Past) -> bool {
        report.metrics().all(|(_, benchmark, measure, _)| {
            let model = self.model(benchmark.name.as_str(), &measure.slug);
            let most = model.map_or(Some(0), |model| model.points_max());
            let series = past.find(&benchmark.name, measure);
            let points = series.map_or(&[][..], |series| &series.points);
            let count = points.iter().filter(|point| point.value.is_finite()).count();
            most.is_some_and(|most| count >= most)
        })
    }

    fn model(&self, benchmark: &str, measure: &Slug) -> Option<ThresholdModel> {
        best_of(&self.thresholds, benchmark, measure).copied().or(self.otherwise)
    }
}

/// Judges a report. `repeats` are repeated measurements.
pub fn evaluate(
    mut report: Report,
    rules: &Rules,
    background: &Background,
    repeats: &[Repeat],
) -> Judged {
    let input = ReportInput {
        start_time: report.start_time,
        environment: &report.environment,
        hash: report.hash.as_deref(),
        past: &background.past.reports,
        series: series(&report, rules, background, repeats),
    };
    let Decision { mut verdicts, mut alerts, told: known, looks, mut notices } =
        verdict::decide(&input, &rules.settings);
    notices.extend(notices::of_idle(&rules.thresholds, &report));
    notices.extend(notices::of_wide(&rules.thresholds));
    notices.extend(notices::of_missing(&report, [&background.past, &background.pushes]));
    let told = input.series.iter().zip(&verdicts);
    let told = told.filter(|(_, verdict)| !background.is_silenced(verdict));
    notices.extend(notices::of_absorbed(&background.past.reports, told.clone()));
    notices.extend(notices::of_drift(told));
    let known = known.iter().map(|(at, hash)| (&verdicts[*at], hash.as_str()));
    notices.extend(notices::of_known(known.filter(|(it, _)| !background.is_silenced(it))));
    alerts.retain(|&index| match (input.series.get(index), verdicts.get_mut(index)) {
        (Some(series), Some(verdict)) => recurs(series, verdict),
        _ => true,
    });
    let raised = alerts.iter().filter_map(|&at| input.series.get(at).zip(verdicts.get(at)));
    notices.extend(notices::of_undirected(&report, raised));
    let alerts = alerts
        .into_iter()
        .filter_map(|index| verdicts.get(index))
        .map(|verdict| background.alert(verdict))
        .collect();
    let thresholds = input.series.into_iter().map(|series| series.model).collect();
    report.verdicts = verdicts;
    report.alerts = alerts;
    Judged {
        report,
        thresholds,
        notices,
        looks,
        compared_with: background
            .past
            .reports
            .last()
            .map(|report| ComparedWith { uuid: report.uuid, hash: report.hash.clone() }),
    }
}

/// Whether a value beyond a limit was beyond it in each repetition. If not, the verdict becomes "no change".
fn recurs(series: &Series<'_>, verdict: &mut Verdict) -> bool {
    // `auto` handles repeats of noisy measures itself.
    if verdict.test == Some(Test::Auto) && series.measure.kind == MeasureKind::Noisy {
        return true;
    }
    let boundary = verdict.boundary.unwrap_or_default();
    let is_beyond = |value: f64| match verdict.limit {
        Some(Limit::Lower) => boundary.lower_limit.is_none_or(|limit| value < limit),
        Some(Limit::Upper) => boundary.upper_limit.is_none_or(|limit| value > limit),
        None => true,
    };
    let Some(within) = series.repeats.iter().copied().find(|&value| !is_beyond(value)) else {
        return true;
    };
    verdict.outcome = Outcome::NoChange;
    verdict.limit = None;
    let value = series.metric.value;
    verdict.reason.notes.push(ReasonNote::NotRepeated { value, repeated: within });
    false
}

/// The metrics of the report with their histories.
fn series<'a>(
    report: &'a Report,
    rules: &Rules,
    background: &'a Background,
    repeats: &[Repeat],
) -> Vec<Series<'a>> {
    let metrics = report.metrics().map(|(iteration, benchmark, measure, metric)| {
        let past = background.past.find(&benchmark.name, measure);
        let history = past.map_or(&[][..], |past| &past.points);
        let named = (&benchmark.name, measure);
        let is_this =
            |repeat: &&Repeat| repeat.benchmark == benchmark.name && repeat.measure == measure.slug;
        Series {
            iteration,
            benchmark: &benchmark.name,
            measure,
            metric,
            repeats: repeats.iter().filter(is_this).map(|repeat| repeat.value).collect(),
            is_ignored: benchmark.is_ignored,
            model: rules.model(benchmark.name.as_str(), &measure.slug),
            history,
            pushes: push_values(&background.pushes, report, named, history),
        }
    });
    metrics.collect()
}

/// Maximum number of pushes read, newest first.
const PUSHES_MAX: usize = 3;

/// Newest points of history whose median is the level that pushes are compared with.
const BESIDE: usize = 10;

/// Values of earlier reports of a branch with a start point. They are not history, so that a regression does not become
/// usual by repeated pushes. But a push that deviates like the one before is not a spike.
///
/// One value per push on the same machine, oldest first: for repeated measurements the value nearest to history, for
/// several iterations the median.
fn push_values(
    pushes: &Past,
    report: &Report,
    (benchmark, measure): (&BenchmarkName, &Measure),
    history: &[PastPoint],
) -> Vec<f64> {
    let Some(series) = pushes.find(benchmark, measure).filter(|_| !history.is_empty()) else {
        return Vec::new();
    };
    let newest = &history[history.len().saturating_sub(BESIDE)..];
    let level = sample::median(newest.iter().map(|point| point.value).collect());
    let nearest = |point: &PastPoint| {
        let all = point.repeats.iter().copied().chain([point.value]);
        let distance = |value: &f64| (value - level).abs();
        all.min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(point.value)
    };
    let is_same_machine = |past: &PastReport| report.environment.is_same_machine(&past.environment);
    let by_push = series.points.chunk_by(|one, next| one.report == next.report);
    by_push
        .filter(|push| pushes.reports.get(push[0].report).is_some_and(is_same_machine))
        .map(|push| sample::median(push.iter().map(nearest).collect()))
        .collect()
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime};

    use super::*;
    use crate::model::Metric;

    /// A report of two benchmarks, the second of which is measured every fourth day.
    fn report(day: i64) -> Report {
        let mut results = Results::default();
        let mut add = |name: &str| {
            let name = BenchmarkName::new(name).expect("a name");
            let metric = Metric::new(100.0 + (day % 7) as f64);
            results.add(name, Measure::latency(), metric).expect("added");
        };
        add("often");
        if day % 4 == 0 {
            add("seldom");
        }
        let names = ("p".parse(), "main".parse(), "box".parse());
        let (Ok(project), Ok(branch), Ok(testbed)) = names else { panic!("names") };
        let start = OffsetDateTime::UNIX_EPOCH + Duration::days(20_000 + day);
        let iterations = vec![results];
        Report { iterations, ..Report::new(Uuid::now_v7(), project, branch, testbed, start) }
    }

    #[test]
    fn few_reports_are_read_if_they_suffice() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path().join("results.db")).expect("opened");
        for day in 0..60 {
            store.insert(&report(day)).expect("stored");
        }
        let check = |test, most: Option<u32>, day: i64, expected: usize| {
            let model = ThresholdModel { max_sample_size: most, ..ThresholdModel::new(test) };
            let rules =
                Rules { otherwise: Some(model), ..Rules::of(Vec::new(), Settings::default()) };
            let report = report(day);
            let few = Background::read(&report, &rules, Some(&store)).expect("read");
            assert_eq!(few.past.reports.len(), expected, "{test:?} {most:?} {day}");
            let all = store.history(&report, LIMITS).expect("read");
            let all = Background { past: all, ..Background::default() };
            let judge = |background| evaluate(report.clone(), &rules, background, &[]).report;
            assert_eq!(judge(&few).verdicts, judge(&all).verdicts, "{test:?} {most:?} {day}");
        };
        check(Test::TTest, Some(10), 61, 10);
        check(Test::TTest, None, 61, 60);
        check(Test::Auto, Some(10), 61, 60);
        // Ten points of the second are in forty reports.
        check(Test::TTest, Some(10), 64, 60);
        check(Test::TTest, Some(2), 64, 60);
    }
}
