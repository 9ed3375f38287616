//! The report as Bencher's `JsonReport`, so that tools for one can read the other.
//!
//! All members required by Bencher's client are present. Additions of wingbeat are in members called `wingbeat`, which
//! that client ignores. Bencher's names for tests and adapters are closed sets: a threshold with a test of ours is
//! `null` there, and an adapter of ours is `magic`.

mod entities;
mod ids;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub use self::entities::adapter as adapter_name;
pub use self::ids::sha1;
pub(crate) use self::ids::time;
use self::{entities::Entities, ids::Ids};
use super::{Page, row::ReportRow, verdict};

/// The report as Bencher's `JsonReport`, with wingbeat's additions in members called `wingbeat`.
///
/// Everything is derived from the report: the same report gives the same JSON, and the same name the same UUID in every
/// report.
pub fn json(page: &Page<'_>) -> Value {
    let report = page.report;
    let entities = Entities::of(page);
    let rows = ReportRow::all(page.report, page.thresholds);
    // Rows are in report order.
    let mut rest = rows.iter();
    let mut results = Vec::new();
    for (iteration, its) in (0u32..).zip(&report.iterations) {
        let mut benchmarks = Vec::new();
        for benchmark in &its.benchmarks {
            let own = rest.by_ref().take(benchmark.metrics.len());
            let measures: Vec<Value> = own.map(|row| measure(&entities, row)).collect();
            benchmarks.push(json!({
                "iteration": iteration,
                "benchmark": entities.benchmark(&benchmark.name),
                "measures": measures,
            }));
        }
        results.push(Value::Array(benchmarks));
    }
    json!({
        "uuid": report.uuid,
        "user": null,
        "project": entities.project(),
        "branch": entities.branch(),
        "testbed": entities.testbed(),
        "start_time": time(report.start_time),
        "end_time": time(report.end_time),
        "adapter": entities::adapter(report.adapter),
        "results": results,
        "alerts": rows.iter().filter_map(|row| alert(&entities, row)).collect::<Vec<_>>(),
        "counts": {
            "results": counts(page),
            "alerts": { "total": report.alerts.len(), "active": report.active_alerts() },
        },
        "job": null,
        "created": time(report.end_time),
        "wingbeat": report_additions(page, &rows),
    })
}

fn counts(page: &Page<'_>) -> Vec<Value> {
    let of = |results: &crate::model::Results| {
        let benchmarks = &results.benchmarks;
        let metrics = benchmarks.iter().flat_map(|benchmark| &benchmark.metrics);
        let measures: BTreeMap<_, _> = metrics.map(|(measure, _)| (&measure.slug, ())).collect();
        json!({ "benchmarks": benchmarks.len(), "measures": measures.len() })
    };
    page.report.iterations.iter().map(of).collect()
}

fn measure(entities: &Entities<'_>, row: &ReportRow<'_>) -> Value {
    json!({
        "measure": entities.measure(row.measure),
        "metric": metric(&entities.ids, row),
        "threshold": row.threshold.and_then(|model| entities.threshold(row, model)),
        "boundary": row.threshold.map(|_| boundary(row)),
        "wingbeat": row_additions(row),
    })
}

fn metric(ids: &Ids, row: &ReportRow<'_>) -> Value {
    json!({
        "uuid": ids.metric(row),
        "value": row.metric.value,
        "lower_value": row.metric.lower_value,
        "upper_value": row.metric.upper_value,
    })
}

fn boundary(row: &ReportRow<'_>) -> Value {
    json!(row.verdict.and_then(|verdict| verdict.boundary).unwrap_or_default())
}

fn alert(entities: &Entities<'_>, row: &ReportRow<'_>) -> Option<Value> {
    let alert = row.alert?;
    let report = entities.page.report;
    Some(json!({
        "uuid": alert.uuid,
        "report": report.uuid,
        "iteration": alert.iteration,
        "benchmark": entities.benchmark(&alert.benchmark),
        "metric": metric(&entities.ids, row),
        "threshold": entities.alert_threshold(row),
        "boundary": boundary(row),
        "limit": alert.limit,
        "status": alert.status,
        "created": time(report.end_time),
        "modified": time(report.end_time),
        "wingbeat": { "measure": alert.measure, "reason": alert.reason },
    }))
}

fn row_additions(row: &ReportRow<'_>) -> Value {
    let verdict = row.verdict;
    json!({
        "verdict": row.outcome(),
        "test": verdict.and_then(|verdict| verdict.test),
        "change": verdict.and_then(|verdict| verdict.change),
        "p": verdict.and_then(|verdict| verdict.p),
        "smallest_visible": verdict.and_then(|verdict| verdict.smallest_visible),
        "points": verdict.map(|verdict| verdict.points),
        "reason": row.reason_text(),
        "reason_fields": verdict.map(|verdict| &verdict.reason),
        "limit": verdict.and_then(|verdict| verdict.limit),
        "is_suspect": row.outcome().is_suspect(),
        "is_ignored": row.benchmark.is_ignored,
        "samples": row.metric.samples.len(),
        "direction": row.measure.direction,
        "kind": row.measure.kind,
        "threshold": row.threshold,
    })
}

fn report_additions(page: &Page<'_>, rows: &[ReportRow<'_>]) -> Value {
    let report = page.report;
    let failures = report.failures().map(|(iteration, failure)| {
        json!({ "iteration": iteration, "benchmark": failure.name, "reason": failure.reason })
    });
    json!({
        "schema_version": 2,
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
        "explained": page.explained,
        "confirms": report.confirms,
        "store": page.store,
    })
}

/// Number of metrics by outcome. Outcomes without metrics are omitted.
fn outcomes(rows: &[ReportRow<'_>]) -> Value {
    let mut counts = serde_json::Map::new();
    for row in rows {
        let Value::String(name) = json!(row.outcome()) else { continue };
        let count = counts.get(&name).and_then(Value::as_u64).unwrap_or(0);
        counts.insert(name, json!(count + 1));
    }
    Value::Object(counts)
}
