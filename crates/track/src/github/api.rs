//! GitHub's API: requests and their refusals, the comment on a pull request, which is found by its marker, and the
//! check run of a commit, which a branch rule can require.

use serde_json::{Value, json};
use wingbeat_http::{Method, Response};

use super::Message;
use crate::remote::{Key, Patience, http::Call};

/// Comments per page, GitHub's maximum.
const PER_PAGE: usize = 100;

/// Maximum number of pages searched. A pull request with more comments gets a second one of ours.
const PAGES_MAX: usize = 30;

/// Maximum characters of a title. GitHub shows one line.
const TITLE_MAX: usize = 200;

pub(super) struct Api<'a> {
    /// `https://api.github.com/repos/OWNER/NAME`.
    pub(super) root: String,
    pub(super) key: &'a Key,
    pub(super) patience: Patience,
}

pub(super) struct Refusal {
    pub(super) reason: String,
    /// Whether the token is valid but lacks the permission.
    pub(super) is_forbidden: bool,
}

impl Api<'_> {
    /// Sends a request to a path below the root. `permission` is the required one: `checks: write`.
    fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        permission: &str,
    ) -> Result<Value, Refusal> {
        let url = format!("{}/{path}", self.root);
        let call = Call {
            // A repeated POST would create duplicates.
            is_repeatable: method != Method::POST,
            headers: &[
                ("accept", "application/vnd.github+json"),
                ("x-github-api-version", "2022-11-28"),
            ],
            key: Some(self.key),
            body,
            ..Call::new(method, &url)
        };
        let response = call
            .send(&self.patience, &mut |_| {})
            .map_err(|error| Refusal::because(format!("{url} gave no answer: {error}")))?;
        match response.status {
            200..300 => serde_json::from_slice(&response.body).map_err(|error| {
                Refusal::because(format!("the answer of {url} is not JSON: {error}"))
            }),
            _ => Err(Refusal::of(&response, permission)),
        }
    }

    /// Updates the comment on a pull request, or creates it if `may_create`. Returns its address.
    pub(super) fn comment(
        &self,
        number: u64,
        message: &Message,
        may_create: bool,
    ) -> Result<Option<String>, Refusal> {
        let body = json!({ "body": message.markdown });
        let (method, path) = match self.find_comment(number, &message.marker)? {
            Some(id) => (Method::PATCH, format!("issues/comments/{id}")),
            None if !may_create => return Ok(None),
            None => (Method::POST, format!("issues/{number}/comments")),
        };
        self.call(method, &path, Some(&body), COMMENTS).map(|answer| Some(address(&answer)))
    }

    /// Finds the newest comment that ends with our marker. One that quotes it has more text after it.
    fn find_comment(&self, number: u64, marker: &str) -> Result<Option<u64>, Refusal> {
        let mut found = None;
        for page in 1..=PAGES_MAX {
            let path = format!("issues/{number}/comments?per_page={PER_PAGE}&page={page}");
            let json = self.call(Method::GET, &path, None, COMMENTS)?;
            let Some(comments) = json.as_array() else {
                return Err(Refusal::because("GitHub's list of comments is not a list"));
            };
            for comment in comments {
                let body = comment["body"].as_str().unwrap_or_default();
                if body.trim_end().ends_with(marker) {
                    found = comment["id"].as_u64().or(found);
                }
            }
            if comments.len() < PER_PAGE {
                break;
            }
        }
        Ok(found)
    }

    /// Creates a completed check run for the commit. Returns its address.
    pub(super) fn check(
        &self,
        message: &Message,
        id: Option<&str>,
        commit: &str,
        is_strict: bool,
    ) -> Result<String, Refusal> {
        // The name does not contain the branch: a branch rule names a check once for all pull requests.
        let name = match id {
            Some(id) => format!("wingbeat: {id}"),
            None => format!("wingbeat: {} on {}", message.project, message.testbed),
        };
        // Matches the exit code: nothing fails without `--err`.
        let conclusion = match (message.alerts > 0 || message.failures > 0, is_strict) {
            (true, true) => "failure",
            (true, false) => "neutral",
            (false, _) => "success",
        };
        let body = json!({
            "name": name,
            "head_sha": commit,
            "status": "completed",
            "conclusion": conclusion,
            "output": {
                "title": message.verdict.chars().take(TITLE_MAX).collect::<String>(),
                "summary": message.markdown,
            },
        });
        let answer = self.call(Method::POST, "check-runs", Some(&body), "checks: write")?;
        Ok(address(&answer))
    }
}

const COMMENTS: &str = "pull-requests: write";

fn address(answer: &Value) -> String {
    answer["html_url"].as_str().unwrap_or_default().to_owned()
}

impl Refusal {
    fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_forbidden: false }
    }

    fn of(response: &Response, permission: &str) -> Self {
        // GitHub also uses this status for rate limits.
        let is_limit = response.text().contains("rate limit");
        let hint = match response.status {
            401 => "; the token is invalid or has expired".to_owned(),
            403 | 429 if is_limit => String::new(),
            403 => format!("; the job needs `permissions: {permission}`"),
            404 => "; the token does not see this repository, or the number is wrong".to_owned(),
            _ => String::new(),
        };
        Self {
            reason: format!("GitHub answered with {}{hint}", response.message()),
            is_forbidden: response.status == 403 && !is_limit,
        }
    }
}
