//! Why there is an alert: the profile of the report beside the last one before it.

mod moves;
mod quote;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use wingbeat_difference::{Explanation, Metric, Side, compare, sentences};
use wingbeat_stats::Sample;
use wingbeat_text::printable;

use crate::{
    model::{
        self, Alert, BenchmarkName, Limit, Measure, MeasureKind, ProfileInfo, ProfileKind, Report,
        Slug, Verdict,
    },
    store::{HistoryLimits, Store, StoreError},
};

use quote::Files;
pub use quote::{NoSources, Quote, QuotedLine, Sources};

/// Relative standard deviation of a metric whose spread is not known.
const SD_UNKNOWN: f64 = 0.01;

/// Standard deviations from one end of a 95 % interval to the other.
const INTERVAL_SDS: f64 = 2.0 * 1.96;

/// Values of which a median absolute deviation is worth something.
const MAD_MIN: usize = 5;

/// Of normal values, the standard deviation in median absolute deviations.
const MAD_TO_SD: f64 = 1.4826;

/// Reports among which the last one within the limit is looked for.
const REPORTS_MAX: usize = 100;

/// What was found out about an alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    pub benchmark: BenchmarkName,
    pub measure: Slug,
    /// The functions that explain the change, the largest part first, or why none is named.
    pub sentences: Vec<String>,
    /// The source that sentences are about, as far as it is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotes: Vec<Quote>,
}

impl Explained {
    /// The source lines of the sentence at that index: which line, and its text as a terminal may show it.
    pub fn source_of(&self, sentence: usize) -> impl Iterator<Item = (String, String)> {
        let quotes = self.quotes.iter().filter(move |quote| quote.sentence == sentence);
        quotes
            .flat_map(Quote::lines)
            .map(|(what, text)| (what, printable(&text.replace('\t', " "))))
    }
}

/// Two profiles that explain an alert.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub before: ProfileInfo,
    pub after: ProfileInfo,
    pub measure: Measure,
    pub explanation: Explanation,
    /// The source of functions that are named.
    pub quotes: Vec<Quote>,
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
    #[error("no profile is about this measure: time and instructions can be explained")]
    Measure,
    #[error("{0}")]
    Profiles(String),
}

/// Explains the alerts of a report, as far as it has profiles.
pub fn of_report(
    store: &Store,
    report: &Report,
    sources: &dyn Sources,
) -> Result<Vec<Explained>, StoreError> {
    let mut all = Vec::new();
    for alert in &report.alerts {
        let (sentences, quotes) = match of_alert(store, report, alert, sources) {
            Ok(pair) => (pair.sentences(), pair.quotes),
            // Most reports have no profile, and most measures none that is about them.
            Err(Unexplained::NoProfile | Unexplained::Measure) => continue,
            Err(Unexplained::Store(error)) => return Err(error),
            Err(reason) => (vec![reason.to_string()], Vec::new()),
        };
        let (benchmark, measure) = (alert.benchmark.clone(), alert.measure.clone());
        all.push(Explained { benchmark, measure, sentences, quotes });
    }
    Ok(all)
}

/// Compares the profile of an alert's benchmark with the last one before it.
pub fn of_alert(
    store: &Store,
    report: &Report,
    alert: &Alert,
    sources: &dyn Sources,
) -> Result<Pair, Unexplained> {
    let (measure, metric) = metric(report, alert).ok_or(Unexplained::Measure)?;
    let kinds = kinds(&measure);
    if kinds.is_empty() {
        return Err(Unexplained::Measure);
    }
    let of_benchmark = |profile: &&ProfileInfo| {
        kinds.contains(&profile.kind)
            && profile.benchmark.as_ref().is_none_or(|name| *name == alert.benchmark)
    };
    let profiles = store.profiles(report.uuid)?;
    // One of the benchmark alone is better than one of all.
    let mut candidates: Vec<&ProfileInfo> = profiles.iter().filter(of_benchmark).collect();
    candidates.sort_by_key(|profile| {
        (profile.benchmark.is_none(), kinds.iter().position(|kind| *kind == profile.kind))
    });
    let after = candidates.first().ok_or(Unexplained::NoProfile)?;
    let Level { until, spread } = level(store, report, alert, &measure)?;
    let least = |sd: f64, value: f64| sd.max(value.abs() * spread);
    let metric = Metric {
        before_sd: least(metric.before_sd, metric.before),
        after_sd: least(metric.after_sd, metric.after),
        ..metric
    };
    let before = store
        .profile_before(report, after.benchmark.as_ref(), after.kind, until)?
        .ok_or(Unexplained::NoBaseline)?;
    let read = |side, profile: &ProfileInfo| {
        let pprof = store.profile_content(profile.sha256)?.ok_or(Unexplained::Removed)?;
        Side::read(side, &pprof).map_err(|error| Unexplained::Profiles(error.to_string()))
    };
    let (earlier, later) = (read("earlier", &before)?, read("later", after)?);
    let earlier_report = store.report(before.report)?;
    let files = Files::of(sources, earlier_report.as_ref(), report, &later);
    let earlier = files.renumber(earlier);
    // What was counted is the metric itself.
    let metric = match measure.slug.as_str() {
        INSTRUCTIONS if later.is_exact() => Metric::of_counts(&earlier, &later),
        _ => metric,
    };
    let explanation = compare(&earlier, &later, metric)
        .map_err(|error| Unexplained::Profiles(error.to_string()))?;
    let places = explanation.guilty.iter().map(|guilty| guilty.place.as_ref());
    let quotes = places.enumerate().filter_map(|(at, place)| files.quote(at, &place?.0)).collect();
    Ok(Pair { before, after: (*after).clone(), measure, explanation, quotes })
}

