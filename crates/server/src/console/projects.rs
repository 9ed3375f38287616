//! The list of projects.

use axum::{Extension, extract::State};
use maud::{Markup, html};

use super::layout::page;
use crate::{
    ApiError, App,
    access::{Caller, Right},
    storage::StorageError,
};

pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Markup, ApiError> {
    let read =
        app.storage.read(|databases| databases.registry.projects().map_err(StorageError::from));
    let projects = read.await?;
    let visible = projects.iter().filter(|project| caller.has(Right::Read, Some(project)));
    Ok(page(
        "Projects",
        &html! {
            h1 { "Projects" }
            ul { @for project in visible { li { (project.name) } } }
        },
    ))
}
