//! The report as Bencher's `JsonReport`, so that tools for one can read the other.
//!
//! All members required by Bencher's client are present. Additions of wingbeat are in members called `wingbeat`, which
//! that client ignores. Bencher's names for tests and adapters are closed sets: a threshold with a test of ours is
//! `null` there, and an adapter of ours is `magic`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Page, row::ReportRow, verdict};
use crate::{
    adapter::Adapter,
    bencher::{
        JsonAlert, JsonAskedStartPoint, JsonBenchmark, JsonBranch, JsonEntity, JsonHead,
        JsonMeasure, JsonMetric, JsonModel, JsonProject, JsonReport, JsonReportCounts,
        JsonReportMeasure, JsonReportResult, JsonStartPoint, JsonTestbed, JsonThreshold,
        JsonThresholdModel, JsonVerdict, JsonVersion, JsonVisibility,
    },
    model::{BenchmarkName, Boundary, Measure, Report, Slug, ThresholdModel, threshold::Test},
};

/// The report as Bencher's `JsonReport`, with wingbeat's additions in members called `wingbeat`.
///
/// Everything is derived from the report: the same report gives the same JSON, and the same name the same UUID in every
/// report.
pub fn json(page: &Page<'_>) -> Value {
    let report = page.report;
    let entities = Entities { page, ids: Ids::of(report) };
    let rows = ReportRow::all(report, page.thresholds);
    // Rows are in report order.
    let mut rest = rows.iter();
    let mut results = Vec::new();
    for (iteration, its) in (0u32..).zip(&report.iterations) {
        let benchmarks = its.benchmarks.iter().map(|benchmark| {
            let own = rest.by_ref().take(benchmark.metrics.len());
            let measures = own.map(|row| entities.result(row)).collect();
            JsonReportResult { iteration, benchmark: entities.benchmark(&benchmark.name), measures }
        });
        results.push(benchmarks.collect());
    }
    json!(JsonReport {
        uuid: report.uuid,
        user: None,
        project: entities.project(),
        branch: entities.branch(),
        testbed: entities.testbed(),
        start_time: report.start_time,
        end_time: report.end_time,
        adapter: adapter_name(report.adapter).to_owned(),
        results: Some(results),
        alerts: Some(rows.iter().filter_map(|row| entities.alert(row)).collect()),
        counts: Some(JsonReportCounts::of(report)),
        notices: Vec::new(),
        created: report.end_time,
        wingbeat: Some(report_additions(page, &rows)),
    })
}

impl ReportRow<'_> {
    /// The verdict as JSON.
    pub fn json(&self) -> JsonVerdict {
        let verdict = self.verdict;
        JsonVerdict {
            verdict: self.outcome(),
            test: verdict.and_then(|verdict| verdict.test),
            change: verdict.and_then(|verdict| verdict.change),
            p: verdict.and_then(|verdict| verdict.p),
            smallest_visible: verdict.and_then(|verdict| verdict.smallest_visible),
            points: verdict.map(|verdict| verdict.points),
            reason: self.reason_text(),
            reason_fields: verdict.map(|verdict| verdict.reason.clone()),
            limit: verdict.and_then(|verdict| verdict.limit),
            is_suspect: self.outcome().is_suspect(),
            is_ignored: self.benchmark.is_ignored,
            samples: self.metric.samples.len(),
            direction: self.measure.direction,
            kind: self.measure.kind,
            threshold: self.threshold.copied(),
        }
    }

    /// The metric as JSON, with that UUID.
    pub fn metric_json(&self, uuid: Uuid) -> JsonMetric {
        let Self { metric, .. } = self;
        let (lower_value, upper_value) = (metric.lower_value, metric.upper_value);
        JsonMetric { uuid, value: metric.value, lower_value, upper_value }
    }
}

