//! The client's queries about the server itself.

use axum::{Json, extract::State, http::HeaderMap};
use serde::Serialize;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};
use uuid::Uuid;

use super::{accounts::JsonUser, request::Listed, shapes::JsonEntity, view};
use crate::{
    ApiError, App,
    access::Role,
    database::{Counts, Database},
    settings::DataLocation,
    storage,
};

/// Answer of `GET /v0/server/version`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Version {
    version: String,
    /// The version of this server.
    wingbeat: &'static str,
}

/// Answer of `GET /v0/server/config/console`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Console {
    url: String,
}

/// Echoes the client's version: the client warns before each call about a different one, and all versions from 0.6 on
/// are supported.
pub(super) async fn version(headers: HeaderMap) -> Json<Version> {
    let asked = headers.get("api-version").and_then(|value| value.to_str().ok());
    let is_version = |text: &&str| {
        !text.is_empty()
            && text.len() <= 32
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+".contains(&byte))
    };
    let version = asked.filter(is_version).unwrap_or("0.6.12").to_owned();
    Json(Version { version, wingbeat: env!("CARGO_PKG_VERSION") })
}

/// URL of the pages, the base of all links that the client prints.
pub(super) async fn console(State(app): State<App>) -> Json<Console> {
    Json(Console { url: app.settings.public_url.clone() })
}

/// Settings in the client's form. There is no secret, but the client demands one, as Bencher's servers hide theirs.
pub(super) async fn config(State(app): State<App>) -> Json<Value> {
    let settings = &app.settings;
    let file = match &settings.location {
        DataLocation::Folder(folder) => folder.join(storage::FILE).display().to_string(),
        place @ DataLocation::Postgres { .. } => place.to_string(),
    };
    Json(json!({
        "console": { "url": settings.public_url },
        "security": { "secret_key": "************" },
        "server": {
            "bind_address": settings.listen,
            "request_body_max_bytes": settings.body_bytes_max,
        },
        "logging": { "name": "wingbeat", "log": { "stderr_terminal": { "level": "info" } } },
        "database": { "file": file },
    }))
}

pub(super) async fn refuse_config(State(app): State<App>) -> ApiError {
    ApiError::forbidden(format!(
        "the settings of {} are flags, variables and a file on its machine: see `wingbeat serve --help`, and start the \
         server anew",
        app.settings.public_url
    ))
}

pub(super) async fn refuse_backup() -> ApiError {
    ApiError::forbidden(
        "backups are made on the machine of the server, while it runs: `wingbeat serve backup FILE`, or PostgreSQL's \
         own tools",
    )
}

/// What the server has none of.
pub(super) async fn none() -> Listed<JsonEntity> {
    Listed(Vec::new(), 0)
}

/// Counts in the client's form.
pub(super) async fn stats(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    let now = OffsetDateTime::now_utc();
    let read = move |database: &Database| {
        let since = [now - Duration::days(7), now - Duration::days(30), OffsetDateTime::UNIX_EPOCH];
        let counts = since.map(|since| database.counts(since));
        let [week, month, total] = counts;
        let admins = database.users()?.into_iter().filter(|user| user.role == Role::Admin);
        let admins: Vec<_> = admins.map(|user| JsonUser::from(&user)).collect();
        Ok::<_, ApiError>(([week?, month?, total?], admins))
    };
    let (counts, admins) = app.storage.read(read).await?;
    let created = counts[2].since.unwrap_or(now);
    let time = |time: OffsetDateTime| time.format(&Rfc3339).unwrap_or_default();
    let organization = view::organization();
    let uuid = Uuid::new_v5(&organization.uuid, app.settings.public_url.as_bytes());
    Ok(Json(json!({
        "server": { "uuid": uuid, "created": time(created), "version": env!("CARGO_PKG_VERSION") },
        "timestamp": time(now),
        "organizations": [organization],
        "admins": admins,
        "users": cohort(&counts, |it| it.users),
        "projects": cohort(&counts, |it| it.projects),
        "projects_claimed": cohort(&counts, |it| it.projects),
        "active_projects": cohort(&counts, |it| it.active_projects),
        "reports": cohort(&counts, |it| it.reports),
        "metrics": cohort(&counts, |it| it.metrics),
    })))
}

/// Counts of a week, a month and all time.
fn cohort(counts: &[Counts; 3], count: impl Fn(&Counts) -> u64) -> Value {
    let [week, month, total] = counts.each_ref().map(count);
    json!({ "week": week, "month": month, "total": total })
}
