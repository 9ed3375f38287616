//! One comment on a pull request, found again by its marker.

use serde_json::{Value, json};
use ureq::http::Method;

use super::api::{Api, Refusal};

/// Comments on a page; GitHub gives no more.
const PER_PAGE: usize = 100;

/// Pages that are searched. A pull request with more comments gets a second one of ours.
const PAGES_MAX: usize = 30;

pub(super) struct CommentPlace<'a> {
    pub(super) api: &'a Api<'a>,
    pub(super) number: u64,
    pub(super) marker: &'a str,
}

impl CommentPlace<'_> {
    /// Updates the comment, or makes it if `may_create`. Gives its address.
    pub(super) fn put(&self, text: &str, may_create: bool) -> Result<Option<String>, Refusal> {
        let body = json!({ "body": text });
        let response = match self.find()? {
            Some(id) => self.call(Method::PATCH, &format!("issues/comments/{id}"), Some(&body))?,
            None if !may_create => return Ok(None),
            None => {
                let path = format!("issues/{}/comments", self.number);
                self.call(Method::POST, &path, Some(&body))?
            }
        };
        Ok(Some(response["html_url"].as_str().unwrap_or_default().to_owned()))
    }

    /// The newest comment that ends in our marker. One that quotes it has more after it.
    fn find(&self) -> Result<Option<u64>, Refusal> {
        let mut found = None;
        for page in 1..=PAGES_MAX {
            let path = format!("issues/{}/comments?per_page={PER_PAGE}&page={page}", self.number);
            let json = self.call(Method::GET, &path, None)?;
            let Some(comments) = json.as_array() else {
                return Err(Refusal::because("GitHub's list of comments is no list"));
            };
            for comment in comments {
                let body = comment["body"].as_str().unwrap_or_default();
                if body.trim_end().ends_with(self.marker) {
                    found = comment["id"].as_u64().or(found);
                }
            }
            if comments.len() < PER_PAGE {
                break;
            }
        }
        Ok(found)
    }

    fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Refusal> {
        self.api.call(method, path, body, "pull-requests: write")
    }
}
