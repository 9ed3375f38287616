//! The native API, `/v1`: exchanges whole documents of the export format. It preserves what the `bencher` format omits
//! (samples, environment, failures, verdicts).
//!
//! Documents use the names in the results, not names changed on a page later.

mod hand_out;
mod naming;
mod take_in;

use axum::{
    http::Method,
    routing::{get, post},
};

use crate::access::{Right, Route};

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
