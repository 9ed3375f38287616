//! Thresholds and alerts.

use std::collections::HashMap;

use time::OffsetDateTime;
use wingbeat_track::{model::threshold::Test, store::StoredAlert};

use super::View;
use crate::{
    ApiError,
    api::shapes::{
        JsonAlert, JsonBranch, JsonMetric, JsonModel, JsonThreshold, JsonThresholdModel,
    },
    database::{Entity, Kind, Model, Project, ReportRow, Threshold, ThresholdFilter},
};

/// Thresholds of a branch and testbed, by row of the measure.
pub(in crate::api) struct Judges {
    project: Project,
    branch: i64,
    testbed: i64,
    by_measure: HashMap<i64, Threshold>,
}

impl Judges {
    pub(in crate::api) fn of(
        view: &View<'_>,
        branch: &Entity,
        testbed: &Entity,
    ) -> Result<Self, ApiError> {
        let filter =
            ThresholdFilter { branch: Some(branch.id), testbed: Some(testbed.id), measure: None };
        let found = view.database.thresholds(view.project.id, filter)?;
        Ok(Self {
            project: view.project.clone(),
            branch: branch.id,
            testbed: testbed.id,
            by_measure: found.into_iter().map(|it| (it.measure, it)).collect(),
        })
    }

    /// The threshold of a measure with its model at a given time. If there was none although something judged, the
    /// default.
    pub(in crate::api) fn at(
        &self,
        measure: &Entity,
        time: OffsetDateTime,
        is_judged: bool,
    ) -> Option<JsonThresholdModel> {
        let known = self.by_measure.get(&measure.id);
        let known =
            known.and_then(|known| Some((known.uuid, known.created, known.model_at(time)?)));
        let (uuid, created, model) = match known {
            Some((uuid, created, model)) => (uuid, created, for_client(model)),
            None if is_judged => {
                let default = self.default_of(measure, time);
                (default.uuid, default.created, for_client(default.models.first()?))
            }
            None => return None,
        };
        Some(JsonThresholdModel { uuid, project: self.project.uuid, model, created })
    }

    fn default_of(&self, measure: &Entity, time: OffsetDateTime) -> Threshold {
        // What has judged counts, not what the project has turned off since.
        let project = Project { judges_by_default: true, ..self.project.clone() };
        Threshold::default_of(&project, (self.branch, self.testbed, measure.id), time)
    }
}

impl View<'_> {
    /// A threshold with a model, by default the active one.
    pub(in crate::api) fn threshold(
        &self,
        threshold: &Threshold,
        model: Option<&Model>,
    ) -> Result<JsonThreshold, ApiError> {
        let row = |id| {
            let found = self.database.entity_of_row(id)?;
            let missing = || ApiError::not_found("a name of the threshold has just been deleted");
            found.ok_or_else(missing)
        };
        let (known, own): (Vec<_>, Vec<_>) = model.into_iter().partition(|model| is_known(model));
        Ok(JsonThreshold {
            uuid: threshold.uuid,
            project: self.project.uuid,
            branch: self.branch(&row(threshold.branch)?)?,
            testbed: self.testbed(&row(threshold.testbed)?),
            measure: self.measure(&row(threshold.measure)?),
            model: known.first().map(|model| json(model)),
            created: threshold.created,
            modified: threshold.modified,
            wingbeat: own.first().map(|model| json(model)),
        })
    }

    /// An alert. `branch` is the branch of its report.
    pub(in crate::api) fn alert(
        &self,
        row: &ReportRow,
        branch: JsonBranch,
        stored: &StoredAlert,
    ) -> Result<JsonAlert, ApiError> {
        let alert = &stored.alert;
        let branch_entity = self.named(Kind::Branch, stored.branch.as_str())?;
        let testbed = self.named(Kind::Testbed, stored.testbed.as_str())?;
        let measure = self.named(Kind::Measure, alert.measure.as_str())?;
        let judges = Judges::of(self, &branch_entity, &testbed)?;
        let default = judges.default_of(&measure, row.created);
        let known = judges.by_measure.get(&measure.id);
        let threshold = known.unwrap_or(&default);
        let model = threshold.model_at(row.created);
        let threshold = JsonThreshold {
            uuid: threshold.uuid,
            project: self.project.uuid,
            branch,
            testbed: self.testbed(&testbed),
            measure: self.measure(&measure),
            model: model.filter(|model| is_known(model)).map(json),
            created: threshold.created,
            modified: threshold.modified,
            wingbeat: model.filter(|model| !is_known(model)).map(json),
        };
        Ok(JsonAlert {
            uuid: alert.uuid,
            report: stored.report,
            iteration: alert.iteration,
            benchmark: self.entity(&*self.named(Kind::Benchmark, alert.benchmark.as_str())?),
            metric: JsonMetric {
                uuid: row.metric(stored.position),
                value: stored.value,
                lower_value: stored.lower_value,
                upper_value: stored.upper_value,
            },
            threshold,
            boundary: stored.boundary.unwrap_or_default(),
            limit: alert.limit,
            status: alert.status,
            created: row.created,
            modified: stored.changed.unwrap_or(row.created),
            reason: alert.reason.clone(),
        })
    }
}

/// Whether the client supports the test: its list is closed.
fn is_known(model: &Model) -> bool {
    !matches!(model.settings.test, Test::Auto | Test::ChangePoint)
}

/// The model for a member that the client demands: without it, the client says that nothing can raise an alert. A test
/// that it does not know becomes the nearest one that it does, without a boundary; the verdict beside it names the test.
fn for_client(model: &Model) -> JsonModel {
    let test = if is_known(model) { model.settings.test } else { Test::TTest };
    JsonModel { test, ..json(model) }
}

fn json(model: &Model) -> JsonModel {
    let Model { uuid, created, replaced, settings, .. } = model;
    JsonModel { replaced: *replaced, ..JsonModel::of(*uuid, settings, *created) }
}
