//! `/v0/projects/{project}/reports`

use axum::{Json, extract::Path, http::StatusCode};
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::IntoParams;
use wingbeat_track::store::ReportFilter;

use super::{
    names::find,
    request::{Asked, InProject, Listed, Paging, uuid},
    shapes::JsonReport,
    view::{View, branch_name, testbed_name},
};
use crate::{
    ApiError,
    database::{Database, Kind, Project},
    series,
};

/// Sort keys of a list of reports.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum Sort {
    DateTime,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Query {
    #[allow(dead_code, reason = "there is one order; others are refused as they are read")]
    #[param(inline)]
    sort: Option<Sort>,
    /// UUID, slug or name.
    branch: Option<String>,
    /// UUID, slug or name.
    testbed: Option<String>,
    /// Milliseconds since 1970.
    #[param(minimum = -62167219200000_i64, maximum = 253402300799999_i64)]
    start_time: Option<i64>,
    /// Milliseconds since 1970.
    #[param(minimum = -62167219200000_i64, maximum = 253402300799999_i64)]
    end_time: Option<i64>,
    /// Lists reports of archived branches and testbeds instead of the others.
    archived: Option<bool>,
    /// Whether to include results and alerts.
    expand: Option<bool>,
}

/// Parses a time in an address. Answers repeat it, so it must be valid in RFC 3339: in the years 0 to 9999.
pub(super) fn time_of_ms(ms: i64) -> Result<OffsetDateTime, ApiError> {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000).ok();
    time.filter(|time| time.year() >= 0).ok_or_else(|| {
        ApiError::bad_request(format!("{ms} ms since 1970 is not a valid report time"))
    })
}

pub(super) async fn list(
    asked: InProject,
    Asked(paging): Asked<Paging>,
    Asked(query): Asked<Query>,
) -> Result<Listed<JsonReport>, ApiError> {
    let since = query.start_time.map(time_of_ms).transpose()?;
    let until = query.end_time.map(time_of_ms).transpose()?;
    let read = move |view: &View<'_>| {
        let View { database, project, .. } = view;
        let row = |kind, id: Option<&String>| {
            id.map(|id| find(database, project.id, kind, id)).transpose()
        };
        let branch = row(Kind::Branch, query.branch.as_ref())?;
        let testbed = row(Kind::Testbed, query.testbed.as_ref())?;
        let filter = ReportFilter {
            branch: branch.as_ref().map(branch_name).transpose()?,
            testbed: testbed.as_ref().map(testbed_name).transpose()?,
            since,
            until,
            ..project.reports(query.archived.unwrap_or(false))
        };
        let count = database.results.report_count(&filter)?;
        let clipped = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let (offset, limit) = (paging.offset(), paging.limit());
        let page = if paging.is_descending(true) {
            let end = offset.saturating_add(limit).min(count);
            let mut newest = database.results.reports(&filter, clipped(end))?;
            newest.drain(..clipped(offset).min(newest.len()));
            newest
        } else {
            let mut oldest = database.results.reports(&filter, usize::MAX)?;
            oldest.reverse();
            oldest.into_iter().skip(clipped(offset)).take(clipped(limit)).collect()
        };
        let mut answer = Vec::new();
        for summary in &page {
            answer.extend(match query.expand {
                Some(true) => view.report(summary.uuid)?,
                _ => view.report_in_list(summary)?,
            });
        }
        Ok(Listed(answer, count))
    };
    asked.read(read).await
}

pub(super) async fn view(
    asked: InProject,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<JsonReport>, ApiError> {
    let report = uuid(&id, "report")?;
    asked.read(move |view| view.report(report)).await?.map(Json).ok_or_else(|| missing(&id))
}

/// Withdraws a report: lists, history and plots omit it from now on.
pub(super) async fn delete(
    asked: InProject,
    Path((_, id)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let report = uuid(&id, "report")?;
    let (app, row) = (asked.app.clone(), asked.project.id);
    let delete = move |database: &mut Database, project: &Project| {
        let row = database.report(report)?;
        let is_its = row.is_some_and(|row| row.project == project.id);
        if !is_its || database.results.report(report)?.is_none() {
            return Err(missing(&id));
        }
        database.results.withdraw(report, Some("deleted by the API".to_owned()))?;
        Ok(())
    };
    asked.write(delete).await?;
    series::touch(&app, row);
    Ok(StatusCode::NO_CONTENT)
}

fn missing(id: &str) -> ApiError {
    ApiError::not_found(format!("this project has no report {id}"))
}
