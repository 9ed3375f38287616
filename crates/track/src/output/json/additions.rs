//! What wingbeat says beyond Bencher: verdicts with their intervals, notices, the environment.

use serde_json::{Value, json};

use super::{Page, ReportRow};
use crate::output::verdict;

/// Of one measure of a result.
pub(super) fn of_row(row: &ReportRow<'_>) -> Value {
    let verdict = row.verdict;
    json!({
        "verdict": row.outcome(),
        "test": verdict.and_then(|verdict| verdict.test),
        "change": verdict.and_then(|verdict| verdict.change),
        "p": verdict.and_then(|verdict| verdict.p),
        "smallest_visible": verdict.and_then(|verdict| verdict.smallest_visible),
        "points": verdict.map(|verdict| verdict.points),
        "reason": verdict.map(|verdict| &verdict.reason),
        "limit": verdict.and_then(|verdict| verdict.limit),
        "is_suspect": row.outcome().is_suspect(),
        "is_ignored": row.benchmark.is_ignored,
        "samples": row.metric.samples.len(),
        "direction": row.measure.direction,
        "kind": row.measure.kind,
        "threshold": row.threshold,
    })
}

pub(super) fn of_report(page: &Page<'_>, rows: &[ReportRow<'_>]) -> Value {
    let report = page.report;
    let failures = (0u32..).zip(&report.iterations).flat_map(|(iteration, results)| {
        results.failures.iter().map(move |failure| {
            json!({ "iteration": iteration, "benchmark": failure.name, "reason": failure.reason })
        })
    });
    json!({
        "schema_version": 1,
        "verdict": verdict(page),
        "outcomes": outcomes(rows),
        "adapter": report.adapter,
        "hash": report.hash,
        "epoch": report.epoch,
        "start_point": report.start_point,
        "environment": report.environment,
        "failures": failures.collect::<Vec<_>>(),
        "notices": page.notices,
        "remarks": page.remarks,
        "confirms": report.confirms,
        "store": page.store,
    })
}

/// How many metrics had each outcome; those that none had are not there.
fn outcomes(rows: &[ReportRow<'_>]) -> Value {
    let mut counts = serde_json::Map::new();
    for row in rows {
        let Value::String(name) = json!(row.outcome()) else { continue };
        let count = counts.get(&name).and_then(Value::as_u64).unwrap_or(0);
        counts.insert(name, json!(count + 1));
    }
    Value::Object(counts)
}
