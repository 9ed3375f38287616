//! Requests to a server's API: JSON, a key, and retries.

use serde_json::Value;
use wingbeat_http::{Client, Error, Method, Request, Response, Settings};

use super::{Key, Patience, Retry};

#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) url: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) key: Option<&'a Key>,
    pub(crate) body: Option<&'a Value>,
    /// A body of JSON lines in place of a JSON document.
    pub(crate) text: Option<&'a str>,
    /// Whether the request can be repeated although it may have arrived.
    pub(crate) is_repeatable: bool,
}

impl<'a> Call<'a> {
    /// A repeatable request for JSON, without key and body.
    pub(crate) fn new(method: Method, url: &'a str) -> Self {
        let headers = &[("accept", "application/json")];
        Self { method, url, headers, key: None, body: None, text: None, is_repeatable: true }
    }

    /// Sends the request until the response is not a 5xx. When patience runs out, returns the last 5xx.
    pub(crate) fn send(
        &self,
        patience: &Patience,
        on_retry: &mut dyn FnMut(&Retry),
    ) -> Result<Response, Error> {
        let key = self.key.map(|key| format!("Bearer {}", key.0));
        let json = self.body.map(Value::to_string);
        let content_type = match (self.text, &json) {
            (Some(_), _) => Some("application/x-ndjson"),
            (None, json) => json.is_some().then_some("application/json"),
        };
        let mut headers = self.headers.to_vec();
        headers.extend(key.as_deref().map(|key| ("authorization", key)));
        headers.extend(content_type.map(|kind| ("content-type", kind)));
        let request = Request {
            headers,
            body: self.text.or(json.as_deref()).map(str::as_bytes),
            is_repeatable: self.is_repeatable,
            ..Request::new(self.method.clone(), self.url)
        };
        let connect = Some(patience.connect);
        let client = Client::new(&Settings { connect, ..Settings::default() });
        client.send_with_retry(&request, patience, on_retry)?.complete()
    }
}
