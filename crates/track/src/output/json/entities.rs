//! The entities that a report refers to, as Bencher's JSON. Their creation times are unknown here: the report's is
//! used.

use serde_json::{Value, json};

use super::{
    Page, ReportRow,
    ids::{Ids, sha1, slug, time},
};
use crate::{
    adapter::Adapter,
    model::{BenchmarkName, Measure, ThresholdModel, threshold::Test},
};

#[derive(Debug, Clone, Copy)]
pub(super) struct Entities<'a> {
    pub(super) page: &'a Page<'a>,
    pub(super) ids: Ids,
}

impl<'a> Entities<'a> {
    pub(super) fn of(page: &'a Page<'a>) -> Self {
        Self { page, ids: Ids::of(page.report) }
    }

    pub(super) fn project(&self) -> Value {
        let (report, uuid) = (self.page.report, self.ids.project);
        let mut project = self.thing(uuid, report.project.as_str(), &[]);
        project["organization"] = json!(self.ids.organization);
        project["url"] = Value::Null;
        project["visibility"] = json!("public");
        // Otherwise Bencher's client asks the user to claim it.
        project["claimed"] = json!(time(report.start_time));
        if let Some(members) = project.as_object_mut() {
            members.remove("project");
        }
        project
    }

    pub(super) fn branch(&self) -> Value {
        let report = self.page.report;
        let current =
            self.page.version_number.map(|number| version(number, report.hash.as_deref()));
        let start_point = report.start_point.as_ref().zip(self.page.start_point_number);
        let start_point = start_point.map(|(start, number)| {
            let (branch, head) = self.ids.other_branch(start.branch.as_str());
            json!({
                "branch": branch,
                "head": head,
                "version": version(number, self.page.start_point_hash),
                "wingbeat": { "asked_hash": start.hash },
            })
        });
        let head = json!({
            "uuid": self.ids.head,
            "start_point": start_point,
            "version": current,
            "created": time(report.end_time),
            "replaced": null,
        });
        self.thing(self.ids.branch, report.branch.as_str(), &[("head", head)])
    }

    pub(super) fn testbed(&self) -> Value {
        let name = self.page.report.testbed.as_str();
        self.thing(self.ids.testbed, name, &[("spec", Value::Null)])
    }

    pub(super) fn benchmark(&self, name: &BenchmarkName) -> Value {
        self.thing(self.ids.benchmark(name), name.as_str(), &[])
    }

    pub(super) fn measure(&self, measure: &Measure) -> Value {
        let more = [("units", json!(measure.units)), ("slug", json!(measure.slug))];
        self.thing(self.ids.measure(measure), &measure.name, &more)
    }

    /// The threshold of a result. `None` for tests unknown to Bencher.
    pub(super) fn threshold(&self, row: &ReportRow<'_>, model: &ThresholdModel) -> Option<Value> {
        let created = time(self.page.report.end_time);
        Some(json!({
            "uuid": self.ids.threshold(row.measure),
            "project": self.ids.project,
            "model": self.model(row.measure, model)?,
            "created": created,
        }))
    }

    /// The threshold of an alert, without a model if Bencher does not know the test.
    pub(super) fn alert_threshold(&self, row: &ReportRow<'_>) -> Value {
        let created = time(self.page.report.end_time);
        json!({
            "uuid": self.ids.threshold(row.measure),
            "project": self.ids.project,
            "branch": self.branch(),
            "testbed": self.testbed(),
            "measure": self.measure(row.measure),
            "model": row.threshold.and_then(|model| self.model(row.measure, model)),
            "created": created,
            "modified": created,
        })
    }

    fn model(&self, measure: &Measure, model: &ThresholdModel) -> Option<Value> {
        if matches!(model.test, Test::Auto | Test::ChangePoint) {
            return None;
        }
        Some(json!({
            "uuid": self.ids.model(measure, model),
            "test": model.test,
            "min_sample_size": model.min_sample_size,
            "max_sample_size": model.max_sample_size,
            "window": model.window,
            "lower_boundary": model.lower_boundary,
            "upper_boundary": model.upper_boundary,
            "created": time(self.page.report.end_time),
            "replaced": null,
        }))
    }

    fn thing(&self, uuid: uuid::Uuid, name: &str, more: &[(&str, Value)]) -> Value {
        let created = time(self.page.report.end_time);
        let mut thing = json!({
            "uuid": uuid,
            "project": self.ids.project,
            "name": name,
            "slug": slug(name, uuid),
            "created": created,
            "modified": created,
            "archived": null,
        });
        for (member, value) in more {
            thing[*member] = value.clone();
        }
        thing
    }
}

fn version(number: u64, commit: Option<&str>) -> Value {
    json!({ "number": number, "hash": sha1(commit) })
}

/// Bencher's name for an adapter: its own, or `magic`.
pub fn adapter(adapter: Adapter) -> &'static str {
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