fn report_additions(page: &Page<'_>, rows: &[ReportRow<'_>]) -> Value {
    let report = page.report;
    let failures = report.failures().map(|(iteration, failure)| {
        json!({ "iteration": iteration, "benchmark": failure.name, "reason": failure.reason })
    });
    // Number of metrics by outcome. Outcomes without metrics are omitted.
    let mut outcomes: BTreeMap<_, usize> = BTreeMap::new();
    for row in rows {
        *outcomes.entry(row.outcome()).or_default() += 1;
    }
    json!({
        "schema_version": 2,
        "verdict": verdict(page),
        "outcomes": outcomes,
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

/// The entities that a report refers to. Their creation times are unknown here: the report's is used.
#[derive(Debug, Clone, Copy)]
struct Entities<'a> {
    page: &'a Page<'a>,
    ids: Ids,
}

impl Entities<'_> {
    fn project(&self) -> JsonProject {
        let (report, uuid) = (self.page.report, self.ids.project);
        let name = report.project.to_string();
        JsonProject {
            uuid,
            organization: self.ids.organization,
            slug: slug(&name, uuid),
            name,
            url: None,
            visibility: JsonVisibility::Public,
            created: report.end_time,
            modified: report.end_time,
            // Otherwise Bencher's client asks the user to claim it.
            claimed: Some(report.start_time),
        }
    }

    fn branch(&self) -> JsonBranch {
        let report = self.page.report;
        let start_point = report.start_point.as_ref().zip(self.page.start_point_number);
        let start_point = start_point.map(|(start, number)| {
            let (branch, head) = self.ids.other_branch(start.branch.as_str());
            JsonStartPoint {
                branch,
                head,
                version: version(number, self.page.start_point_hash),
                wingbeat: Some(JsonAskedStartPoint { asked_hash: start.hash.clone() }),
            }
        });
        let current = self.page.version_number;
        JsonBranch {
            entity: self.entity(self.ids.branch, report.branch.to_string()),
            head: JsonHead {
                uuid: self.ids.head,
                start_point,
                version: current.map(|number| version(number, report.hash.as_deref())),
                created: report.end_time,
                replaced: None,
            },
        }
    }

    fn testbed(&self) -> JsonTestbed {
        let name = self.page.report.testbed.to_string();
        JsonTestbed { entity: self.entity(self.ids.testbed, name), spec: None }
    }

    fn benchmark(&self, name: &BenchmarkName) -> JsonBenchmark {
        self.entity(self.ids.benchmark(name), name.to_string())
    }

    fn measure(&self, measure: &Measure) -> JsonMeasure {
        let entity = self.entity(self.ids.measure(measure), measure.name.to_string());
        JsonMeasure {
            entity: JsonEntity { slug: measure.slug.to_string(), ..entity },
            units: measure.units.to_string(),
        }
    }

    fn entity(&self, uuid: Uuid, name: String) -> JsonEntity {
        let created = self.page.report.end_time;
        JsonEntity {
            uuid,
            project: self.ids.project,
            slug: slug(&name, uuid),
            name,
            created,
            modified: created,
            archived: None,
        }
    }

    fn result(&self, row: &ReportRow<'_>) -> JsonReportMeasure {
        JsonReportMeasure {
            measure: self.measure(row.measure),
            metric: row.metric_json(self.ids.metric(row)),
            threshold: row.threshold.and_then(|model| self.threshold(row, model)),
            boundary: row.threshold.map(|_| boundary(row)),
            wingbeat: Some(row.json()),
        }
    }

    /// The threshold of a result. `None` for tests unknown to Bencher.
    fn threshold(&self, row: &ReportRow<'_>, model: &ThresholdModel) -> Option<JsonThresholdModel> {
        Some(JsonThresholdModel {
            uuid: self.ids.threshold(row.measure),
            project: self.ids.project,
            model: self.model(row.measure, model)?,
            created: self.page.report.end_time,
        })
    }

    fn model(&self, measure: &Measure, model: &ThresholdModel) -> Option<JsonModel> {
        let is_known = !matches!(model.test, Test::Auto | Test::ChangePoint);
        let uuid = self.ids.model(measure, model);
        is_known.then(|| JsonModel::of(uuid, model, self.page.report.end_time))
    }

    fn alert(&self, row: &ReportRow<'_>) -> Option<JsonAlert> {
        let alert = row.alert?;
        let created = self.page.report.end_time;
        // Without a model if Bencher does not know the test.
        let threshold = JsonThreshold {
            uuid: self.ids.threshold(row.measure),
            project: self.ids.project,
            branch: self.branch(),
            testbed: self.testbed(),
            measure: self.measure(row.measure),
            model: row.threshold.and_then(|model| self.model(row.measure, model)),
            created,
            modified: created,
            wingbeat: None,
        };
        Some(JsonAlert {
            uuid: alert.uuid,
            report: self.page.report.uuid,
            iteration: alert.iteration,
            benchmark: self.benchmark(&alert.benchmark),
            metric: row.metric_json(self.ids.metric(row)),
            threshold,
            boundary: boundary(row),
            limit: alert.limit,
            status: alert.status,
            created,
            modified: created,
            reason: alert.reason.clone(),
        })
    }
}

fn boundary(row: &ReportRow<'_>) -> Boundary {
    row.verdict.and_then(|verdict| verdict.boundary).unwrap_or_default()
}

fn version(number: u64, commit: Option<&str>) -> JsonVersion {
    JsonVersion { number, hash: sha1(commit).map(str::to_owned) }
}

/// Bencher's name for an adapter: its own, or `magic`.
pub fn adapter_name(adapter: Adapter) -> &'static str {
    match adapter {
        Adapter::Csv
        | Adapter::RustDivan
        | Adapter::WingbeatBench
        | Adapter::PerfStat
        | Adapter::Bpftool
        | Adapter::Veristat => "magic",
        known => known.name(),
    }
}

