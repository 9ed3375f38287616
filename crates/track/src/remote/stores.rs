//! Pushes stores to a wingbeat server and pulls them from it, document by document. Existing documents are skipped, so
//! that an interrupted transfer can be resumed.

use std::collections::HashSet;

use serde::Deserialize;
use uuid::Uuid;
use wingbeat_http::Response;

use super::{
    Host, PageEnd, RefusedDocument, RemoteError,
    answer::encoded,
    native::{OnRetry, checked, not_a_report, taken},
};
use crate::{
    model::ProjectName,
    store::{Cursor, Damaged, Document, Store, StoreError},
};

/// Size at which a request is sent. Servers accept at least 4 MiB.
const BYTES_MAX: usize = 1 << 20;

/// Maximum number of documents in a request.
const DOCUMENTS_MAX: usize = 200;

/// Number of a store's entries listed at a time.
const ENTRIES: usize = 1000;

/// Result of an exchange between a store and a server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Exchanged {
    /// Documents that were new to the receiver.
    pub new: usize,
    pub already_there: usize,
    pub refused: Vec<RefusedDocument>,
    /// Damaged documents of the store, which were skipped.
    pub damaged: Vec<Damaged>,
}

/// Why an exchange between a store and a server stopped. What was transferred until then is kept.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeFailure {
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Deserialize)]
struct Project {
    slug: String,
}

/// A complete page of lines.
struct Page<'r> {
    lines: Vec<&'r str>,
    next: Option<String>,
}

impl Host {
    /// Sends the documents of a project that the server lacks.
    pub fn push(
        &self,
        store: &Store,
        project: &ProjectName,
        on_retry: OnRetry<'_>,
    ) -> Result<Exchanged, ExchangeFailure> {
        let url = format!("{}/v1/reports", self.root()?);
        let mut known = HashSet::new();
        self.entries(project.as_str(), on_retry, &mut |_, uuid| {
            known.insert(uuid);
        })?;
        let mut done = Exchanged::default();
        let mut batch = Vec::new();
        let mut bytes = 0;
        let mut after = None;
        loop {
            let entries = store.entries(project, after, ENTRIES)?;
            let Some(last) = entries.last() else { break };
            after = Some(last.at);
            for entry in entries {
                if known.contains(&entry.uuid) {
                    done.already_there += 1;
                    continue;
                }
                match store.line_of(entry) {
                    Ok(line) => {
                        bytes += line.len();
                        batch.push(line);
                    }
                    Err(error @ StoreError::Corrupt { .. }) => {
                        done.damaged
                            .push(Damaged { report: Some(entry.uuid), what: error.to_string() });
                    }
                    Err(error) => return Err(error.into()),
                }
                if bytes >= BYTES_MAX || batch.len() >= DOCUMENTS_MAX {
                    self.post_batch(&url, &mut batch, &mut done, on_retry)?;
                    bytes = 0;
                }
            }
        }
        self.post_batch(&url, &mut batch, &mut done, on_retry)?;
        Ok(done)
    }

    fn post_batch(
        &self,
        url: &str,
        batch: &mut Vec<String>,
        done: &mut Exchanged,
        on_retry: OnRetry<'_>,
    ) -> Result<(), RemoteError> {
        if batch.is_empty() {
            return Ok(());
        }
        let response = self.post(url, &batch.join("\n"), on_retry)?;
        let taken = taken(url, &response)?;
        done.new += taken.stored;
        done.already_there += taken.already_there;
        done.refused.extend(taken.refused);
        batch.clear();
        Ok(())
    }

    /// Fetches the documents of a project, given by slug or name, that the store lacks.
    pub fn pull(
        &self,
        store: &mut Store,
        project: &str,
        on_retry: OnRetry<'_>,
    ) -> Result<Exchanged, ExchangeFailure> {
        let mut known = HashSet::new();
        for project in store.projects()? {
            let mut after = None;
            loop {
                let entries = store.entries(&project, after, ENTRIES)?;
                let Some(last) = entries.last() else { break };
                after = Some(last.at);
                known.extend(entries.iter().map(|entry| entry.uuid));
            }
        }
        let mut done = Exchanged::default();
        // The cursor before the first document of each missing range.
        let mut previous: Option<Cursor> = None;
        let mut missing: Vec<(Option<Cursor>, Uuid)> = Vec::new();
        let is_there = self.entries(project, on_retry, &mut |at, uuid| {
            match known.contains(&uuid) {
                true => done.already_there += 1,
                false => missing.push((previous, uuid)),
            }
            previous = Some(at);
        })?;
        if !is_there {
            let (url, project) = (self.root()?.to_owned(), project.to_owned());
            return Err(RemoteError::NoProject { url, project }.into());
        }
        for (before, uuid) in missing {
            // A page also contains the documents after it.
            if !known.contains(&uuid) {
                self.take_page(store, project, before, &mut known, &mut done, on_retry)?;
            }
        }
        Ok(done)
    }

