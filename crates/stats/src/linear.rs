//! Linear regression, for how time grows with the length of a batch.

/// `y = intercept + slope · x`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    pub slope: f64,
    /// y at x = 0.
    pub intercept: f64,
}

impl Line {
    /// The line with the least sum of squared vertical distances to points (x, y):
    /// `slope = Σ(x − x̄)(y − ȳ) / Σ(x − x̄)²`, `intercept = ȳ − slope · x̄`. Legendre (1805).
    ///
    /// `None` for fewer than two different x, and if the result is not finite, as with NaN.
    pub fn through(points: &[(f64, f64)]) -> Option<Self> {
        let n = points.len() as f64;
        let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / n;
        let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / n;
        let (first, _) = points.first()?;
        if points.iter().all(|(x, _)| x == first) {
            return None;
        }
        let (mut products, mut squares) = (0.0, 0.0);
        for (x, y) in points {
            products += (x - mean_x) * (y - mean_y);
            squares += (x - mean_x).powi(2);
        }
        let slope = products / squares;
        let line = Self { slope, intercept: mean_y - slope * mean_x };
        (line.slope.is_finite() && line.intercept.is_finite()).then_some(line)
    }

    /// y at x.
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn known_lines() {
        let check = |points: &[(f64, f64)], expected: Option<(f64, f64)>| {
            let found = Line::through(points).map(|line| (line.slope, line.intercept));
            assert_eq!(found, expected, "{points:?}");
        };
        check(&[], None);
        check(&[(1.0, 1.0)], None);
        check(&[(1.0, 1.0), (1.0, 2.0)], None);
        // The mean of three times 0.1 is not 0.1.
        check(&[(0.1, 1.0), (0.1, 2.0), (0.1, 4.0)], None);
        check(&[(0.0, 1.0), (2.0, 5.0)], Some((2.0, 1.0)));
        check(&[(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)], Some((0.0, 1.0)));
        // Anscombe's quartet in small: the middle point lies 3 above, the line 1 above all.
        check(&[(0.0, 0.0), (1.0, 3.0), (2.0, 0.0)], Some((0.0, 1.0)));
        check(&[(0.0, f64::NAN), (1.0, 3.0)], None);
        check(&[(0.0, 1.0), (f64::INFINITY, 3.0)], None);
        assert_eq!(Line { slope: 2.0, intercept: 1.0 }.at(3.0), 7.0);
    }

    /// Five points of a hand calculation: x̄ = 3, ȳ = 4, Σ(x−x̄)(y−ȳ) = 6, Σ(x−x̄)² = 10.
    #[test]
    fn textbook() {
        let points = [(1.0, 2.0), (2.0, 4.0), (3.0, 5.0), (4.0, 4.0), (5.0, 5.0)];
        let line = Line::through(&points).expect("five different x");
        assert!((line.slope - 0.6).abs() < 1e-15 && (line.intercept - 2.2).abs() < 1e-14);
    }

    proptest! {
        /// No other line through the centroid is nearer to the points.
        #[test]
        fn other_lines_are_worse(
            points in vec((-1e2..1e2, -1e2..1e2), 3..20), turn in -1.0..1.0, lift in -1.0..1.0,
        ) {
            let Some(line) = Line::through(&points) else { return Ok(()) };
            let other = Line { slope: line.slope + turn, intercept: line.intercept + lift };
            let misses = |line: &Line| -> f64 {
                points.iter().map(|&(x, y)| (y - line.at(x)).powi(2)).sum()
            };
            prop_assert!(misses(&line) <= misses(&other) * (1.0 + 1e-9) + 1e-9);
        }
    }
}
