//! Arithmetic of all tables: medians with their spread, how far values scatter, and how sure a share is.

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
        let mut values: Vec<f64> = values.into_iter().collect();
        if values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let half = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[half]
        } else {
            f64::midpoint(values[half - 1], values[half])
        };
        Some(Self { median, min, max })
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
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
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

    /// A few cases prove nothing: the whole interval has to lie on one side.
    pub(crate) fn goal(
        self,
        is_reached: impl Fn(f64, f64) -> bool,
        is_missed: impl Fn(f64, f64) -> bool,
    ) -> &'static str {
        match self.interval() {
            Some((low, high)) if is_reached(low, high) => "reached",
            Some((low, high)) if is_missed(low, high) => "**missed**",
            _ => "open: too few cases",
        }
    }

    /// Whether it is at most this.
    pub(crate) fn at_most(self, bound: f64) -> &'static str {
        self.goal(|_, high| high <= bound, |low, _| low > bound)
    }

    /// Whether it is at least this.
    pub(crate) fn at_least(self, bound: f64) -> &'static str {
        self.goal(|low, _| low >= bound, |_, high| high < bound)
    }
}

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
    fn deviations() {
        let check =
            |values: &[f64], expected| assert_eq!(deviation(values), expected, "{values:?}");
        check(&[1.0], None);
        check(&[3.0, 3.0], Some(0.0));
        check(&[1.0, 2.0, 3.0, 4.0, 5.0], Some(2.5_f64.sqrt()));
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
