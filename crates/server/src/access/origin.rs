//! Checks the origin of browser requests (CSRF): another site could submit a form with the browser's cookie.

use axum::http::{HeaderMap, header};

/// Whether a state-changing request with browser credentials comes from this server's pages. Browsers send
/// `Sec-Fetch-Site` on trustworthy connections, and `Origin` elsewhere.
pub(super) fn is_own(headers: &HeaderMap, public_url: &str) -> bool {
    let text = |name: &str| headers.get(name).map(|it| it.to_str().unwrap_or_default());
    if let Some(site) = text("sec-fetch-site") {
        return site == "same-origin";
    }
    let Some(origin) = text("origin") else { return false };
    // Another site cannot forge the browser's Host header, and some servers have several host names.
    let host = text(header::HOST.as_str()).unwrap_or_default();
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    origin == public_url || authority.is_some_and(|it| !it.is_empty() && it == host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_sites_are_recognized() {
        let check = |sent: &[(&'static str, &str)], expected: bool| {
            let mut headers = HeaderMap::new();
            for (name, value) in sent {
                headers.insert(*name, value.parse().expect("a value"));
            }
            assert_eq!(is_own(&headers, "https://bench.example.org"), expected, "{sent:?}");
        };
        check(&[("sec-fetch-site", "same-origin")], true);
        check(&[("sec-fetch-site", "cross-site")], false);
        check(&[("sec-fetch-site", "same-site")], false);
        check(&[("sec-fetch-site", "none")], false);
        check(&[("sec-fetch-site", "cross-site"), ("origin", "https://bench.example.org")], false);
        check(&[("origin", "https://bench.example.org")], true);
        check(&[("origin", "http://bench.lan"), ("host", "bench.lan")], true);
        check(&[("origin", "https://evil.example"), ("host", "bench.example.org")], false);
        check(&[("origin", "null"), ("host", "null")], false);
        check(&[("origin", "https://"), ("host", "")], false);
        check(&[], false);
    }
}
