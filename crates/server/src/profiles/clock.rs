//! Whether the clock may expire data: one that is wrong for half a minute would otherwise delete everything.

use std::time::{Duration, Instant};

use super::levels::HOUR_NS;

/// Largest difference between two clocks, or between the clock and the newest data, that is usual.
const JUMP_NS: i64 = HOUR_NS;

/// How long the clock has to run evenly after a jump. A wrong clock is noticed by then, because pushes are refused.
const SETTLING: Duration = Duration::from_secs(24 * 3600);

/// What is known of the system's clock.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// The time at the last look, by the system's clock and by one that never jumps.
    last: Option<(i64, Instant)>,
    jumped: Option<Instant>,
}

impl Clock {
    /// Whether the system's clock shows the right time, as far as can be known. `newest_ns` is the end of the newest data:
    /// the reference at the start of a server.
    pub(super) fn is_credible(&mut self, now_ns: i64, at: Instant, newest_ns: Option<i64>) -> bool {
        let expected_ns = match self.last {
            Some((last_ns, last)) => {
                let passed = at.saturating_duration_since(last).as_nanos();
                Some(last_ns.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX)))
            }
            None => newest_ns,
        };
        self.last = Some((now_ns, at));
        let off_ns = expected_ns.map_or(0, |expected| now_ns.saturating_sub(expected));
        if off_ns.saturating_abs() > JUMP_NS {
            tracing::warn!(
                "the clock is {} s off the newest data or the last look at it: no profiles expire for {} h",
                off_ns / 1_000_000_000,
                SETTLING.as_secs() / 3600
            );
            self.jumped = Some(at);
        }
        let has_settled = |jumped| at.saturating_duration_since(jumped) >= SETTLING;
        self.jumped.is_none_or(has_settled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_expires_nothing_for_a_day() {
        let begin = Instant::now();
        // Each look: hours by a steady clock, hours by the system's, and what is expected.
        let check = |newest_h: Option<i64>, looks: &[(u64, i64, bool)]| {
            let mut clock = Clock::default();
            for (steady_h, system_h, expected) in looks {
                let at = begin + Duration::from_secs(steady_h * 3600);
                let newest_ns = newest_h.map(|hour| hour * HOUR_NS);
                let found = clock.is_credible(system_h * HOUR_NS, at, newest_ns);
                assert_eq!(found, *expected, "{newest_h:?} {looks:?} {steady_h}");
            }
        };
        check(None, &[(0, 1000, true), (9, 1009, true), (40, 1040, true)]);
        check(Some(999), &[(0, 1000, true), (1, 1001, true)]);
        // Two weeks ahead for an hour.
        check(None, &[(0, 1000, true), (1, 1360, false), (2, 1002, false), (26, 1026, true)]);
        // At a start, and behind.
        check(Some(900), &[(0, 1000, false), (23, 1023, false), (24, 1024, true)]);
        check(None, &[(0, 1000, true), (1, 500, false), (25, 524, true)]);
    }
}
