//! `/v0/projects/{project}/alerts`

use std::collections::HashMap;

use axum::{Json, extract::Path};
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::IntoParams;
use uuid::Uuid;
use wingbeat_track::{
    model::AlertStatus,
    store::{AlertFilter, ReportFilter, StoredAlert},
};

use super::{
    request::{Asked, Body, InProject, Listed, Paging, uuid},
    shapes::{JsonAlert, JsonUpdateAlert},
    view::View,
};
use crate::{
    ApiError,
    database::{Database, Project, ReportRow},
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
    #[param(inline)]
    status: Option<AlertStatus>,
    /// Lists alerts of archived branches, testbeds, benchmarks and measures instead of the others.
    archived: Option<bool>,
}

pub(super) async fn list(
    asked: InProject,
    Asked(paging): Asked<Paging>,
    Asked(query): Asked<Query>,
) -> Result<Listed<JsonAlert>, ApiError> {
    let read = move |view: &View<'_>| {
        let View { database, project, .. } = view;
        let is_archived = query.archived.unwrap_or(false);
        let filter = AlertFilter { status: query.status, ..project.alerts(is_archived) };
        let mut rows: HashMap<Uuid, Option<ReportRow>> = HashMap::new();
        let mut all: Vec<(OffsetDateTime, ReportRow, StoredAlert)> = Vec::new();
        for alert in database.results.alerts(&filter, usize::MAX)? {
            let row = match rows.get(&alert.report) {
                Some(known) => known.clone(),
                None => {
                    let row = database.report(alert.report)?;
                    rows.insert(alert.report, row.clone());
                    row
                }
            };
            let Some(row) = row else { continue };
            let time = match query.sort {
                Some(Sort::Modified) => alert.changed.unwrap_or(row.created),
                _ => row.created,
            };
            all.push((time, row, alert));
        }
        // A report's alerts keep its order.
        match paging.is_descending(true) {
            true => all.sort_by_key(|(time, ..)| std::cmp::Reverse(*time)),
            false => all.sort_by_key(|(time, ..)| *time),
        }
        let (page, count) = paging.of(all);
        let page = page.iter().map(|(_, row, alert)| shape(view, row, alert));
        Ok(Listed(page.collect::<Result<_, _>>()?, count))
    };
    asked.read(read).await
}

pub(super) async fn view(
    asked: InProject,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<JsonAlert>, ApiError> {
    let alert = uuid(&id, "alert")?;
    asked.read(move |view| one(view, alert)).await.map(Json)
}

pub(super) async fn update(
    asked: InProject,
    Path((_, id)): Path<(String, String)>,
    Body(change): Body<JsonUpdateAlert>,
) -> Result<Json<JsonAlert>, ApiError> {
    let alert = uuid(&id, "alert")?;
    if change.reason.as_ref().is_some_and(|reason| reason.len() > 4096) {
        return Err(ApiError::bad_request("the reason has more than 4,096 bytes"));
    }
    let update = move |database: &mut Database, project: &Project| {
        let before = one(&View::of(database, project), alert)?;
        let asked = change.status.unwrap_or(before.status);
        if change.status.is_some_and(|asked| asked != before.status) || change.reason.is_some() {
            database.results.set_alert_status(alert, asked, change.reason)?;
        }
        one(&View::of(database, project), alert)
    };
    asked.write(update).await.map(Json)
}

fn one(view: &View<'_>, alert: Uuid) -> Result<JsonAlert, ApiError> {
    let View { database, project, .. } = view;
    let reports = ReportFilter::of(&project.stored);
    let filter = AlertFilter { reports, uuid: Some(alert), ..AlertFilter::default() };
    let missing = || ApiError::not_found(format!("this project has no alert {alert}"));
    let found = database.results.alerts(&filter, 1)?.pop().ok_or_else(missing)?;
    let row = database.report(found.report)?.ok_or_else(missing)?;
    shape(view, &row, &found)
}

fn shape(view: &View<'_>, row: &ReportRow, alert: &StoredAlert) -> Result<JsonAlert, ApiError> {
    let branch = view.branch_of_report(alert.report, &alert.branch, alert.hash.as_deref())?;
    view.alert(row, branch, alert)
}
