//! `/v0/projects/{project}/thresholds`

use axum::{Json, extract::Path, http::StatusCode};
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::IntoParams;
use uuid::Uuid;
use wingbeat_track::model::ThresholdModel;

use super::{
    names::find,
    request::{Asked, Body, Created, InProject, Listed, Paging, uuid},
    shapes::{JsonNewThreshold, JsonThreshold, JsonUpdateModel},
    view::View,
};
use crate::{
    ApiError,
    database::{Database, Kind, Project, Threshold, ThresholdFilter},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum Sort {
    Created,
    Modified,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Query {
    #[param(inline)]
    sort: Option<Sort>,
    /// UUID, slug or name.
    branch: Option<String>,
    /// UUID, slug or name.
    testbed: Option<String>,
    /// UUID, slug or name.
    measure: Option<String>,
    /// Lists thresholds of archived branches, testbeds and measures instead of the others.
    archived: Option<bool>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ViewQuery {
    /// The UUID of a model; the active one by default.
    model: Option<Uuid>,
}

pub(super) async fn list(
    asked: InProject,
    Asked(paging): Asked<Paging>,
    Asked(query): Asked<Query>,
) -> Result<Listed<JsonThreshold>, ApiError> {
    let read = move |view: &View<'_>| {
        let (database, project) = (&view.database, view.project);
        let row = |kind, id: Option<&String>| {
            id.map(|id| find(database, project.id, kind, id).map(|entity| entity.id)).transpose()
        };
        let filter = ThresholdFilter {
            branch: row(Kind::Branch, query.branch.as_ref())?,
            testbed: row(Kind::Testbed, query.testbed.as_ref())?,
            measure: row(Kind::Measure, query.measure.as_ref())?,
        };
        let mut all = Vec::new();
        for threshold in database.thresholds(project.id, filter)? {
            let mut is_archived = false;
            for row in [threshold.branch, threshold.testbed, threshold.measure] {
                let entity = database.entity_of_row(row)?;
                is_archived |= entity.is_some_and(|entity| entity.archived.is_some());
            }
            if is_archived == query.archived.unwrap_or(false) {
                all.push(threshold);
            }
        }
        if query.sort == Some(Sort::Modified) {
            all.sort_by_key(|threshold| threshold.modified);
        }
        if paging.is_descending(true) {
            all.reverse();
        }
        let (page, count) = paging.of(all);
        let page = page.iter().map(|threshold| view.threshold(threshold, threshold.model()));
        Ok(Listed(page.collect::<Result<_, _>>()?, count))
    };
    asked.read(read).await
}

pub(super) async fn view(
    asked: InProject,
    Path((_, id)): Path<(String, String)>,
    Asked(query): Asked<ViewQuery>,
) -> Result<Json<JsonThreshold>, ApiError> {
    let read = move |view: &View<'_>| {
        let threshold = one(view.database, view.project, &id)?;
        let model = match query.model {
            None => threshold.model(),
            // The only model of a default, which may have been replaced since.
            Some(uuid) if uuid.to_string() == id => threshold.model(),
            Some(uuid) => {
                let missing =
                    || ApiError::not_found(format!("the threshold {id} has no model {uuid}"));
                let found = threshold.models.iter().find(|model| model.uuid == uuid);
                Some(found.ok_or_else(missing)?)
            }
        };
        view.threshold(&threshold, model)
    };
    asked.read(read).await.map(Json)
}

pub(super) async fn create(
    asked: InProject,
    Body(new): Body<JsonNewThreshold>,
) -> Result<Created<JsonThreshold>, ApiError> {
    let model = checked(new.model)?;
    let create = move |database: &mut Database, project: &Project| {
        let now = OffsetDateTime::now_utc();
        let database = &database;
        let threshold = database.together(|database| {
            let row = |kind, id| find(database, project.id, kind, id).map(|entity| entity.id);
            let branch = row(Kind::Branch, &new.branch)?;
            let testbed = row(Kind::Testbed, &new.testbed)?;
            let measure = row(Kind::Measure, &new.measure)?;
            let place = (branch, testbed, measure);
            let filter = ThresholdFilter {
                branch: Some(branch),
                testbed: Some(testbed),
                measure: Some(measure),
            };
            if database.thresholds(project.id, filter)?.iter().any(|it| it.model().is_some()) {
                return Err(ApiError::conflict(
                    "this branch, testbed and measure have a threshold already: change that",
                ));
            }
            let made = database.set_threshold(project.id, place, Some(&model), now)?;
            made.ok_or_else(|| ApiError::not_found("the threshold has just been deleted"))
        })?;
        View::of(database, project).threshold(&threshold, threshold.model())
    };
    asked.write(create).await.map(Created)
}

pub(super) async fn update(
    asked: InProject,
    Path((_, id)): Path<(String, String)>,
    Body(change): Body<JsonUpdateModel>,
) -> Result<Json<JsonThreshold>, ApiError> {
    let Some(test) = change.test else {
        return Err(ApiError::bad_request(
            "the body has no `test`: name one, or send null to end the active model",
        ));
    };
    let model = test.map(|test| {
        checked(ThresholdModel {
            test,
            min_sample_size: change.min_sample_size,
            max_sample_size: change.max_sample_size,
            window: change.window,
            lower_boundary: change.lower_boundary,
            upper_boundary: change.upper_boundary,
        })
    });
    let model = model.transpose()?;
    let update = move |database: &mut Database, project: &Project| {
        let now = OffsetDateTime::now_utc();
        let Threshold { branch, testbed, measure, .. } = one(database, project, &id)?;
        let place = (branch, testbed, measure);
        database.set_threshold(project.id, place, model.as_ref(), now)?;
        let threshold = one(database, project, &id)?;
        View::of(database, project).threshold(&threshold, threshold.model())
    };
    asked.write(update).await.map(Json)
}

pub(super) async fn delete(
    asked: InProject,
    Path((_, id)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let delete = move |database: &mut Database, project: &Project| {
        let threshold = one(database, project, &id)?;
        if threshold.is_default() {
            return Err(ApiError::conflict(
                "nothing is set here, so there is nothing to delete: the project judges by default; its settings turn \
                 that off for all of its measures",
            ));
        }
        database.delete_threshold(threshold.id)?;
        Ok(StatusCode::NO_CONTENT)
    };
    asked.write(delete).await
}

fn one(database: &Database, project: &Project, id: &str) -> Result<Threshold, ApiError> {
    let found = database.threshold(project, uuid(id, "threshold")?)?;
    found.ok_or_else(|| ApiError::not_found(format!("this project has no threshold {id}")))
}

fn checked(model: ThresholdModel) -> Result<ThresholdModel, ApiError> {
    model.check().map_err(|error| ApiError::bad_request(error.to_string()))?;
    Ok(model)
}
