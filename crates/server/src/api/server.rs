//! The client's queries about the server itself.

use axum::{Json, extract::State, http::HeaderMap};
use serde::Serialize;

use crate::App;

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
