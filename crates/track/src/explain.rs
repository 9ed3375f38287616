//! Why there is an alert: the profile of the report beside the last one before it; or any two reports that have one.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
pub use wingbeat_difference::{
    Change, Explanation, Picture, Place, Request, View, sentences, signed as signed_by, step,
};
use wingbeat_difference::{Flame, Metric, Side, compare};

use crate::{
    model::{
        Alert, BenchmarkName, BenchmarkResults, Limit, Measure, MeasureKind, Metric as Measured,
        ProfileInfo, ProfileKind, Report, Slug, Verdict,
    },
    store::{HistoryLimits, Store, StoreError},
};

/// Relative standard deviation of a metric whose spread is not known.
const SD_UNKNOWN: f64 = 0.01;

/// Standard deviations from one end of a 95 % interval to the other.
const INTERVAL_SDS: f64 = 2.0 * 1.96;

/// Reports among which the last one within the limit is looked for.
const REPORTS_MAX: usize = 100;

/// What was found out about an alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    pub benchmark: BenchmarkName,
    pub measure: Slug,
    /// The functions that explain the change, the largest part first, or why none is named.
    pub sentences: Vec<String>,
}

/// Two profiles that explain an alert.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub before: ProfileInfo,
    pub after: ProfileInfo,
    pub measure: Measure,
    pub explanation: Explanation,
    sides: [Side; 2],
}

/// Why a report's alert has no pair of profiles, or what is wrong with them.
#[derive(Debug, thiserror::Error)]
pub enum Unexplained {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the report has no profile of it; `wingbeat run --profile` takes one")]
    NoProfile,
    #[error("its profile was removed to save space")]
    Removed,
    #[error(
        "no report before it has a profile of it; the next alert will have one to compare with"
    )]
    NoBaseline,
    #[error(
        "the reports have no profiles of it that can be compared; `wingbeat run --profile` takes one with each report"
    )]
    NoPair,
    #[error("the reports have no metric of it in common")]
    NoMetric,
    #[error("no profile is about this measure: time and instructions can be explained")]
    Measure,
    #[error("{0}")]
    Profiles(String),
}

/// Explains the alerts of a report, as far as it has profiles.
pub fn of_report(store: &Store, report: &Report) -> Result<Vec<Explained>, StoreError> {
    let mut all = Vec::new();
    for alert in &report.alerts {
        let sentences = match of_alert(store, report, alert) {
            Ok(pair) => pair.sentences(),
            // Most reports have no profile, and most measures none that is about them.
            Err(Unexplained::NoProfile | Unexplained::Measure) => continue,
            Err(Unexplained::Store(error)) => return Err(error),
            Err(reason) => vec![reason.to_string()],
        };
        let (benchmark, measure) = (alert.benchmark.clone(), alert.measure.clone());
        all.push(Explained { benchmark, measure, sentences });
    }
    Ok(all)
}

/// Compares the profile of an alert's benchmark with the last one before it.
pub fn of_alert(store: &Store, report: &Report, alert: &Alert) -> Result<Pair, Unexplained> {
    let (measure, metric) = metric(report, alert).ok_or(Unexplained::Measure)?;
    let kinds = kinds(&measure);
    if kinds.is_empty() {
        return Err(Unexplained::Measure);
    }
    let profiles = store.profiles(report.uuid)?;
    let after = candidates(&profiles, kinds, &alert.benchmark);
    let after = *after.first().ok_or(Unexplained::NoProfile)?;
    let until = last_within(store, report, alert, &measure)?;
    let before = store
        .profile_before(report, after.benchmark.as_ref(), after.kind, until)?
        .ok_or(Unexplained::NoBaseline)?;
    Pair::read(store, before, after.clone(), measure, metric)
}

