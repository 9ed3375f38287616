//! GitHub's API: one request, and what a refusal means.

use serde_json::Value;
use ureq::http::Method;

use crate::remote::{
    Key, Patience,
    http::{Call, Response},
};

pub(super) struct Api<'a> {
    /// `https://api.github.com/repos/OWNER/NAME`.
    pub(super) root: String,
    pub(super) key: &'a Key,
    pub(super) patience: Patience,
}

pub(super) struct Refusal {
    pub(super) reason: String,
    /// Whether the token is good and lacks the permission.
    pub(super) is_forbidden: bool,
}

impl Api<'_> {
    /// Sends a request to a path below the root. `permission` is what it takes: `checks: write`.
    pub(super) fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        permission: &str,
    ) -> Result<Value, Refusal> {
        let url = format!("{}/{path}", self.root);
        let call = Call {
            // What is made twice stays twice.
            is_repeatable: method != Method::POST,
            method,
            url: &url,
            headers: &[
                ("accept", "application/vnd.github+json"),
                ("x-github-api-version", "2022-11-28"),
            ],
            key: Some(self.key),
            body,
        };
        let response = call.send(&self.patience, &mut |_| {}).map_err(|failure| {
            Refusal::because(format!("{url} gave no answer: {}", failure.reason))
        })?;
        match response.status {
            200..300 => serde_json::from_str(&response.body).map_err(|error| {
                Refusal::because(format!("the answer of {url} is no JSON: {error}"))
            }),
            _ => Err(Refusal::of(&response, permission)),
        }
    }
}

impl Refusal {
    pub(super) fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_forbidden: false }
    }

    /// What GitHub means by a status.
    fn of(response: &Response, permission: &str) -> Self {
        // It answers so, too, when it is asked too often.
        let is_limit = response.body.contains("rate limit");
        let hint = match response.status {
            401 => "; the token is not valid, or no longer".to_owned(),
            403 | 429 if is_limit => String::new(),
            403 => format!("; the job needs `permissions: {permission}`"),
            404 => "; the token does not see this repository, or the number is wrong".to_owned(),
            _ => String::new(),
        };
        Self {
            reason: format!("GitHub answered with {}{hint}", response.said()),
            is_forbidden: response.status == 403 && !is_limit,
        }
    }
}
