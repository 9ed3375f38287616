//! One report whole, as text.

use std::{collections::HashMap, fmt::Write as _};

use owo_colors::OwoColorize as _;
use wingbeat_track::{
    decide::{Outcome, Verdict},
    model::{BenchmarkName, Measure, Metric, Report, Slug, Status},
    plot::units::{Units, percent},
};

use crate::store::{
    id::short,
    minute,
    table::{Side, table},
};

pub(super) fn text(report: &Report) -> String {
    let mut out = head(report);
    // Writing into a string does not fail.
    let _ = write!(out, "\n{}", metrics(report));
    let failures: Vec<Vec<String>> = report
        .iterations
        .iter()
        .flat_map(|results| &results.failures)
        .map(|failure| vec![failure.name.to_string(), failure.reason.clone()])
        .collect();
    if !failures.is_empty() {
        let head = [("failed", Side::Left), ("reason", Side::Left)];
        let _ = write!(out, "\n{}", table(&head, &failures));
    }
    if !report.alerts.is_empty() {
        let _ = write!(out, "\n{}", alerts(report));
    }
    out
}

fn head(report: &Report) -> String {
    let environment = &report.environment;
    let mut rows = vec![
        ("report", report.uuid.to_string()),
        ("project", report.project.to_string()),
        ("branch", report.branch.to_string()),
    ];
    if report.epoch > 0 {
        rows.push(("epoch", report.epoch.to_string()));
    }
    if let Some(start) = &report.start_point {
        let at = start.hash.as_ref().map_or_else(String::new, |hash| format!(" at {hash}"));
        let until =
            start.until.map_or_else(String::new, |time| format!(", up to {}", minute(time)));
        rows.push((
            "from",
            format!("{}{at}{until}, at most {} versions", start.branch, start.max_versions),
        ));
    }
    if let Some(hash) = &report.hash {
        let dirty = if environment.is_dirty == Some(true) { ", with local changes" } else { "" };
        rows.push(("hash", format!("{hash}{dirty}")));
    }
    let took = (report.end_time - report.start_time).as_seconds_f64();
    rows.push(("testbed", report.testbed.to_string()));
    rows.push(("time", format!("{} UTC, {took:.1} s", minute(report.start_time))));
    rows.push(("adapter", report.adapter.to_string()));
    rows.extend(environment.lasting());
    if let Some(load) = environment.load {
        rows.push(("load", format!("{load:.2}")));
    }
    if let Some(steal) = environment.steal {
        rows.push(("steal", format!("{:.1} %", 100.0 * steal)));
    }
    if let Some(other) = report.confirms {
        rows.push(("confirms", other.to_string()));
    }
    let widest = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): (&str, String)| {
        let fill = " ".repeat(widest - name.len());
        format!("{}{fill}  {value}\n", name.dimmed())
    };
    rows.into_iter().map(line).collect()
}

fn metrics(report: &Report) -> String {
    let verdicts: HashMap<(u32, &BenchmarkName, &Slug), &Verdict> = report
        .verdicts
        .iter()
        .map(|verdict| ((verdict.iteration, &verdict.benchmark, &verdict.measure), verdict))
        .collect();
    let head = [
        ("iteration", Side::Right),
        ("benchmark", Side::Left),
        ("measure", Side::Left),
        ("value", Side::Right),
        ("spread", Side::Left),
        ("baseline", Side::Right),
        ("change", Side::Right),
        ("verdict", Side::Left),
    ];
    let has_several = report.iterations.len() > 1;
    let mut rows = Vec::new();
    for (iteration, results) in (0..).zip(&report.iterations) {
        for benchmark in &results.benchmarks {
            for (measure, metric) in &benchmark.metrics {
                let verdict = verdicts.get(&(iteration, &benchmark.name, &measure.slug)).copied();
                let number = if has_several { (iteration + 1).to_string() } else { String::new() };
                let units = Units::of(measure);
                let baseline = verdict.and_then(|verdict| verdict.boundary?.baseline);
                let change = verdict.and_then(|verdict| verdict.change);
                rows.push(vec![
                    number,
                    benchmark.name.to_string(),
                    measure.slug.to_string(),
                    units.format(metric.value),
                    spread(metric, measure),
                    baseline.map_or_else(String::new, |baseline| units.format(baseline)),
                    change.map_or_else(String::new, |change| percent(change.relative)),
                    verdict.map_or_else(String::new, words),
                ]);
            }
        }
    }
    if rows.is_empty() { "no metrics\n".to_owned() } else { table(&head, &rows) }
}

fn spread(metric: &Metric, measure: &Measure) -> String {
    let units = Units::of(measure);
    let end = |end: Option<f64>| end.map_or_else(|| "–".to_owned(), |end| units.format(end));
    match (metric.lower_value, metric.upper_value) {
        (None, None) => String::new(),
        (lower, upper) => format!("{} … {}", end(lower), end(upper)),
    }
}

fn words(verdict: &Verdict) -> String {
    let reason = &verdict.reason;
    match verdict.outcome {
        Outcome::Worse => format!("{}: {reason}", "worse".red()),
        Outcome::Better => format!("{}: {reason}", "better".green()),
        Outcome::Changed => format!("{}: {reason}", "changed".yellow()),
        Outcome::NoChange => "no change".to_owned(),
        Outcome::MovedTogether => format!("moved together: {reason}"),
        Outcome::TooLittleHistory => "too little history".to_owned(),
        Outcome::NotJudged => "not judged".to_owned(),
    }
}

fn alerts(report: &Report) -> String {
    let head = [
        ("alert", Side::Left),
        ("benchmark", Side::Left),
        ("measure", Side::Left),
        ("limit", Side::Left),
        ("status", Side::Left),
        ("reason", Side::Left),
    ];
    let rows: Vec<Vec<String>> = report
        .alerts
        .iter()
        .map(|alert| {
            let status = match alert.status {
                Status::Active => alert.status.red().to_string(),
                _ => alert.status.to_string(),
            };
            vec![
                short(alert.uuid),
                alert.benchmark.to_string(),
                alert.measure.to_string(),
                crate::alerts::side(alert.limit).to_owned(),
                status,
                alert.reason.clone().unwrap_or_default(),
            ]
        })
        .collect();
    table(&head, &rows)
}
