//! Pages for people: written here, with links between them, and forms. Only zooming needs a script.

mod layout;
mod projects;

use axum::{http::Method, routing::get};

use crate::access::{Right, Route};

/// All pages.
pub fn routes() -> Vec<Route> {
    vec![Route::page(Method::GET, "/", Right::Open, get(projects::list))]
}
