//! The native route, `/v1`: documents of the export format whole, in both directions. What the format of the
//! `bencher` client leaves out (samples, environment, failures, verdicts) stays.
//!
//! Names in documents are those of the results, not those that somebody gave them on a page since.

mod hand_out;
mod naming;
mod take_in;

use axum::{
    http::Method,
    routing::{get, post},
};

use crate::access::{Right, Route};

/// The routes of it.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::api(Method::POST, "/v1/reports", Right::Handler, post(take_in::take_in)),
        Route::api(
            Method::GET,
            "/v1/projects/{project}/documents",
            Right::Read,
            get(hand_out::documents),
        ),
        Route::api(
            Method::GET,
            "/v1/projects/{project}/entries",
            Right::Read,
            get(hand_out::entries),
        ),
    ]
}
