//! The request: `POST /v0/run`, with results in Bencher Metric Format.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value, json};
use time::{OffsetDateTime, UtcOffset};

use super::Submission;
use crate::{
    bencher::{JsonNewRun, JsonReportSettings, JsonReportThresholds, JsonRunStartPoint},
    model::{
        BenchmarkName, Measure, Metric, Results, Threshold, name::strip_ignored, threshold::Test,
    },
    output,
};

/// The suffix by which a benchmark opts out of alerts on a Bencher server.
const IGNORED: &str = "_bencher_ignore";

/// Builds the request without sending it, for `--dry-run`.
///
/// The adapter is `json`: results are sent in Bencher Metric Format, because they are already parsed.
pub fn request(submission: &Submission<'_>) -> Value {
    let report = submission.report;
    let time = |time: OffsetDateTime| time.to_offset(UtcOffset::UTC);
    let supported = submission.thresholds.iter().filter(|threshold| is_for_bencher(threshold));
    let models: BTreeMap<_, _> =
        supported.map(|threshold| (threshold.measure.to_string(), threshold.model)).collect();
    let thresholds = (!models.is_empty() || submission.thresholds_reset).then(|| {
        let reset = Some(submission.thresholds_reset);
        JsonReportThresholds { models: Some(models), reset }
    });
    json!(JsonNewRun {
        project: Some(report.project.to_string()),
        idempotency_key: Some(report.uuid),
        branch: Some(report.branch.to_string()),
        hash: output::sha1(report.hash.as_deref()).map(str::to_owned),
        start_point: start_point(submission),
        testbed: Some(report.testbed.to_string()),
        thresholds,
        start_time: time(report.start_time),
        end_time: time(report.end_time),
        results: report.iterations.iter().map(|it| bmf(it).to_string()).collect(),
        settings: Some(JsonReportSettings {
            adapter: Some("json".to_owned()),
            ..JsonReportSettings::default()
        }),
        context: Some(submission.context.clone()).filter(|context| !context.is_empty()),
        job: None,
    })
}

fn start_point(submission: &Submission<'_>) -> Option<JsonRunStartPoint> {
    let reset = submission.start_point_reset.then_some(true);
    let asked = match &submission.report.start_point {
        Some(start) => JsonRunStartPoint {
            branch: Some(start.branch.to_string()),
            hash: output::sha1(start.hash.as_deref()).map(str::to_owned),
            max_versions: Some(start.max_versions),
            clone_thresholds: submission.clone_thresholds.then_some(true),
            reset,
        },
        None => JsonRunStartPoint { reset, ..JsonRunStartPoint::default() },
    };
    (asked != JsonRunStartPoint::default()).then_some(asked)
}

/// Sentences about what the request cannot contain.
pub(super) fn losses(submission: &Submission<'_>) -> Vec<String> {
    let report = submission.report;
    let mut losses: Vec<String> = submission
        .thresholds
        .iter()
        .filter_map(|threshold| Some((threshold, refusal(threshold)?)))
        .map(|(threshold, reason)| {
            format!("the threshold for {} was not sent: {reason}", threshold.measure)
        })
        .collect();
    let failures = report.failures().count();
    if failures > 0 {
        let benchmarks = wingbeat_text::plural(failures, "benchmark");
        losses.push(format!("{benchmarks} failed, and Bencher cannot record that"));
    }
    if report.hash.is_some() && output::sha1(report.hash.as_deref()).is_none() {
        losses.push("the commit was not sent, because it is not a full SHA-1".to_owned());
    }
    losses
}

/// Whether a Bencher server supports a threshold.
pub fn is_for_bencher(threshold: &Threshold) -> bool {
    refusal(threshold).is_none()
}

/// Why Bencher does not support a threshold.
fn refusal(threshold: &Threshold) -> Option<String> {
    if let Some(glob) = &threshold.benchmark {
        return Some(format!(
            "it is for benchmarks like {glob:?}, and Bencher's thresholds apply to all"
        ));
    }
    let test = threshold.model.test;
    matches!(test, Test::Auto | Test::ChangePoint)
        .then(|| format!("Bencher has no test {test}; name one of its own with --threshold-test"))
}

/// Converts results to Bencher Metric Format.
fn bmf(results: &Results) -> Value {
    let mut benchmarks = Map::new();
    for (benchmark, name) in results.benchmarks.iter().zip(sent_names(results)) {
        let measures: Map<String, Value> = benchmark
            .metrics
            .iter()
            .map(|(measure, metric)| {
                // Bencher has no samples.
                let metric = Metric { samples: Vec::new(), ..metric.clone() };
                (sent_measure(measure).to_owned(), json!(metric))
            })
            .collect();
        benchmarks.insert(name, Value::Object(measures));
    }
    Value::Object(benchmarks)
}

/// The name of a measure: its slug, by which Bencher finds it, or its name if the slug loses letters.
fn sent_measure(measure: &Measure) -> &str {
    let is_for_bencher = !measure.name.is_ascii() && measure.name.len() <= MEASURE_NAME_MAX;
    if is_for_bencher { measure.label() } else { measure.slug.as_str() }
}

/// Maximum length of a measure's name in Bencher, in bytes.
const MEASURE_NAME_MAX: usize = 64;

/// The names of the benchmarks: those of Bencher's client, so that its series continue. If it gives one name to
/// several, it keeps the last one; that one has the name here, too, and the others have our own names.
fn sent_names(results: &Results) -> Vec<String> {
    let own: HashSet<&str> = results.benchmarks.iter().map(|one| one.name.as_str()).collect();
    let mut given = HashSet::new();
    let last_first = results.benchmarks.iter().rev().map(|benchmark| {
        let (own_name, theirs) = (benchmark.name.as_str(), results.bencher_name(&benchmark.name));
        let is_free = !own.contains(theirs) && given.insert(theirs);
        with_ending(if is_free { theirs } else { own_name }, benchmark.is_ignored)
    });
    let mut names: Vec<_> = last_first.collect();
    names.reverse();
    names
}

/// Appends the suffix that opts out of alerts, if there is room for it.
fn with_ending(name: &str, is_ignored: bool) -> String {
    let is_marked = !is_ignored || strip_ignored(name).is_some();
    let marked = format!("{name}{IGNORED}");
    if is_marked || BenchmarkName::new(&*marked).is_err() { name.to_owned() } else { marked }
}
