//! Explains alerts: compares the profile of the report with the last one before it, or those of any two reports.

mod metric;
mod profile_pair;
mod source_excerpt;

use serde::{Deserialize, Serialize};
use wingbeat_pprof::Metric;
pub use wingbeat_pprof::{
    Change, Explanation, Medium, Picture, Request, View, sentences, signed as signed_by, step,
};
use wingbeat_text::printable;

use self::{
    metric::{first_metric, kinds, level, metric_of},
    profile_pair::Asked,
};
pub use self::{
    metric::{relative_sd, spread},
    profile_pair::{Pair, Unexplained, signed, written},
    source_excerpt::{ExcerptLine, NoSources, SourceExcerpt, Sources},
};
use crate::{
    model::{Alert, BenchmarkName, Measure, ProfileInfo, ProfileKind, Report, Slug},
    store::{Store, StoreError},
};

/// The explanation of an alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    pub benchmark: BenchmarkName,
    pub measure: Slug,
    /// The functions that explain the change, the largest contribution first, or why none is named.
    pub sentences: Vec<String>,
    /// Source lines of the sentences, as far as known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excerpts: Vec<SourceExcerpt>,
}

impl Explained {
    /// The source lines of the sentence with that index: a label, and the text as printable on a terminal.
    pub fn source_of(&self, sentence: usize) -> impl Iterator<Item = (String, String)> {
        let excerpts = self.excerpts.iter().filter(move |it| it.sentence == sentence);
        excerpts
            .flat_map(SourceExcerpt::lines)
            .map(|(what, text)| (what, printable(&text.replace('\t', " "))))
    }
}

/// Explains the alerts of a report that have profiles.
pub fn of_report(
    store: &Store,
    report: &Report,
    sources: &dyn Sources,
) -> Result<Vec<Explained>, StoreError> {
    let mut all = Vec::new();
    for alert in &report.alerts {
        let (sentences, excerpts) = match of_alert(store, report, alert, sources) {
            Ok(pair) => (pair.sentences(), pair.excerpts),
            // Most reports have no profile, and most measures no matching one.
            Err(Unexplained::NoProfile | Unexplained::Measure) => continue,
            Err(Unexplained::Store(error)) => return Err(error),
            Err(reason) => (vec![reason.to_string()], Vec::new()),
        };
        let (benchmark, measure) = (alert.benchmark.clone(), alert.measure.clone());
        all.push(Explained { benchmark, measure, sentences, excerpts });
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
    let (measure, metric) = metric_of(report, alert).ok_or(Unexplained::Measure)?;
    let kinds = kinds(&measure);
    if kinds.is_empty() {
        return Err(Unexplained::Measure);
    }
    let profiles = store.profiles(report.uuid)?;
    let after = candidates(&profiles, kinds, &alert.benchmark);
    let after = *after.first().ok_or(Unexplained::NoProfile)?;
    let level = level(store, report, alert, &measure)?;
    let before = store
        .profile_before(report, after.benchmark.as_ref(), after.kind, level.until)?
        .ok_or(Unexplained::NoBaseline)?;
    let earlier = store.report(before.report)?;
    let profiles = [before, after.clone()];
    let asked = Asked {
        profiles,
        reports: [earlier.as_ref(), Some(report)],
        measure,
        metric: level.widen(metric),
    };
    asked.read(store, sources)
}

/// Compares the profiles of a benchmark in two reports, by a measure that both have.
pub fn of_reports(
    store: &Store,
    reports: [&Report; 2],
    (benchmark, measure): (&BenchmarkName, &Slug),
    sources: &dyn Sources,
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
    let (profiles, measure) = (pair.map(ProfileInfo::clone), measure.clone());
    Asked { profiles, reports: reports.map(Some), measure, metric }.read(store, sources)
}

/// The profiles of two reports that can explain a measure of a benchmark: of the same kind, and both of the benchmark
/// alone or both of the whole command.
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

/// Profiles of a benchmark and these kinds, best first: one of the benchmark alone is better than one of the whole
/// command.
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
