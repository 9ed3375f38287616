//! Which database a request reads: the primary, or a replica that has what its sender wrote.
//!
//! A replica follows its primary, mostly by milliseconds. Whoever changed something on a page gets a cookie with
//! the place in the primary's log where the change stands, and pages read from the replica only once it has come
//! that far; until then, and where it cannot be reached, they read from the primary.

use std::future::Future;

use axum::http::{HeaderMap, HeaderValue, header};

tokio::task_local! {
    static REPLICA: Position;
}

/// A place in the log of a primary. 0 is before everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Position(pub(crate) u64);

/// The cookie with the place of what a browser wrote last.
const COOKIE: &str = "wingbeat-written";

/// How long it is sent, in seconds. A replica that is farther behind is not read at all.
const COOKIE_AGE_S: u64 = 60;

/// Has reads go to a replica, once that has come to a place.
pub(crate) async fn of_replica<T>(at_least: Position, work: impl Future<Output = T>) -> T {
    REPLICA.scope(at_least, work).await
}

/// The place that a replica must have come to, to be read; none where the primary is to be read.
pub(super) fn replica() -> Option<Position> {
    REPLICA.try_with(|at_least| *at_least).ok()
}

impl Position {
    /// What a browser says that it wrote.
    pub(crate) fn of_cookie(headers: &HeaderMap) -> Self {
        let values = headers.get_all(header::COOKIE).into_iter().filter_map(|it| it.to_str().ok());
        let mut pairs =
            values.flat_map(|value| value.split(';')).filter_map(|it| it.split_once('='));
        let found = pairs.find(|(name, _)| name.trim() == COOKIE);
        let number = found.and_then(|(_, text)| u64::from_str_radix(text.trim(), 16).ok());
        Self(number.unwrap_or_default())
    }

    /// What tells a browser to say so.
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
