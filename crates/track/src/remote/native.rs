//! Sends complete reports to a wingbeat server by its native API, `/v1`: with samples, environment, failures and
//! wingbeat's own thresholds.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;
use wingbeat_http::{Method, Response};

use super::{Answer, Host, Patience, RemoteError, Retry, Submission, http::Call};
use crate::{
    bencher::JsonReport,
    explain::Explained,
    model::{Profile, Report, Threshold},
    store::Document,
};

/// How to judge a report without verdicts: the member `run` next to `report` in its line.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Instructions {
    /// Thresholds given by the user.
    pub thresholds: Vec<Threshold>,
    /// Whether the server removes thresholds that are not listed.
    pub thresholds_reset: bool,
    /// Whether the branch inherits the thresholds of its start point.
    pub clone_thresholds: bool,
    /// Whether to restart the history of the branch.
    pub start_point_reset: bool,
}

/// The response to documents.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Taken {
    pub stored: usize,
    pub already_there: usize,
    pub refused: Vec<RefusedDocument>,
    /// For a single report: Bencher's `JsonReport`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<JsonReport>,
    /// For a single report: the report as stored, with verdicts and alerts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<Box<Report>>,
    /// For profiles: explanations of their reports' alerts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explained: Vec<Explained>,
}

/// A document rejected by the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedDocument {
    pub uuid: Uuid,
    pub reason: String,
}

/// The last line of a page of documents, in the member `page`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PageEnd {
    pub count: usize,
    /// The cursor of the next page. `None` on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Attempts of the probe before the first report.
const PROBE_ATTEMPTS: u32 = 3;

#[derive(Deserialize)]
struct Version {
    wingbeat: Option<String>,
}

pub(super) type OnRetry<'f> = &'f mut dyn FnMut(&Retry);

impl Host {
    /// Whether it is a wingbeat server, which takes complete reports. `false` if it does not respond.
    pub fn is_wingbeat(&self) -> bool {
        let Ok(root) = self.root() else { return false };
        let url = format!("{root}/v0/server/version");
        let attempts = self.patience.attempts.min(PROBE_ATTEMPTS);
        let patience = Patience { attempts, ..self.patience };
        let response = Call::new(Method::GET, &url).send(&patience, &mut |_| {});
        let version = response.ok().filter(|response| response.status == 200);
        let version = version.and_then(|it| serde_json::from_slice::<Version>(&it.body).ok());
        version.is_some_and(|version| version.wingbeat.is_some())
    }

    /// Sends a complete report. Returns the response, and the report as stored by the server, with its verdicts.
    pub fn send_whole(
        &self,
        submission: &Submission<'_>,
        on_retry: OnRetry<'_>,
    ) -> Result<(Answer, Option<Box<Report>>), RemoteError> {
        let url = format!("{}/v1/reports", self.root()?);
        let body = whole(submission).to_string();
        let response = self.post(&url, &body, on_retry)?;
        let taken = taken(&url, &response)?;
        if let Some(refused) = taken.refused.first() {
            let (status, said) = (response.status, refused.reason.clone());
            return Err(RemoteError::Refused { url, status, said });
        }
        let Some(report) = taken.report else {
            return Err(not_a_report(&url, "it has no report", &response.text()));
        };
        let (answer, links) = Answer::of(json!(report), report);
        Ok((self.complete(answer, &links)?, taken.judged))
    }

    /// Sends the profiles of a stored report. Returns how they explain its alerts.
    pub fn send_profiles(
        &self,
        profiles: &[Profile],
        on_retry: OnRetry<'_>,
    ) -> Result<Vec<Explained>, RemoteError> {
        let url = format!("{}/v1/reports", self.root()?);
        let mut explained = Vec::new();
        for profile in profiles {
            let document = Document::Profile(Box::new(profile.clone()));
            let line = document
                .line()
                .map_err(|error| not_a_report(&url, &error.to_string(), "the profile"))?;
            let taken = taken(&url, &self.post(&url, &line, on_retry)?)?;
            if let Some(refused) = taken.refused.into_iter().next() {
                let (url, said) = (url.clone(), refused.reason);
                return Err(RemoteError::Refused { url, status: 200, said });
            }
            // The last response is based on the most profiles.
            if !taken.explained.is_empty() {
                explained = taken.explained;
            }
        }
        Ok(explained)
    }

    pub(super) fn get(&self, url: &str, on_retry: OnRetry<'_>) -> Result<Response, RemoteError> {
        let call = Call { key: self.key.as_ref(), ..Call::new(Method::GET, url) };
        call.send(&self.patience, on_retry).map_err(|error| RemoteError::unreachable(url, &error))
    }

    /// A server recognizes documents by their UUIDs, so retries are safe.
    pub(super) fn post(
        &self,
        url: &str,
        body: &str,
        on_retry: OnRetry<'_>,
    ) -> Result<Response, RemoteError> {
        let call =
            Call { key: self.key.as_ref(), text: Some(body), ..Call::new(Method::POST, url) };
        let response = call.send(&self.patience, on_retry);
        let response = response.map_err(|error| RemoteError::unreachable(url, &error))?;
        checked(url, &response).map(|()| response)
    }
}

/// The line of a report, with instructions for judging it.
fn whole(submission: &Submission<'_>) -> Value {
    let run = Instructions {
        thresholds: submission.thresholds.to_vec(),
        thresholds_reset: submission.thresholds_reset,
        clone_thresholds: submission.clone_thresholds,
        start_point_reset: submission.start_point_reset,
    };
    // The server has the history, so it judges.
    let report = Report { verdicts: Vec::new(), alerts: Vec::new(), ..submission.report.clone() };
    json!({ "format": 1, "report": report, "run": run })
}

pub(super) fn taken(url: &str, response: &Response) -> Result<Taken, RemoteError> {
    serde_json::from_slice(&response.body)
        .map_err(|error| not_a_report(url, &error.to_string(), &response.text()))
}

pub(super) fn checked(url: &str, response: &Response) -> Result<(), RemoteError> {
    let (url, said, attempts) = (url.to_owned(), response.message(), response.attempts);
    match response.status {
        200..300 => Ok(()),
        300..400 => Err(RemoteError::Redirected { url, location: response.location().to_owned() }),
        500.. => Err(RemoteError::Failing { url, attempts, said }),
        status => Err(RemoteError::Refused { url, status, said }),
    }
}

pub(super) fn not_a_report(url: &str, reason: &str, body: &str) -> RemoteError {
    let (url, reason) = (url.to_owned(), reason.to_owned());
    RemoteError::NotAReport { url, reason, excerpt: wingbeat_http::excerpt(body) }
}
