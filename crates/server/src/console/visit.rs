//! A look at a project: who looks, at which one, and where its pages are.

use std::fmt::Display;

use axum::{
    extract::FromRequestParts,
    http::{Uri, request::Parts},
};

use super::links::encoded;
use crate::{
    ApiError, App,
    access::{Caller, Right},
    registry::Project,
    storage::{Databases, StorageError},
};

/// What each page of a project begins with.
#[derive(Debug, Clone)]
pub(super) struct Visit {
    pub(super) app: App,
    pub(super) caller: Caller,
    pub(super) project: Project,
    /// What the addresses of the project's pages begin with, without a slash at the end.
    pub(super) base: String,
    pub(super) uri: Uri,
}

impl Visit {
    /// The address of a page of the project: `reports/UUID`. Names in it are to be encoded.
    pub(super) fn at(&self, page: impl Display) -> String {
        format!("{}/{page}", self.base)
    }

    pub(super) fn may(&self, right: Right) -> bool {
        self.caller.has(right, Some(&self.project))
    }

    /// Reads from the databases, about the project.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Databases, &Project) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let project = self.project.clone();
        self.app.storage.read(move |databases| job(databases, &project)).await
    }

    /// Writes to the databases.
    pub(super) async fn write<T: Send + 'static, E: Into<StorageError>>(
        &self,
        job: impl FnOnce(&mut Databases) -> Result<T, E> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.app
            .storage
            .write(|databases| job(databases).map_err(Into::into))
            .await
            .map_err(|error: StorageError| error.into())
    }
}

impl FromRequestParts<App> for Visit {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let (Some(caller), Some(project)) =
            (parts.extensions.get::<Caller>(), parts.extensions.get::<Project>())
        else {
            return Err(ApiError::not_found("there is no project at this address"));
        };
        let slug = encoded(project.slug.as_str());
        let base = match parts.uri.path().starts_with("/console/") {
            true => format!("/console/projects/{slug}"),
            false => format!("/perf/{slug}"),
        };
        Ok(Self {
            app: app.clone(),
            caller: caller.clone(),
            project: project.clone(),
            base,
            uri: parts.uri.clone(),
        })
    }
}
