//! Pages for people: written here, with links between them, and forms. Only zooming needs a script.

mod accounts;
mod layout;
mod projects;

use axum::{http::Method, routing::get};

use crate::access::{Right, Route};

/// All pages.
pub fn routes() -> Vec<Route> {
    let mut routes = vec![Route::page(Method::GET, "/", Right::Open, get(projects::list))];
    routes.extend(accounts::routes());
    routes
}
