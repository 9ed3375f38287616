//! Where a request comes from: the client's address, and for a browser, the site (CSRF: another site could submit a form
//! with the browser's cookie).

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, header};

/// Address of a client: the peer, or what the outermost of `proxies` trusted proxies saw. Each proxy appends its peer
/// to `X-Forwarded-For`; entries further left come from the client and may be forged.
pub(super) fn client(headers: &HeaderMap, peer: SocketAddr, proxies: usize) -> IpAddr {
    let mut entries: Vec<&str> = Vec::new();
    for value in headers.get_all("x-forwarded-for") {
        // A non-text value must not shift the entries.
        entries.extend(value.to_str().unwrap_or("?").split(',').map(str::trim));
    }
    let seen = proxies.checked_sub(1).and_then(|before| entries.iter().rev().nth(before));
    seen.and_then(|text| parse(text)).unwrap_or(peer.ip())
}

/// An address, optionally with a port.
fn parse(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|it| it.ip()))
}

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
    fn only_what_trusted_proxies_saw_is_believed() {
        let check = |headers: &[&str], proxies: usize, expected: &str| {
            let mut map = HeaderMap::new();
            for value in headers {
                map.append("x-forwarded-for", value.parse().expect("a value"));
            }
            let found = client(&map, SocketAddr::from(([10, 0, 0, 9], 80)), proxies);
            assert_eq!(found.to_string(), expected, "{headers:?} {proxies}");
        };
        check(&[], 0, "10.0.0.9");
        check(&[], 1, "10.0.0.9");
        check(&["192.0.2.1"], 0, "10.0.0.9");
        check(&["192.0.2.1"], 1, "192.0.2.1");
        check(&["6.6.6.6, 192.0.2.1"], 1, "192.0.2.1");
        check(&["6.6.6.6, 192.0.2.1, 10.0.0.1"], 2, "192.0.2.1");
        check(&["6.6.6.6", "192.0.2.1"], 1, "192.0.2.1");
        check(&["192.0.2.1"], 2, "10.0.0.9");
        check(&["nonsense"], 1, "10.0.0.9");
        check(&["192.0.2.1:4711"], 1, "192.0.2.1");
        check(&["[2001:db8::1]"], 1, "2001:db8::1");
        check(&["[2001:db8::1]:80"], 1, "2001:db8::1");
    }

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
