//! Arithmetic of all tables: medians with their spread, how far values scatter, and how sure a share is.

use wingbeat_stats::Sample;

/// A figure over several rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of some values; `None` of none, or when one is not a number.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let sample = Sample::new(values.into_iter().collect()).ok()?;
        Some(Self { median: sample.median(), min: sample.min(), max: sample.max() })
    }

    /// `median (min to max)`, or only the median when the three read the same.
    pub(crate) fn show(self, factor: f64, places: usize, unit: &str) -> String {
        let number = |value: f64| {
            let text = format!("{:.places$}", value * factor);
            // Rounding may leave a zero with a sign.
            if text.trim_start_matches('-').bytes().all(|b| b == b'0' || b == b'.') {
                text.trim_start_matches('-').to_owned()
            } else {
                text.replace('-', "−")
            }
        };
        let [median, min, max] = [self.median, self.min, self.max].map(number);
        if min == max {
            format!("{median}{unit}")
        } else {
            format!("{median}{unit} ({min} to {max})")
        }
    }
}

/// Standard deviation of a sample; `None` of fewer than two values.
pub(crate) fn deviation(values: &[f64]) -> Option<f64> {
    Sample::new(values.to_vec()).ok()?.std_dev()
}

/// How often something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) hits: usize,
    pub(crate) of: usize,
}

impl Share {
    /// The share; `None` of nothing.
    pub(crate) fn value(self) -> Option<f64> {
        (self.of > 0).then(|| self.hits as f64 / self.of as f64)
    }

    /// Its interval at 95 %, after Wilson (1927), which also holds near 0 and 1.
    pub(crate) fn interval(self) -> Option<(f64, f64)> {
        const Z: f64 = 1.959_964;
        let (share, count) = (self.value()?, self.of as f64);
        let scale = 1.0 + Z * Z / count;
        let middle = (share + Z * Z / (2.0 * count)) / scale;
        let half = Z / scale * (share * (1.0 - share) / count + (Z / (2.0 * count)).powi(2)).sqrt();
        Some(((middle - half).max(0.0), (middle + half).min(1.0)))
    }

    /// Whether it is at most this. A few cases prove nothing: the whole interval has to lie on one side.
    pub(crate) fn at_most(self, bound: f64) -> &'static str {
        self.judge(|share| share <= bound)
    }

    pub(crate) fn at_least(self, bound: f64) -> &'static str {
        self.judge(|share| share >= bound)
    }

    fn judge(self, is_good: impl Fn(f64) -> bool) -> &'static str {
        match self.interval().map(|(low, high)| (is_good(low), is_good(high))) {
            Some((low, high)) if low == high => verdict(low),
            _ => OPEN,
        }
    }
}

/// What is said of a goal that cannot be judged yet.
const OPEN: &str = "open: too few cases";

/// The word for a goal that is certain.
pub(crate) fn verdict(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "**missed**" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let check = |values: &[f64], expected: Option<(f64, f64, f64)>| {
            let found = Spread::of(values.iter().copied());
            let found = found.map(|spread| (spread.min, spread.median, spread.max));
            assert_eq!(found, expected, "{values:?}");
        };
        check(&[3.0, 1.0, 2.0], Some((1.0, 2.0, 3.0)));
        check(&[4.0, 1.0, 2.0, 3.0], Some((1.0, 2.5, 4.0)));
        check(&[], None);
        check(&[1.0, f64::NAN], None);
        check(&[f64::INFINITY], None);
    }

    #[test]
    fn figures_with_their_spread() {
        let check = |(min, median, max), places, unit, expected: &str| {
            assert_eq!(Spread { median, min, max }.show(1.0, places, unit), expected);
        };
        check((0.99, 1.0, 1.012), 2, "", "1.00 (0.99 to 1.01)");
        check((1.0, 1.0, 1.0), 2, " %", "1.00 %");
        check((0.999, 1.0, 1.001), 2, "", "1.00");
        check((-0.44, -0.04, 0.2), 1, " %", "0.0 % (−0.4 to 0.2)");
    }

    #[test]
    fn intervals_of_shares() {
        // Values of Wilson's formula from tables, to three places.
        let check = |hits, of, expected: Option<(f64, f64)>| {
            let round = |value: f64| (value * 1000.0).round() / 1000.0;
            let found = Share { hits, of }.interval().map(|(a, b)| (round(a), round(b)));
            assert_eq!(found, expected, "{hits} of {of}");
        };
        check(0, 0, None);
        check(0, 10, Some((0.0, 0.278)));
        check(10, 10, Some((0.722, 1.0)));
        check(5, 10, Some((0.237, 0.763)));
        check(0, 400, Some((0.0, 0.01)));
    }

    #[test]
    fn goals_need_cases() {
        let check = |hits, of, expected| assert_eq!(Share { hits, of }.at_most(0.005), expected);
        check(0, 0, "open: too few cases");
        check(0, 320, "open: too few cases");
        check(0, 800, "reached");
        check(1, 800, "open: too few cases");
        check(9, 320, "**missed**");
        assert_eq!(Share { hits: 40, of: 40 }.at_least(0.9), "reached");
        assert_eq!(Share { hits: 0, of: 2 }.at_least(0.9), "**missed**");
    }
}
