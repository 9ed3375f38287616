//! The API that the `bencher` client uses, version 0.6: `/v0`.

mod accounts;
mod server;

use axum::{http::Method, routing::get};

use crate::access::{Right, Route};

/// All routes of the API.
pub fn routes() -> Vec<Route> {
    let mut routes = vec![
        Route::api(Method::GET, "/v0/server/version", Right::Open, get(server::version)),
        Route::api(Method::GET, "/v0/server/config/console", Right::Open, get(server::console)),
    ];
    routes.extend(accounts::routes());
    routes
}
