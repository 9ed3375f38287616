//! Arithmetic of the tables: how far values scatter, and how sure a share is. Pure.

/// Standard deviation of a sample; `None` of fewer than two values.
#[expect(clippy::cast_precision_loss, reason = "a handful of values")]
pub(super) fn deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// How often something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) hits: usize,
    pub(super) of: usize,
}

impl Share {
    /// The share; `None` of nothing.
    #[expect(clippy::cast_precision_loss, reason = "counts of some hundreds")]
    pub(super) fn value(self) -> Option<f64> {
        (self.of > 0).then(|| self.hits as f64 / self.of as f64)
    }

    /// Its interval at 95 %, after Wilson (1927), which also holds near 0 and 1.
    #[expect(clippy::cast_precision_loss, reason = "counts of some hundreds")]
    pub(super) fn interval(self) -> Option<(f64, f64)> {
        const Z: f64 = 1.959_964;
        let (share, count) = (self.value()?, self.of as f64);
        let scale = 1.0 + Z * Z / count;
        let middle = (share + Z * Z / (2.0 * count)) / scale;
        let half = Z / scale * (share * (1.0 - share) / count + (Z / (2.0 * count)).powi(2)).sqrt();
        Some(((middle - half).max(0.0), (middle + half).min(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations() {
        let check =
            |values: &[f64], expected| assert_eq!(deviation(values), expected, "{values:?}");
        check(&[], None);
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
}
