//! Collapses double slashes in paths: the `bencher` client requests `//v0/…` if its host ends in a slash, which it
//! always does.

use axum::{extract::Request, http::Uri};

/// The request with single slashes in its path.
pub(super) fn single(mut request: Request) -> Request {
    if let Some(uri) = without_doubles(request.uri()) {
        *request.uri_mut() = uri;
    }
    request
}

fn without_doubles(uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    if !path.contains("//") {
        return None;
    }
    let mut text = String::with_capacity(path.len());
    for c in path.chars() {
        if c != '/' || !text.ends_with('/') {
            text.push(c);
        }
    }
    if let Some(query) = uri.query() {
        text.push('?');
        text.push_str(query);
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(text.parse().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes() {
        let check = |text: &str, expected: Option<&str>| {
            let uri: Uri = text.parse().expect("an address");
            let found = without_doubles(&uri).map(|uri| uri.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        };
        check("/v0/run", None);
        check("/a?b=//", None);
        check("//v0/server/version", Some("/v0/server/version"));
        check("//", Some("/"));
        check("//v0///run//?next=//a", Some("/v0/run/?next=//a"));
    }
}
