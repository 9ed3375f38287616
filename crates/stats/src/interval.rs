//! A range for a quantity, and the confidence that it contains it.

/// Two bounds, both of which belong to the interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower bound. Never above the upper one.
    pub lower: f64,
    pub upper: f64,
}

impl Interval {
    /// The interval between two bounds, given in either order. `None` if one is not finite.
    pub fn between(a: f64, b: f64) -> Option<Self> {
        (a.is_finite() && b.is_finite()).then(|| Self { lower: a.min(b), upper: a.max(b) })
    }

    /// Whether it contains `value`, bounds included.
    pub fn contains(&self, value: f64) -> bool {
        (self.lower..=self.upper).contains(&value)
    }

    /// Upper bound − lower bound.
    pub fn width(&self) -> f64 {
        self.upper - self.lower
    }
}

/// The share of wrong intervals on each side, `(1 − confidence) / 2`.
///
/// `None` unless the confidence is between 0 and 1, both excluded.
pub(crate) fn tail(confidence: f64) -> Option<f64> {
    (confidence > 0.0 && confidence < 1.0).then_some((1.0 - confidence) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_in_order_and_finite() {
        let check = |a, b, expected: Option<(f64, f64)>| {
            let expected = expected.map(|(lower, upper)| Interval { lower, upper });
            assert_eq!(Interval::between(a, b), expected, "{a} {b}");
        };
        check(1.0, 2.0, Some((1.0, 2.0)));
        check(2.0, 1.0, Some((1.0, 2.0)));
        check(1.0, 1.0, Some((1.0, 1.0)));
        check(1.0, f64::INFINITY, None);
        check(f64::NAN, 1.0, None);
    }

    #[test]
    fn bounds_belong_to_it() {
        let interval = Interval { lower: -1.0, upper: 2.0 };
        let check = |value, expected| assert_eq!(interval.contains(value), expected, "{value}");
        check(-1.0, true);
        check(0.0, true);
        check(2.0, true);
        check(-1.1, false);
        check(2.1, false);
        check(f64::NAN, false);
        assert_eq!(interval.width(), 3.0);
    }

    #[test]
    fn tails_are_halves_of_what_is_left() {
        let check = |confidence, expected| assert_eq!(tail(confidence), expected, "{confidence}");
        check(0.5, Some(0.25));
        check(0.0, None);
        check(1.0, None);
        check(f64::NAN, None);
    }
}
