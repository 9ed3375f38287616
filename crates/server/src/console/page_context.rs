//! A context to a project: the caller, the project, and its addresses.

use std::{borrow::Cow, fmt::Display, sync::Arc};

use axum::{
    extract::FromRequestParts,
    http::{Uri, request::Parts},
};

use maud::Markup;
use wingbeat_track::{
    model::{BenchmarkName, BranchName, Measure, Slug, TestbedName},
    store::Known,
};

use super::{
    components::{name, select},
    links::encoded,
};
use crate::{
    ApiError, App,
    access::{Caller, Right},
    database::{Database, Kind, Project},
    names::Names,
    storage::StorageError,
};

/// Context of every project page.
#[derive(Debug, Clone)]
pub(super) struct PageContext {
    pub(super) app: App,
    pub(super) caller: Caller,
    pub(super) project: Project,
    /// Prefix of the project's addresses, without a trailing slash.
    pub(super) base: String,
    pub(super) uri: Uri,
    pub(super) names: Arc<Names>,
}

impl PageContext {
    /// Address of a project page: `reports/UUID`. The caller encodes names in it.
    pub(super) fn at(&self, page: impl Display) -> String {
        format!("{}/{page}", self.base)
    }

    pub(super) fn may(&self, right: Right) -> bool {
        self.caller.has(right, Some(&self.project))
    }

    pub(super) fn branch(&self, branch: &BranchName) -> Markup {
        name(&self.names.shown(Kind::Branch, branch.as_str()))
    }

    pub(super) fn testbed(&self, testbed: &TestbedName) -> Markup {
        name(&self.names.shown(Kind::Testbed, testbed.as_str()))
    }

    pub(super) fn benchmark(&self, benchmark: &BenchmarkName) -> Markup {
        name(&self.names.shown(Kind::Benchmark, benchmark.as_str()))
    }

    pub(super) fn measure(&self, measure: &Measure) -> Markup {
        name(self.names.measure(measure))
    }

    /// Names in the results to choose from, each with its current name.
    pub(super) fn choices<'a>(
        &'a self,
        kind: Kind,
        stored: impl Iterator<Item = &'a str>,
    ) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> {
        stored.map(move |it| (it, self.names.shown(kind, it)))
    }

    /// Dropdown of branches.
    pub(super) fn select_branch(
        &self,
        known: &Known,
        none: Option<&str>,
        chosen: Option<&str>,
    ) -> Markup {
        let all = self.choices(Kind::Branch, known.branches.iter().map(BranchName::as_str));
        select("Branch", "branch", none, all, chosen)
    }

    /// Dropdown of testbeds.
    pub(super) fn select_testbed(
        &self,
        known: &Known,
        none: Option<&str>,
        chosen: Option<&str>,
    ) -> Markup {
        let all = self.choices(Kind::Testbed, known.testbeds.iter().map(TestbedName::as_str));
        select("Testbed", "testbed", none, all, chosen)
    }

    /// Dropdown of measures.
    pub(super) fn select_measure(&self, known: &Known, chosen: Option<&str>) -> Markup {
        let all = self.choices(Kind::Measure, known.measures.iter().map(Slug::as_str));
        select("Measure", "measure", Some("all"), all, chosen)
    }

    /// Reads the project's data from the database.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Database, &Project) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let project = self.project.clone();
        self.app.storage.read(move |database| job(database, &project)).await
    }

    pub(super) async fn write<T: Send + 'static, E: Into<StorageError>>(
        &self,
        job: impl FnOnce(&mut Database) -> Result<T, E> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.app
            .storage
            .write(|database| job(database).map_err(Into::into))
            .await
            .map_err(|error: StorageError| error.into())
    }
}

impl FromRequestParts<App> for PageContext {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let (Some(caller), Some(project)) =
            (parts.extensions.get::<Caller>(), parts.extensions.get::<Project>())
        else {
            return Err(ApiError::not_found("there is no project at this address"));
        };
        let names = {
            let project = project.clone();
            let read = app.storage.read(move |database| Names::read(database, &project));
            Arc::new(read.await?)
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
            names,
        })
    }
}