/// What the metric was before the change that an alert is about.
struct Level {
    /// When the last report within the alert's limit began: reports behind it show what is to be explained, also
    /// those that raised no alert yet.
    until: OffsetDateTime,
    /// The standard deviation from report to report, as a part of the value; 0 where it is not known.
    spread: f64,
}

fn level(
    store: &Store,
    report: &Report,
    alert: &Alert,
    measure: &Measure,
) -> Result<Level, StoreError> {
    let boundary = verdict(report, alert).and_then(|verdict| verdict.boundary);
    let limit = boundary.and_then(|boundary| match alert.limit {
        Limit::Upper => boundary.upper_limit,
        Limit::Lower => boundary.lower_limit,
    });
    let limits = HistoryLimits { reports: REPORTS_MAX, sampled_reports: 0 };
    let past = store.history(report, limits)?;
    let found = past.find(&alert.benchmark, measure).zip(limit).and_then(|(series, limit)| {
        let (within, _) = series.split_at_limit(alert.limit, limit);
        let until = past.reports.get(within.last()?.report)?.start_time;
        let values = within.iter().map(|point| point.value);
        Some(Level { until, spread: spread(values.collect()).unwrap_or(0.0) })
    });
    Ok(found.unwrap_or(Level { until: report.start_time, spread: 0.0 }))
}

/// The relative standard deviation of values: by their median absolute deviation, since a history may have spikes and
/// other levels, unless they are too few for that. `None` of fewer than two.
pub fn spread(values: Vec<f64>) -> Option<f64> {
    let sample = Sample::new(values).ok()?;
    let sd = match sample.len() >= MAD_MIN {
        true => MAD_TO_SD * sample.mad(),
        false => sample.std_dev()?,
    };
    let median = sample.median();
    (median != 0.0).then(|| (sd / median).abs())
}

fn verdict<'r>(report: &'r Report, alert: &Alert) -> Option<&'r Verdict> {
    report.verdicts.iter().find(|verdict| {
        (verdict.iteration, &verdict.benchmark, &verdict.measure)
            == (alert.iteration, &alert.benchmark, &alert.measure)
    })
}

impl Pair {
    pub fn sentences(&self) -> Vec<String> {
        sentences(&self.explanation, &|value| written(&self.measure, value))
    }
}

/// A value with its unit, or else the measure's name.
pub fn written(measure: &Measure, value: f64) -> String {
    let ladder = measure.ladder();
    match ladder.own().1 {
        "" => format!("{} {}", ladder.format(value), measure.slug),
        _ => ladder.format(value),
    }
}

/// The measure that exact profiles are of.
const INSTRUCTIONS: &str = "instructions";

/// The profiles that a measure can be explained by, the best first.
fn kinds(measure: &Measure) -> &'static [ProfileKind] {
    match (measure.slug.as_str(), measure.ladder().own().1) {
        (INSTRUCTIONS, _) => &[ProfileKind::Instructions],
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

/// The standard deviation of a metric, as a part of it.
pub fn relative_sd(measure: &Measure, metric: &model::Metric) -> f64 {
    match (measure.kind, metric.lower_value, metric.upper_value) {
        (MeasureKind::Exact, ..) => 0.0,
        (_, Some(lower), Some(upper)) if metric.value != 0.0 => {
            ((upper - lower) / INTERVAL_SDS / metric.value).abs().max(SD_UNKNOWN)
        }
        _ => SD_UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spikes_are_no_spread() {
        let check = |values: &[f64], expected: Option<f64>| {
            let found = spread(values.to_vec()).map(|it| (it * 1e4).round() / 1e4);
            assert_eq!(found, expected, "{values:?}");
        };
        check(&[100.0, 101.0, 99.0, 102.0, 500.0], Some(0.0147));
        check(&[100.0, 110.0], Some(0.0673));
        check(&[100.0], None);
        check(&[0.0, 0.0], None);
    }
}
