//! One comment on a pull request, found again by its marker.

use serde_json::{Value, json};
use ureq::http::Method;

use crate::remote::{
    Key, Patience,
    http::{Call, Response},
};

/// Comments on a page; GitHub gives no more.
const PER_PAGE: usize = 100;

/// Pages that are searched. A pull request with more comments gets a second one of ours.
const PAGES_MAX: usize = 30;

/// Where a comment belongs.
pub(super) struct Place<'a> {
    /// `https://api.github.com/repos/OWNER/NAME/issues`.
    pub(super) root: String,
    /// Number of the pull request.
    pub(super) number: u64,
    /// What our comment holds.
    pub(super) marker: String,
    pub(super) key: &'a Key,
    pub(super) patience: Patience,
}

impl Place<'_> {
    /// Updates the comment, or makes it if `may_create`. Gives its address.
    pub(super) fn put(&self, text: &str, may_create: bool) -> Result<Option<String>, String> {
        let body = json!({ "body": text });
        let response = match self.find()? {
            Some(id) => {
                self.call(Method::PATCH, &format!("{}/comments/{id}", self.root), Some(&body))?
            }
            None if !may_create => return Ok(None),
            None => {
                let url = format!("{}/{}/comments", self.root, self.number);
                self.call(Method::POST, &url, Some(&body))?
            }
        };
        Ok(Some(response["html_url"].as_str().unwrap_or_default().to_owned()))
    }

    /// The newest comment that ends in our marker. One that quotes it has more after it.
    fn find(&self) -> Result<Option<u64>, String> {
        let mut found = None;
        for page in 1..=PAGES_MAX {
            let url =
                format!("{}/{}/comments?per_page={PER_PAGE}&page={page}", self.root, self.number);
            let json = self.call(Method::GET, &url, None)?;
            let Some(comments) = json.as_array() else {
                return Err("GitHub's list of comments is no list".to_owned());
            };
            for comment in comments {
                let body = comment["body"].as_str().unwrap_or_default();
                if body.trim_end().ends_with(&self.marker) {
                    found = comment["id"].as_u64().or(found);
                }
            }
            if comments.len() < PER_PAGE {
                break;
            }
        }
        Ok(found)
    }

    fn call(&self, method: Method, url: &str, body: Option<&Value>) -> Result<Value, String> {
        let call = Call {
            // A comment that is made twice stays twice.
            is_repeatable: method != Method::POST,
            method,
            url,
            headers: &[
                ("accept", "application/vnd.github+json"),
                ("x-github-api-version", "2022-11-28"),
            ],
            key: Some(self.key),
            body,
        };
        let response = call
            .send(&self.patience, &mut |_| {})
            .map_err(|failure| format!("{url} gave no answer: {}", failure.reason))?;
        match response.status {
            200..300 => serde_json::from_str(&response.body)
                .map_err(|error| format!("the answer of {url} is no JSON: {error}")),
            _ => Err(refusal(&response)),
        }
    }
}

/// What GitHub means by a status.
fn refusal(response: &Response) -> String {
    let hint = match response.status {
        401 => "; the token is not valid, or no longer",
        403 => "; the job needs `permissions: pull-requests: write`",
        404 => "; the token does not see this repository, or the number is wrong",
        _ => "",
    };
    format!("GitHub answered with {}{hint}", response.said())
}
