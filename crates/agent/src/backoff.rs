//! Exponential back-off after failures.

use std::{
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

/// Maximum of a server's `Retry-After`, since windows are dropped meanwhile.
const DEMANDED_MAX: Duration = Duration::from_secs(3600);

/// Pauses that double with each failure.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    most: Duration,
    failures: u32,
    until: Option<Instant>,
    /// Whether the server demanded the pause.
    is_demanded: bool,
}

impl Backoff {
    /// Pauses from `first` up to `most`.
    pub(crate) fn new(first: Duration, most: Duration) -> Self {
        Self { first: first.min(most), most, failures: 0, until: None, is_demanded: false }
    }

    /// Remaining time of the pause.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        self.until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Ends the pause after a success.
    pub(crate) fn succeed(&mut self) {
        (self.failures, self.until, self.is_demanded) = (0, None, false);
    }

    /// Starts a pause: the server's demand, or the next own one.
    pub(crate) fn fail(&mut self, now: Instant, demanded: Option<Duration>) {
        self.failures = self.failures.saturating_add(1);
        let pause = demanded.map_or_else(
            || jittered(nominal(self.first, self.most, self.failures), random_share()),
            |demanded| demanded.min(DEMANDED_MAX),
        );
        self.is_demanded = demanded.is_some();
        self.until = now.checked_add(pause);
    }

    /// Ends an own pause for the last attempt before shutdown. A demanded pause stays.
    pub(crate) fn hurry(&mut self) {
        if !self.is_demanded {
            self.until = None;
        }
    }
}

/// Pause after this many consecutive failures.
fn nominal(first: Duration, most: Duration, failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1).min(31));
    first.saturating_mul(doubled).min(most)
}

/// At least half of the pause, random, so that agents that failed together do not retry together.
fn jittered(pause: Duration, share: f64) -> Duration {
    pause.mul_f64(0.5 + share.clamp(0.0, 1.0) / 2.0)
}

/// A random number from 0 to 1, from the random seed of the standard library's hashers.
fn random_share() -> f64 {
    f64::from((RandomState::new().hash_one(0_u8) >> 32) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit() {
        let check = |failures, expected_s| {
            let (first, most) = (Duration::from_secs(1), Duration::from_secs(60));
            assert_eq!(
                nominal(first, most, failures),
                Duration::from_secs(expected_s),
                "{failures}"
            );
        };
        check(1, 1);
        check(2, 2);
        check(6, 32);
        check(7, 60);
        check(u32::MAX, 60);
    }

    #[test]
    fn jitter_takes_half_at_most() {
        let check = |share, expected_ms| {
            assert_eq!(jittered(Duration::from_secs(2), share), Duration::from_millis(expected_ms));
        };
        check(0.0, 1_000);
        check(0.5, 1_500);
        check(1.0, 2_000);
        assert!((0.0..=1.0).contains(&random_share()));
    }

    #[test]
    fn demanded_pauses_count() {
        let now = Instant::now();
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        assert!(backoff.left(now).is_zero());
        backoff.fail(now, Some(Duration::from_secs(7)));
        assert_eq!(backoff.left(now), Duration::from_secs(7));
        backoff.hurry();
        assert_eq!(backoff.left(now), Duration::from_secs(7));
        backoff.fail(now, Some(Duration::MAX));
        assert_eq!(backoff.left(now), DEMANDED_MAX);
        backoff.fail(now, None);
        assert!(backoff.left(now) >= Duration::from_secs(2));
        backoff.hurry();
        assert!(backoff.left(now).is_zero());
        assert_eq!(backoff.failures, 3);
        backoff.succeed();
        assert_eq!(backoff.failures, 0);
    }
}
