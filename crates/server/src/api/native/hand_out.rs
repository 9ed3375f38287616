//! `GET /v1/projects/{project}/documents` and `…/entries`: one page after the other, in an order in which what
//! is new comes last. So a reader that was cut off goes on where it was.

use axum::{
    Extension,
    extract::State,
    http::{HeaderName, HeaderValue, header},
};
use serde::{Deserialize, Serialize};
use wingbeat_track::{
    remote::PageEnd,
    store::{Cursor, Entry},
};

use crate::{ApiError, App, api::request::Asked, registry::Project, storage::Databases};

/// Documents of a page at most.
const DOCUMENTS_MAX: usize = 100;

/// A page with so many bytes takes no further document.
const BYTES_MAX: usize = 1 << 20;

/// Entries of a page at most.
const ENTRIES_MAX: usize = 10_000;

#[derive(Debug, Default, Deserialize)]
pub(super) struct Query {
    /// The place behind which the page begins.
    after: Option<String>,
}

impl Query {
    fn cursor(&self) -> Result<Option<Cursor>, ApiError> {
        let parsed = self.after.as_deref().map(str::parse).transpose();
        parsed.map_err(|error: wingbeat_track::store::InvalidCursor| {
            ApiError::bad_request(error.to_string())
        })
    }
}

/// The last line of a page.
#[derive(Serialize)]
struct End {
    format: u32,
    page: PageEnd,
}

type Lines = ([(HeaderName, HeaderValue); 1], String);

/// Lines, and one behind them that tells where the next page begins.
fn lines(mut text: String, count: usize, next: Option<Cursor>) -> Lines {
    let page = PageEnd { count, next: next.map(|cursor| cursor.to_string()) };
    // Numbers and texts always become JSON.
    text += &serde_json::to_string(&End { format: 1, page }).unwrap_or_default();
    text.push('\n');
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"))], text)
}

pub(super) async fn documents(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Asked(query): Asked<Query>,
) -> Result<Lines, ApiError> {
    let after = query.cursor()?;
    let read = move |databases: &Databases| {
        let results = &databases.results;
        let page = results.documents(&project.stored, after, DOCUMENTS_MAX, BYTES_MAX)?;
        Ok::<_, ApiError>(lines(page.lines, page.count, page.next))
    };
    app.storage.read(read).await
}

/// `PLACE UUID`, one a line: what there is, so that a reader knows what it lacks.
pub(super) async fn entries(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Asked(query): Asked<Query>,
) -> Result<Lines, ApiError> {
    let after = query.cursor()?;
    let read = move |databases: &Databases| {
        let found = databases.results.entries(&project.stored, after, ENTRIES_MAX)?;
        let next = found.last().filter(|_| found.len() == ENTRIES_MAX).map(|entry| entry.at);
        let line = |Entry { at, uuid }: &Entry| format!("{at} {uuid}\n");
        Ok::<_, ApiError>(lines(found.iter().map(line).collect(), found.len(), next))
    };
    app.storage.read(read).await
}
