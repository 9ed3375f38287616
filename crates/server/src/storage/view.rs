//! Selects the database of a request: the primary, or a replica that includes the client's own writes.
//!
//! A replica typically lags by milliseconds. After a change on a page, the browser gets a cookie with its position in
//! the primary's log, and pages read from the replica only once it has replayed that position; until then, and while it
//! is unreachable, they read from the primary.

use std::future::Future;

use axum::http::{HeaderMap, HeaderValue, header};

tokio::task_local! {
    static REPLICA: Position;
}

/// A log position of a primary. 0 is before everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Position(pub(crate) u64);

/// Cookie with the position of a browser's last write.
const COOKIE: &str = "wingbeat-written";

/// Lifetime of the cookie in seconds. A replica with a larger lag is not used at all.
const COOKIE_AGE_S: u64 = 60;

/// Allows reads from a replica that has replayed a position.
pub(crate) async fn of_replica<T>(at_least: Position, work: impl Future<Output = T>) -> T {
    REPLICA.scope(at_least, work).await
}

/// Position that the replica must have replayed; none to read from the primary.
pub(super) fn replica() -> Option<Position> {
    REPLICA.try_with(|at_least| *at_least).ok()
}

impl Position {
    /// The position in a browser's cookie.
    pub(crate) fn of_cookie(headers: &HeaderMap) -> Self {
        let values = headers.get_all(header::COOKIE).into_iter().filter_map(|it| it.to_str().ok());
        let mut pairs =
            values.flat_map(|value| value.split(';')).filter_map(|it| it.split_once('='));
        let found = pairs.find(|(name, _)| name.trim() == COOKIE);
        let number = found.and_then(|(_, text)| u64::from_str_radix(text.trim(), 16).ok());
        Self(number.unwrap_or_default())
    }

    /// `Set-Cookie` header with the position.
    pub(crate) fn cookie(self) -> Option<HeaderValue> {
        let number = self.0;
        let text =
            format!("{COOKIE}={number:x}; Path=/; Max-Age={COOKIE_AGE_S}; HttpOnly; SameSite=Lax");
        HeaderValue::from_str(&text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_says_what_it_was_told() {
        let check = |sent: &str, expected: u64| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, sent.parse().expect("a value"));
            assert_eq!(Position::of_cookie(&headers), Position(expected), "{sent}");
        };
        let told = Position(0x1_2ab0_0001).cookie().expect("a header");
        let told = told.to_str().expect("text").split(';').next().expect("a pair").to_owned();
        check(&format!("wingbeat=SECRET; {told}"), 0x1_2ab0_0001);
        check("wingbeat=SECRET", 0);
        check("wingbeat-written=made up", 0);
    }

    #[tokio::test]
    async fn only_what_asks_for_it_reads_a_replica() {
        assert_eq!(replica(), None);
        assert_eq!(of_replica(Position(7), async { replica() }).await, Some(Position(7)));
    }
}
