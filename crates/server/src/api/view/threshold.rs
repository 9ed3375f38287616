//! Thresholds and alerts.

use std::collections::HashMap;

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_track::{model::threshold::Test, store::StoredAlert};

use super::View;
use crate::{
    ApiError,
    api::shapes::{
        JsonAlert, JsonBranch, JsonMetric, JsonModel, JsonThreshold, JsonThresholdModel,
    },
    database::{Entity, Kind, Model, ReportRow, Threshold, ThresholdFilter},
};

/// Thresholds of a branch and testbed, by row of the measure.
pub(in crate::api) struct Judges(HashMap<i64, Threshold>);

impl Judges {
    pub(in crate::api) fn of(
        view: &View<'_>,
        branch: &Entity,
        testbed: &Entity,
    ) -> Result<Self, ApiError> {
        let filter =
            ThresholdFilter { branch: Some(branch.id), testbed: Some(testbed.id), measure: None };
        let found = view.database.thresholds(view.project.id, filter)?;
        Ok(Self(found.into_iter().map(|threshold| (threshold.measure, threshold)).collect()))
    }

    /// The threshold of a measure with its model at a given time, if the client supports the test.
    pub(in crate::api) fn at(
        &self,
        project: Uuid,
        measure: &Entity,
        time: OffsetDateTime,
    ) -> Option<JsonThresholdModel> {
        let threshold = self.0.get(&measure.id)?;
        let model = threshold.model_at(time).filter(|model| is_known(model))?;
        Some(JsonThresholdModel {
            uuid: threshold.uuid,
            project,
            model: json(model),
            created: threshold.created,
        })
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
        let threshold = judges.0.get(&measure.id);
        let model = threshold.and_then(|threshold| threshold.model_at(row.created));
        // The client requires a threshold, even for measures judged by `auto` without a stored one.
        let unkept = || {
            Uuid::new_v5(
                &branch_entity.uuid,
                format!("{}/{}", testbed.uuid, measure.uuid).as_bytes(),
            )
        };
        let threshold = JsonThreshold {
            uuid: threshold.map_or_else(unkept, |threshold| threshold.uuid),
            project: self.project.uuid,
            branch,
            testbed: self.testbed(&testbed),
            measure: self.measure(&measure),
            model: model.filter(|model| is_known(model)).map(json),
            created: threshold.map_or(row.created, |threshold| threshold.created),
            modified: threshold.map_or(row.created, |threshold| threshold.modified),
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

fn json(model: &Model) -> JsonModel {
    let Model { uuid, created, replaced, settings, .. } = model;
    JsonModel { replaced: *replaced, ..JsonModel::of(*uuid, settings, *created) }
}