    fn take_page(
        &self,
        store: &mut Store,
        project: &str,
        after: Option<Cursor>,
        known: &mut HashSet<Uuid>,
        done: &mut Exchanged,
        on_retry: OnRetry<'_>,
    ) -> Result<(), ExchangeFailure> {
        let after = after.map(|after| after.to_string());
        let url = self.address(project, "documents", after.as_deref())?;
        let response = self.get(&url, on_retry)?;
        for line in page(&url, &response)?.lines {
            let document = Document::parse(line.as_bytes())
                .map_err(|reason| not_a_report(&url, &reason, line))?;
            let uuid = document.uuid();
            if !known.insert(uuid) {
                continue;
            }
            match store.take(document) {
                Ok(true) => done.new += 1,
                Ok(false) => done.already_there += 1,
                Err(StoreError::Invalid(invalid)) => {
                    let reason = invalid.to_string();
                    done.refused.push(RefusedDocument { uuid, reason });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Slugs of the projects visible on the server.
    pub fn projects(&self, on_retry: OnRetry<'_>) -> Result<Vec<String>, RemoteError> {
        let mut slugs = Vec::new();
        for number in 1.. {
            let url = format!("{}/v0/projects?per_page=255&page={number}", self.root()?);
            let response = self.get(&url, on_retry)?;
            checked(&url, &response)?;
            let found: Vec<Project> = serde_json::from_slice(&response.body)
                .map_err(|error| not_a_report(&url, &error.to_string(), &response.text()))?;
            if found.is_empty() {
                break;
            }
            slugs.extend(found.into_iter().map(|project| project.slug));
        }
        Ok(slugs)
    }

    /// Passes on the server's entries of a project, in its order. `false` if there is no such project.
    fn entries(
        &self,
        project: &str,
        on_retry: OnRetry<'_>,
        hand_on: &mut dyn FnMut(Cursor, Uuid),
    ) -> Result<bool, RemoteError> {
        let mut after: Option<String> = None;
        loop {
            let url = self.address(project, "entries", after.as_deref())?;
            let response = self.get(&url, on_retry)?;
            if response.status == 404 {
                return Ok(false);
            }
            let page = page(&url, &response)?;
            for line in page.lines {
                let entry = line
                    .split_once(' ')
                    .and_then(|(at, uuid)| Some((at.parse().ok()?, Uuid::try_parse(uuid).ok()?)));
                let (at, uuid) =
                    entry.ok_or_else(|| not_a_report(&url, "a line is not an entry", line))?;
                hand_on(at, uuid);
            }
            after = page.next;
            if after.is_none() {
                return Ok(true);
            }
        }
    }

    fn address(
        &self,
        project: &str,
        what: &str,
        after: Option<&str>,
    ) -> Result<String, RemoteError> {
        let after = after.map(|after| format!("?after={after}")).unwrap_or_default();
        Ok(format!("{}/v1/projects/{}/{what}{after}", self.root()?, encoded(project)))
    }
}

/// Parses the lines of a page. Without its last line it was truncated.
fn page<'r>(url: &str, response: &'r Response) -> Result<Page<'r>, RemoteError> {
    #[derive(Deserialize)]
    struct Last {
        page: PageEnd,
    }
    checked(url, response)?;
    let text = std::str::from_utf8(&response.body)
        .map_err(|error| not_a_report(url, &error.to_string(), &response.text()))?;
    let mut lines: Vec<&str> = text.lines().collect();
    let last = lines.pop().and_then(|line| serde_json::from_str::<Last>(line).ok());
    match last {
        Some(Last { page }) if page.count == lines.len() => Ok(Page { lines, next: page.next }),
        _ => Err(not_a_report(url, "its last line is missing", text)),
    }
}
