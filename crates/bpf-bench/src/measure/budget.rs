//! The time budget of a measurement, and what fits into the rest of it.

use std::time::{Duration, Instant};

/// Shares of the time after which tasks other than timing plain runs are not begun: counting, the
/// form with a clock, the image for alternating with the baseline.
pub(super) const COUNTING_UNTIL: f64 = 0.5;
pub(super) const CLOCKING_UNTIL: f64 = 0.6;
pub(super) const PAIRING_UNTIL: f64 = 0.75;

/// Minimum duration of a measurement relative to its loading time, unless the user set its time.
const TIMES_LOADING: u32 = 6;

/// Maximum extension for that.
pub(super) const EXTENDED_MAX: Duration = Duration::from_secs(120);

/// Time budget of a measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    begun: Instant,
    total: Duration,
}

impl Budget {
    pub(super) fn new(begun: Instant, total: Duration) -> Self {
        Self { begun, total }
    }

    pub(super) fn total(&self) -> Duration {
        self.total
    }

    pub(super) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begun)
    }

    pub(super) fn left(&self, now: Instant) -> Duration {
        self.total.saturating_sub(self.elapsed(now))
    }

    /// The deadline; `None` if it is out of range of the clock.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.begun.checked_add(self.total)
    }

    /// Extends the budget for programs with this loading time.
    pub(super) fn extend_for(&mut self, loading: Duration) {
        self.total = extended(self.total, loading);
    }

    /// Extends the budget by time spent on other work.
    pub(super) fn prolong(&mut self, beside: Duration) {
        self.total = self.total.saturating_add(beside);
    }

    /// Whether a task with this estimated duration ends before `share` of the time has passed.
    pub(super) fn allows(&self, now: Instant, estimate: Duration, share: f64) -> bool {
        self.elapsed(now).saturating_add(estimate) <= self.total.mul_f64(share)
    }

    /// Time until `share` of the budget has passed.
    pub(super) fn left_until(&self, now: Instant, share: f64) -> Duration {
        self.total.mul_f64(share).saturating_sub(self.elapsed(now))
    }
}

fn extended(total: Duration, loading: Duration) -> Duration {
    total.max(loading.saturating_mul(TIMES_LOADING).min(EXTENDED_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_loads_get_more_time() {
        let check = |total: u64, loading: u64, expected: u64| {
            let found = extended(Duration::from_secs(total), Duration::from_secs(loading));
            assert_eq!(found, Duration::from_secs(expected), "{total} {loading}");
        };
        check(5, 0, 5);
        check(5, 1, 6);
        check(5, 60, 120);
        check(240, 60, 240);
    }

    #[test]
    fn what_does_not_fit_is_not_begun() {
        let begun = Instant::now();
        let budget = Budget::new(begun, Duration::from_secs(100));
        let seconds = Duration::from_secs;
        let check = |passed, estimate, share, expected: (bool, u64, u64)| {
            let now = begun + seconds(passed);
            let (left, left_until) = (budget.left(now), budget.left_until(now, share));
            let found = (budget.allows(now, seconds(estimate), share), left, left_until);
            assert_eq!(found, (expected.0, seconds(expected.1), seconds(expected.2)), "{passed}");
        };
        check(0, 50, COUNTING_UNTIL, (true, 100, 50));
        check(0, 51, COUNTING_UNTIL, (false, 100, 50));
        check(40, 11, COUNTING_UNTIL, (false, 60, 10));
        check(80, 0, PAIRING_UNTIL, (false, 20, 0));
        check(101, 0, 1.0, (false, 0, 0));
    }
}
