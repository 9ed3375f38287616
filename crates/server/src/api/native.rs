//! The native API, `/v1`: exchanges whole documents of the export format. It preserves what the `bencher` format omits
//! (samples, environment, failures, verdicts).
//!
//! Documents use the names in the results, not names changed on a page later.

mod import;
mod resolve_names;

use axum::{
    Extension,
    extract::State,
    http::{HeaderName, HeaderValue, Method, header},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};
use wingbeat_track::{
    remote::PageEnd,
    store::{Cursor, Entry},
};

use crate::{
    ApiError, App,
    access::{Right, Route},
    api::request::Asked,
    database::{Database, Project},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::api(Method::POST, "/v1/reports", Right::Handler, post(import::reports)),
        Route::api(Method::GET, "/v1/projects/{project}/documents", Right::Read, get(documents)),
        Route::api(Method::GET, "/v1/projects/{project}/entries", Right::Read, get(entries)),
    ]
}

const DOCUMENTS_MAX: usize = 100;

/// Page size in bytes after which no further document is added.
const BYTES_MAX: usize = 1 << 20;

const ENTRIES_MAX: usize = 10_000;

#[derive(Debug, Default, Deserialize)]
struct Query {
    /// Cursor after which the page starts.
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

/// Last line of a page.
#[derive(Serialize)]
struct End {
    format: u32,
    page: PageEnd,
}

type Lines = ([(HeaderName, HeaderValue); 1], String);

/// Lines, followed by one with the cursor of the next page.
fn lines(mut text: String, count: usize, next: Option<Cursor>) -> Lines {
    let page = PageEnd { count, next: next.map(|cursor| cursor.to_string()) };
    // Numbers and strings always serialize.
    text += &serde_json::to_string(&End { format: 1, page }).unwrap_or_default();
    text.push('\n');
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"))], text)
}

/// Pages come in an order in which new entries are last, so that an interrupted reader can resume.
async fn documents(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Asked(query): Asked<Query>,
) -> Result<Lines, ApiError> {
    let after = query.cursor()?;
    let read = move |database: &Database| {
        let results = &database.results;
        let page = results.documents(&project.stored, after, DOCUMENTS_MAX, BYTES_MAX)?;
        Ok::<_, ApiError>(lines(page.lines, page.count, page.next))
    };
    app.storage.read(read).await
}

/// `PLACE UUID`, one per line: the entries, for readers to find missing ones.
async fn entries(
    State(app): State<App>,
    Extension(project): Extension<Project>,
    Asked(query): Asked<Query>,
) -> Result<Lines, ApiError> {
    let after = query.cursor()?;
    let read = move |database: &Database| {
        let found = database.results.entries(&project.stored, after, ENTRIES_MAX)?;
        let next = found.last().filter(|_| found.len() == ENTRIES_MAX).map(|entry| entry.at);
        let line = |Entry { at, uuid }: &Entry| format!("{at} {uuid}\n");
        Ok::<_, ApiError>(lines(found.iter().map(line).collect(), found.len(), next))
    };
    app.storage.read(read).await
}