/// Compares the profiles of a benchmark in two reports, by a measure that both have.
pub fn of_reports(
    store: &Store,
    reports: [&Report; 2],
    benchmark: &BenchmarkName,
    measure: &Slug,
) -> Result<Pair, Unexplained> {
    let [before, after] = reports.map(|report| first_metric(report, benchmark, measure));
    let (before, after) = before.zip(after).ok_or(Unexplained::NoMetric)?;
    let measure = after.0;
    if before.0.units != measure.units {
        return Err(Unexplained::NoMetric);
    }
    let [(before, before_sd), (after, after_sd)] = [before.1, after.1]
        .map(|metric| (metric.value, metric.value.abs() * relative_sd(measure, metric)));
    let metric = Metric { before, after, before_sd, after_sd };
    if kinds(measure).is_empty() {
        return Err(Unexplained::Measure);
    }
    let (first, second) = (store.profiles(reports[0].uuid)?, store.profiles(reports[1].uuid)?);
    let pair = comparable([&first, &second], benchmark, measure).ok_or(Unexplained::NoPair)?;
    let [first, second] = pair.map(ProfileInfo::clone);
    Pair::read(store, first, second, measure.clone(), metric)
}

/// The profiles of two reports that a measure of a benchmark can be explained by: of the same kind, and both of
/// the benchmark alone or both of all.
pub fn comparable<'p>(
    profiles: [&'p [ProfileInfo]; 2],
    benchmark: &BenchmarkName,
    measure: &Measure,
) -> Option<[&'p ProfileInfo; 2]> {
    let [before, after] = profiles.map(|profiles| candidates(profiles, kinds(measure), benchmark));
    after.into_iter().find_map(|after| {
        let fits = |before: &&&ProfileInfo| {
            (before.kind, before.benchmark.is_some()) == (after.kind, after.benchmark.is_some())
        };
        Some([*before.iter().find(fits)?, after])
    })
}

/// Profiles of a benchmark and these kinds, the best first: one of the benchmark alone is better than one of all.
fn candidates<'p>(
    profiles: &'p [ProfileInfo],
    kinds: &[ProfileKind],
    benchmark: &BenchmarkName,
) -> Vec<&'p ProfileInfo> {
    let is_it = |profile: &&ProfileInfo| {
        kinds.contains(&profile.kind)
            && profile.benchmark.as_ref().is_none_or(|name| name == benchmark)
    };
    let mut found: Vec<&ProfileInfo> = profiles.iter().filter(is_it).collect();
    found.sort_by_key(|profile| {
        (profile.benchmark.is_none(), kinds.iter().position(|kind| *kind == profile.kind))
    });
    found
}

/// When the last report within the alert's limit began: reports behind it show what is to be explained, also those
/// that raised no alert yet.
fn last_within(
    store: &Store,
    report: &Report,
    alert: &Alert,
    measure: &Measure,
) -> Result<OffsetDateTime, StoreError> {
    let boundary = verdict(report, alert).and_then(|verdict| verdict.boundary);
    let limit = boundary.and_then(|boundary| match alert.limit {
        Limit::Upper => boundary.upper_limit,
        Limit::Lower => boundary.lower_limit,
    });
    let limits = HistoryLimits { reports: REPORTS_MAX, sampled_reports: 0 };
    let past = store.history(report, limits)?;
    let found = past.find(&alert.benchmark, measure).zip(limit).and_then(|(series, limit)| {
        let (within, _) = series.split_at_limit(alert.limit, limit);
        past.reports.get(within.last()?.report)
    });
    Ok(found.map_or(report.start_time, |last| last.start_time))
}

fn verdict<'r>(report: &'r Report, alert: &Alert) -> Option<&'r Verdict> {
    report.verdicts.iter().find(|verdict| {
        (verdict.iteration, &verdict.benchmark, &verdict.measure)
            == (alert.iteration, &alert.benchmark, &alert.measure)
    })
}

