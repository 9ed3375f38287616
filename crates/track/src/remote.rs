//! Sending a report to a Bencher server, and what the server makes of it.

use std::{collections::BTreeMap, time::Duration};

use uuid::Uuid;

use crate::{
    model::{Limit, Report, Status, Threshold},
    output::Style,
};

/// A server and how to talk to it.
#[derive(Debug, Clone)]
pub struct Host {
    /// Root of the API: `http://localhost:6610`.
    pub url: String,
    /// What proves who we are; without it the project has to be unclaimed.
    pub key: Option<Key>,
    /// How long to go on trying.
    pub patience: Patience,
}

/// A key or token. It shows nothing of itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

/// How long to go on trying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Time to connect (`--timeout`).
    pub connect: Duration,
    /// Attempts in all (`--attempts`).
    pub attempts: u32,
    /// Pause after the first failure (`--retry-after`); each further one is twice as long.
    pub pause: Duration,
    /// The longest pause (`--max-retry-after`).
    pub pause_max: Duration,
    /// Time for everything, after which no attempt is begun.
    pub total: Duration,
}

/// What is sent.
#[derive(Debug, Clone)]
pub struct Submission<'a> {
    /// The report. Its UUID is the idempotency key, so that a repetition makes no second report.
    pub report: &'a Report,
    /// Thresholds that the user named.
    pub thresholds: &'a [Threshold],
    /// Whether the server drops thresholds that are not named (`--thresholds-reset`).
    pub thresholds_reset: bool,
    /// Whether the branch takes over the thresholds of its start point.
    pub clone_thresholds: bool,
    /// Whether the branch begins anew (`--start-point-reset`).
    pub start_point_reset: bool,
    /// What Bencher calls context: `bencher.dev/v0/branch/hash` and others.
    pub context: &'a BTreeMap<String, String>,
}

/// What the server made of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The report as the server gave it, for `--format json`.
    pub json: serde_json::Value,
    /// The server's name for the report.
    pub uuid: Uuid,
    /// Alerts in all; `--err` looks at it.
    pub alerts_total: u64,
    /// Those that nobody has dismissed.
    pub alerts_active: u64,
    /// The alerts.
    pub alerts: Vec<RemoteAlert>,
    /// Address of the report in the console, if that is known.
    pub report_url: Option<String>,
    /// What did not work, in sentences.
    pub warnings: Vec<String>,
}

/// An alert of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteAlert {
    /// Name of the benchmark.
    pub benchmark: String,
    /// Name of the measure.
    pub measure: String,
    /// Iteration of the report, from 0.
    pub iteration: u32,
    /// Value that was measured, in the units of the measure.
    pub value: f64,
    /// Middle of history.
    pub baseline: Option<f64>,
    /// The limit that was crossed.
    pub limit: Limit,
    /// Its value.
    pub limit_value: Option<f64>,
    /// What became of it.
    pub status: Status,
    /// Its plot in the console, if that is known.
    pub url: Option<String>,
}

/// An attempt that failed and will be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Attempts in all.
    pub attempts: u32,
    /// What went wrong.
    pub reason: String,
    /// Pause before the next.
    pub pause: Duration,
    /// Time that is left for all.
    pub left: Duration,
}

/// Why a report did not reach the server, or not for certain.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Stub.
    #[error("not yet")]
    Stub,
}

impl Key {
    /// Takes a key or token (`--key`, `--token`).
    ///
    /// # Errors
    ///
    /// When it cannot be one.
    pub fn new(text: &str) -> Result<Self, RemoteError> {
        Ok(Self(text.to_owned()))
    }

    /// The key of the environment: `WINGBEAT_API_KEY`, `BENCHER_API_KEY`, `WINGBEAT_API_TOKEN`,
    /// `BENCHER_API_TOKEN`, in this order. Empty ones do not count.
    ///
    /// # Errors
    ///
    /// When it cannot be one.
    pub fn from_env(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, RemoteError> {
        variable("WINGBEAT_API_KEY").map(|text| Self::new(&text)).transpose()
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Host {
    /// Sends a report and reads the answer. `on_retry` is told of each attempt that failed, before the
    /// pause.
    ///
    /// # Errors
    ///
    /// When the server refuses the report, gives no answer in time, or one that is no report.
    pub fn send(
        &self,
        submission: &Submission<'_>,
        on_retry: &mut dyn FnMut(&Retry),
    ) -> Result<Answer, RemoteError> {
        let _ = (submission, on_retry, &self.key.as_ref().map(|key| &key.0));
        Err(RemoteError::Stub)
    }
}

/// The request without sending it, for `--dry-run`.
#[must_use]
pub fn request(submission: &Submission<'_>) -> serde_json::Value {
    let _ = submission;
    serde_json::Value::Null
}

/// What the server said, for a terminal: alerts, links, one line of verdict.
#[must_use]
pub fn human(answer: &Answer, style: Style) -> String {
    let _ = (answer, style);
    String::new()
}
