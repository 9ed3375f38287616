//! The native API, `/v1`: exchanges whole documents of the export format. It preserves what the `bencher` format omits
//! (samples, environment, failures, verdicts).
//!
//! Documents use the names in the results, not names changed on a page later.

mod export;
mod import;
mod resolve_names;

use axum::{
    http::Method,
    routing::{get, post},
};

use crate::access::{Right, Route};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::api(Method::POST, "/v1/reports", Right::Handler, post(import::reports)),
        Route::api(
            Method::GET,
            "/v1/projects/{project}/documents",
            Right::Read,
            get(export::documents),
        ),
        Route::api(
            Method::GET,
            "/v1/projects/{project}/entries",
            Right::Read,
            get(export::entries),
        ),
    ]
}
