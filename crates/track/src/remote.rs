//! Sends a report to a Bencher server, and reads the response.
//!
//! `request` builds the request, `http` sends it, `answer` parses the response; `human` shows it. The
//! total time is limited by [`Patience`]. Only the server's rejection of the report is an error: if the console does
//! not respond, only the links are missing.

mod answer;
pub(crate) mod http;
pub(crate) mod human;
mod native;
mod request;
mod stores;

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

pub use answer::{Answer, RemoteAlert};
pub use http::{Key, RemoteError};
pub use human::{html, human, links, markdown};
pub use native::{Instructions, PageEnd, RefusedDocument, Taken};
pub use request::{is_for_bencher, request};
pub use stores::{ExchangeFailure, Exchanged};

use wingbeat_http::{Method, excerpt, is_loopback};
pub use wingbeat_http::{Patience, Retry};

use self::{answer::Links, http::Call};
use crate::model::{Report, Threshold};

/// Bencher's own server, whose console is known without a request.
const BENCHER: (&str, &str) = ("https://api.bencher.dev", "https://bencher.dev");

const CONSOLE_TOTAL: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub struct Host {
    /// Root of the API: `http://localhost:6610`.
    pub url: String,
    /// API key. Without one, the project has to be unclaimed.
    pub key: Option<Key>,
    /// Whether to link to pages that need no account (`--ci-public-links`).
    pub has_public_links: bool,
    pub patience: Patience,
}

#[derive(Debug, Clone, Copy)]
pub struct Submission<'a> {
    /// The report. Its UUID is the idempotency key, so that retries do not create a second report.
    pub report: &'a Report,
    /// Thresholds given by the user. Those unknown to Bencher are omitted with a warning.
    pub thresholds: &'a [Threshold],
    /// Whether the server removes thresholds that are not listed (`--thresholds-reset`).
    pub thresholds_reset: bool,
    /// Whether the branch inherits thresholds (`--start-point-clone-thresholds`).
    pub clone_thresholds: bool,
    /// Whether to restart the branch (`--start-point-reset`).
    pub start_point_reset: bool,
    /// Bencher's context: `bencher.dev/v0/branch/hash` and others.
    pub context: &'a BTreeMap<String, String>,
}

impl<'a> Submission<'a> {
    pub fn of(report: &'a Report) -> Self {
        Self {
            report,
            thresholds: &[],
            thresholds_reset: false,
            clone_thresholds: false,
            start_point_reset: false,
            context: const { &BTreeMap::new() },
        }
    }
}

impl Host {
    /// Sends a report and reads the response. `on_retry` is called with each failed attempt before the pause.
    pub fn send(
        &self,
        submission: &Submission<'_>,
        on_retry: &mut dyn FnMut(&Retry),
    ) -> Result<Answer, RemoteError> {
        let url = format!("{}/v0/run", self.root()?);
        // The server recognizes a repeated report by its idempotency key.
        let (key, body) = (self.key.as_ref(), request(submission));
        let call = Call { key, body: Some(&body), ..Call::new(Method::POST, &url) };
        let response = call
            .send(&self.patience, on_retry)
            .map_err(|error| RemoteError::unreachable(&url, &error))?;
        native::checked(&url, &response)?;
        let text = response.text();
        let (mut answer, links) = Answer::parse(&text)
            .map_err(|error| native::not_a_report(&url, &error.to_string(), &text))?;
        answer.warnings = request::losses(submission);
        self.complete(answer, &links)
    }

    /// Adds links, and a warning if the key was sent unencrypted.
    fn complete(&self, mut answer: Answer, links: &Links) -> Result<Answer, RemoteError> {
        answer.warnings.extend(self.exposure());
        match self.console(self.root()?) {
            Ok(console) => links.fill(&mut answer, &console, self.has_public_links),
            Err(reason) => answer.warnings.push(format!(
                "the report is stored, but the server did not say where its console is, so there are no \
                 links: {reason}"
            )),
        }
        Ok(answer)
    }

    /// The address without a trailing slash.
    fn root(&self) -> Result<&str, RemoteError> {
        let root = self.url.trim().trim_end_matches('/');
        match wingbeat_http::root(root) {
            Ok(_) => Ok(root),
            Err(reason) => Err(RemoteError::InvalidHost { url: self.url.clone(), reason }),
        }
    }

    /// A warning if the key was sent unencrypted.
    fn exposure(&self) -> Option<String> {
        let is_open = self.url.starts_with("http://") && !is_loopback(&self.url);
        (self.key.is_some() && is_open)
            .then(|| format!("the key went to {} unencrypted; use https://", self.url))
    }

    fn console(&self, root: &str) -> Result<String, String> {
        if root == BENCHER.0 {
            return Ok(BENCHER.1.to_owned());
        }
        let url = format!("{root}/v0/server/config/console");
        let patience = Patience {
            attempts: self.patience.attempts.min(3),
            total: self.patience.total.min(CONSOLE_TOTAL),
            ..self.patience
        };
        let response = Call::new(Method::GET, &url)
            .send(&patience, &mut |_| {})
            .map_err(|error| error.to_string())?;
        if response.status != 200 {
            return Err(response.message());
        }
        let json: Value =
            serde_json::from_slice(&response.body).map_err(|error| error.to_string())?;
        let url = json.get("url").and_then(Value::as_str).unwrap_or_default();
        match url.starts_with("http://") || url.starts_with("https://") {
            true => Ok(url.to_owned()),
            false => Err(format!("its answer has no url: {}", excerpt(&response.text()))),
        }
    }
}
