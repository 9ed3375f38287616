//! The request: `POST /v0/run`, with results in Bencher Metric Format.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::Submission;
use crate::{
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
    let time = |time: time::OffsetDateTime| output::time(time.to_offset(time::UtcOffset::UTC));
    let results: Vec<String> = report.iterations.iter().map(|it| bmf(it).to_string()).collect();
    let mut request = json!({
        "project": report.project,
        "idempotency_key": report.uuid,
        "branch": report.branch,
        "testbed": report.testbed,
        "start_time": time(report.start_time),
        "end_time": time(report.end_time),
        "results": results,
        "settings": { "adapter": "json" },
    });
    if let Some(hash) = output::sha1(report.hash.as_deref()) {
        request["hash"] = json!(hash);
    }
    let start_point = start_point(submission);
    if !start_point.is_empty() {
        request["start_point"] = Value::Object(start_point);
    }
    let models: Map<String, Value> = submission
        .thresholds
        .iter()
        .filter(|threshold| refusal(threshold).is_none())
        .map(|threshold| (threshold.measure.to_string(), json!(threshold.model)))
        .collect();
    if !models.is_empty() || submission.thresholds_reset {
        request["thresholds"] = json!({ "models": models, "reset": submission.thresholds_reset });
    }
    if !submission.context.is_empty() {
        request["context"] = json!(submission.context);
    }
    request
}

fn start_point(submission: &Submission<'_>) -> Map<String, Value> {
    let mut start_point = Map::new();
    if let Some(start) = &submission.report.start_point {
        start_point.insert("branch".to_owned(), json!(start.branch));
        start_point.insert("max_versions".to_owned(), json!(start.max_versions));
        if let Some(hash) = output::sha1(start.hash.as_deref()) {
            start_point.insert("hash".to_owned(), json!(hash));
        }
        if submission.clone_thresholds {
            start_point.insert("clone_thresholds".to_owned(), json!(true));
        }
    }
    if submission.start_point_reset {
        start_point.insert("reset".to_owned(), json!(true));
    }
    start_point
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
