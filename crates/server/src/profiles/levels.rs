//! Times and files: the lengths of blocks, and how long the short ones are kept.

pub(super) const HOUR_NS: i64 = 3600 * 1_000_000_000;
pub(super) const MINUTE_NS: i64 = HOUR_NS / 60;
pub(super) const TEN_MINUTES_NS: i64 = HOUR_NS / 6;

/// Age until which windows are kept after merging, for minute resolution: at least the last hour, plus a partly expired
/// stretch of ten minutes.
const FINE_NS: i64 = HOUR_NS + 2 * TEN_MINUTES_NS;

/// Length of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Window = 0,
    TenMinutes = 1,
    Hour = 2,
}

impl Level {
    pub(super) fn length_ns(self) -> i64 {
        match self {
            Self::Window => 0,
            Self::TenMinutes => TEN_MINUTES_NS,
            Self::Hour => HOUR_NS,
        }
    }
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) id: i64,
    pub(super) series: i64,
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
    pub(super) windows: i64,
    pub(super) path: String,
}

/// A time range in nanoseconds since 1970, excluding the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub from_ns: i64,
    pub until_ns: i64,
}

impl Span {
    /// Intersection with another span.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self {
            from_ns: self.from_ns.max(other.from_ns),
            until_ns: self.until_ns.min(other.until_ns),
        }
    }

    /// Rounded outwards to multiples of a length.
    pub(super) fn rounded(self, length_ns: i64) -> Self {
        Self {
            from_ns: self.from_ns.div_euclid(length_ns) * length_ns,
            until_ns: (self.until_ns + length_ns - 1).div_euclid(length_ns) * length_ns,
        }
    }

    /// Length in seconds.
    pub fn seconds(self) -> f64 {
        self.until_ns.saturating_sub(self.from_ns).max(1) as f64 / 1e9
    }
}

/// End of the time without single windows. Whole stretches of ten minutes only: reads never use half of one.
pub(super) fn coarse_until(now_ns: i64) -> i64 {
    (now_ns - FINE_NS).div_euclid(TEN_MINUTES_NS) * TEN_MINUTES_NS
}

/// The readable range: older data has a resolution of ten minutes.
pub(super) fn readable(span: Span, now_ns: i64) -> Span {
    // The first whole stretch of which all windows are left.
    let fine_ns = coarse_until(now_ns + TEN_MINUTES_NS - 1);
    let coarse = span.rounded(TEN_MINUTES_NS);
    let end = |fine: i64, coarse: i64| if fine < fine_ns { coarse } else { fine };
    Span {
        from_ns: end(span.from_ns, coarse.from_ns),
        until_ns: end(span.until_ns, coarse.until_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_times_are_rounded_to_what_is_left() {
        const MINUTE: i64 = 60 * 1_000_000_000;
        // Two hours and five minutes: windows exist from 0:50 on.
        let now = 125 * MINUTE;
        let check = |from: i64, until: i64, expected: (i64, i64)| {
            let span = Span { from_ns: from * MINUTE, until_ns: until * MINUTE };
            let found = readable(span, now);
            assert_eq!((found.from_ns / MINUTE, found.until_ns / MINUTE), expected);
        };
        check(65, 125, (65, 125));
        check(45, 123, (40, 123));
        check(5, 15, (0, 20));
        check(10, 20, (10, 20));
        check(49, 50, (40, 50));
    }
}