/// Namespace of all derived UUIDs. Arbitrary.
const NAMESPACE: Uuid = Uuid::from_u128(0x6f4f_1d2a_58c3_4d3e_9a0b_77e1_64c2_b05d);

const SLUG_MAX: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Ids {
    organization: Uuid,
    project: Uuid,
    branch: Uuid,
    head: Uuid,
    testbed: Uuid,
    report: Uuid,
}

impl Ids {
    fn of(report: &Report) -> Self {
        let project = below(NAMESPACE, "project", report.project.as_str());
        let branch = below(project, "branch", report.branch.as_str());
        Self {
            organization: below(NAMESPACE, "organization", ""),
            project,
            branch,
            head: below(branch, "head", &report.epoch.to_string()),
            testbed: below(project, "testbed", report.testbed.as_str()),
            report: report.uuid,
        }
    }

    fn other_branch(&self, name: &str) -> (Uuid, Uuid) {
        let branch = below(self.project, "branch", name);
        (branch, below(branch, "head", "0"))
    }

    fn benchmark(&self, name: &BenchmarkName) -> Uuid {
        below(self.project, "benchmark", name.as_str())
    }

    fn measure(&self, measure: &Measure) -> Uuid {
        below(self.project, "measure", measure.slug.as_str())
    }

    fn threshold(&self, measure: &Measure) -> Uuid {
        below(self.branch, "threshold", &format!("{}/{}", self.testbed, measure.slug))
    }

    fn model(&self, measure: &Measure, model: &ThresholdModel) -> Uuid {
        // The debug format contains all settings, and numbers without loss.
        below(self.threshold(measure), "model", &format!("{model:?}"))
    }

    fn metric(&self, row: &ReportRow<'_>) -> Uuid {
        let place = format!("{}/{}/{}", row.iteration, row.measure.slug, row.benchmark.name);
        below(self.report, "metric", &place)
    }
}

fn below(parent: Uuid, kind: &str, name: &str) -> Uuid {
    Uuid::new_v5(&parent, format!("{kind}/{name}").as_bytes())
}

/// A slug of a name. A truncated one ends in a part of the UUID, so that names with a common prefix stay distinct.
fn slug(name: &str, uuid: Uuid) -> String {
    let slug = Slug::of(name).as_str().to_owned();
    if name.len() <= SLUG_MAX {
        return slug;
    }
    let tail = &uuid.simple().to_string()[..7];
    let head = slug.get(..SLUG_MAX - 8).unwrap_or(&slug).trim_end_matches('-');
    format!("{head}-{tail}")
}

/// A commit hash that Bencher accepts: the 40 digits of SHA-1.
pub fn sha1(hash: Option<&str>) -> Option<&str> {
    hash.filter(|hash| hash.len() == 40 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()))
}
