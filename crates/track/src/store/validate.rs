//! What a report has to hold to, so that it comes out of a store as it went in.

use std::collections::HashSet;

use super::{InvalidReport, columns::time_ns};
use crate::model::{BenchmarkName, Report, Slug, Verdict};

/// Names a metric of a report: iteration, benchmark, measure.
pub(super) type MetricKey<'r> = (u32, &'r BenchmarkName, &'r Slug);

pub(super) fn validate(report: &Report) -> Result<(), InvalidReport> {
    check(report).map_err(|reason| InvalidReport { report: report.uuid, reason })
}

fn check(report: &Report) -> Result<(), String> {
    let until = report.start_point.as_ref().and_then(|start| start.until);
    for time in [Some(report.start_time), Some(report.end_time), until].into_iter().flatten() {
        if time_ns(time).is_none() {
            return Err(format!("its time {time} is not between the years 1677 and 2262"));
        }
    }
    let environment = &report.environment;
    if [environment.load, environment.steal].into_iter().flatten().any(|value| !value.is_finite()) {
        return Err("the load or the steal of its environment is no finite number".to_owned());
    }
    let metrics = metrics(report)?;
    let is_there = |(iteration, benchmark, measure): MetricKey<'_>, what: &str| {
        let key = (iteration, benchmark, measure);
        metrics.contains(&key).then_some(()).ok_or_else(|| {
            format!(
                "it has {what} about the {measure} of {benchmark} in iteration {iteration}, where it has no such metric"
            )
        })
    };
    for verdict in &report.verdicts {
        is_there((verdict.iteration, &verdict.benchmark, &verdict.measure), "a verdict")?;
        check_verdict(verdict)?;
    }
    let mut uuids = HashSet::new();
    for alert in &report.alerts {
        is_there((alert.iteration, &alert.benchmark, &alert.measure), "an alert")?;
        if !uuids.insert(alert.uuid) {
            return Err(format!("it has the alert {} twice", alert.uuid));
        }
    }
    Ok(())
}

fn metrics(report: &Report) -> Result<HashSet<MetricKey<'_>>, String> {
    let mut metrics = HashSet::new();
    for (iteration, results) in (0..).zip(&report.iterations) {
        let mut names = HashSet::new();
        for benchmark in &results.benchmarks {
            let name = &benchmark.name;
            if !names.insert(name) {
                return Err(format!("it has the benchmark {name} twice in iteration {iteration}"));
            }
            if benchmark.metrics.is_empty() {
                return Err(format!("its benchmark {name} has no metric in iteration {iteration}"));
            }
            for (measure, metric) in &benchmark.metrics {
                let slug = &measure.slug;
                if !metric.is_finite() {
                    return Err(format!("the {slug} of {name} is no finite number"));
                }
                if !metrics.insert((iteration, name, slug)) {
                    return Err(format!(
                        "it has the {slug} of {name} twice in iteration {iteration}"
                    ));
                }
            }
        }
    }
    Ok(metrics)
}

fn check_verdict(verdict: &Verdict) -> Result<(), String> {
    let boundary = verdict.boundary.unwrap_or_default();
    let change = verdict
        .change
        .map_or([None; 3], |change| [Some(change.relative), change.lower, change.upper]);
    let [relative, lower, upper] = change;
    let numbers = [
        ("baseline", boundary.baseline),
        ("lower limit", boundary.lower_limit),
        ("upper limit", boundary.upper_limit),
        ("change", relative),
        ("lower end of the change", lower),
        ("upper end of the change", upper),
        ("p-value", verdict.p),
        ("smallest visible change", verdict.smallest_visible),
    ];
    let (benchmark, measure) = (&verdict.benchmark, &verdict.measure);
    // JSON cannot express the others.
    let is_finite = |number: Option<f64>| number.is_none_or(f64::is_finite);
    if let Some((name, _)) = numbers.iter().find(|(_, number)| !is_finite(*number)) {
        return Err(format!(
            "the {name} in its verdict about the {measure} of {benchmark} is no finite number"
        ));
    }
    if u32::try_from(verdict.points).is_err() {
        return Err(format!("its verdict about {benchmark} counts {} points", verdict.points));
    }
    Ok(())
}