impl Pair {
    fn read(
        store: &Store,
        before: ProfileInfo,
        after: ProfileInfo,
        measure: Measure,
        metric: Metric,
    ) -> Result<Self, Unexplained> {
        let read = |side, profile: &ProfileInfo| {
            let pprof = store.profile_content(profile.sha256)?.ok_or(Unexplained::Removed)?;
            Side::read(side, &pprof).map_err(|error| Unexplained::Profiles(error.to_string()))
        };
        let sides = [read("earlier", &before)?, read("later", &after)?];
        let explanation = compare(&sides[0], &sides[1], metric)
            .map_err(|error| Unexplained::Profiles(error.to_string()))?;
        Ok(Self { before, after, measure, explanation, sides })
    }

    /// The metric before and after, and the difference.
    pub fn whole(&self) -> String {
        step(self.explanation.whole(), &|value| written(&self.measure, value))
    }

    /// Both profiles as one picture.
    pub fn picture(&self, request: Request<'_>) -> Picture {
        let flame = Flame::of(&self.sides[0], &self.sides[1], &self.explanation);
        flame.draw(request, &|value| written(&self.measure, value))
    }

    pub fn sentences(&self) -> Vec<String> {
        sentences(&self.explanation, &|value| written(&self.measure, value))
    }
}

/// A difference with its unit, and twice its standard deviation.
pub fn signed(change: Change, measure: &Measure) -> String {
    wingbeat_difference::signed(change, &|value| written(measure, value))
}

/// A value with its unit, or else the measure's name.
pub fn written(measure: &Measure, value: f64) -> String {
    let ladder = measure.ladder();
    match ladder.own().1 {
        "" => format!("{} {}", ladder.format(value), measure.slug),
        _ => ladder.format(value),
    }
}

/// The profiles that a measure can be explained by, the best first.
fn kinds(measure: &Measure) -> &'static [ProfileKind] {
    match (measure.slug.as_str(), measure.ladder().own().1) {
        ("instructions", _) => &[ProfileKind::Instructions],
        (_, "ns" | "µs" | "ms" | "s") => {
            &[ProfileKind::Wall, ProfileKind::Cpu, ProfileKind::OffCpu, ProfileKind::Instructions]
        }
        _ => &[],
    }
}

/// The measure of an alert, and its metric before and after. `None` where the baseline is not known.
fn metric(report: &Report, alert: &Alert) -> Option<(Measure, Metric)> {
    let is_it = |iteration: u32, benchmark: &BenchmarkName, measure: &Slug| {
        (iteration, benchmark, measure) == (alert.iteration, &alert.benchmark, &alert.measure)
    };
    let (.., measure, metric) = report
        .metrics()
        .find(|(iteration, results, measure, _)| is_it(*iteration, &results.name, &measure.slug))?;
    let before = verdict(report, alert)?.boundary?.baseline?;
    let after = metric.value;
    let share = relative_sd(measure, metric);
    let [before_sd, after_sd] = [before, after].map(|value| (value * share).abs());
    Some((measure.clone(), Metric { before, after, before_sd, after_sd }))
}

/// Standard deviation of a metric as a share of its value.
fn relative_sd(measure: &Measure, metric: &Measured) -> f64 {
    match (measure.kind, metric.lower_value, metric.upper_value) {
        (MeasureKind::Exact, ..) => 0.0,
        (_, Some(lower), Some(upper)) if metric.value != 0.0 => {
            ((upper - lower) / INTERVAL_SDS / metric.value).abs().max(SD_UNKNOWN)
        }
        _ => SD_UNKNOWN,
    }
}

/// The metric of a report's first iteration, with its measure.
fn first_metric<'r>(
    report: &'r Report,
    benchmark: &BenchmarkName,
    measure: &Slug,
) -> Option<(&'r Measure, &'r Measured)> {
    let mut metrics = report.metrics();
    let is_it = |(iteration, results, known, _): &(u32, &BenchmarkResults, &Measure, &Measured)| {
        (*iteration, &results.name, &known.slug) == (0, benchmark, measure)
    };
    metrics.find(is_it).map(|(.., measure, metric)| (measure, metric))
}
