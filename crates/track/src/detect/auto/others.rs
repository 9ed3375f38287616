//! Information shared between the series of a report: their noise, and the autocorrelation of their errors.

use wingbeat_stats::{
    noise::{Common, Kinds, Noise},
    robust_level::{Error, RobustLevel},
    spread_prior::SpreadPrior,
};

pub(super) struct Others {
    pub(super) expected: Option<SpreadPrior>,
    pub(super) common: Common,
    pub(super) neighbours: Neighbours,
}

impl Others {
    /// The noise of one of the series, whose own kinds are `own`.
    pub(super) fn noise(&self, past: &RobustLevel, own: &Kinds) -> Noise {
        Noise::of(past, &self.common.without(own), self.expected.as_ref())
    }
}

/// Larger errors, in spreads, are clamped to this.
const ERROR_MAX: f64 = 3.0;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Neighbours {
    product: f64,
    square: f64,
    count: f64,
    series: f64,
}

impl Neighbours {
    pub(super) fn of(errors: &[Error]) -> Self {
        let near = |error: Error| error.size.clamp(-ERROR_MAX, ERROR_MAX);
        Self {
            product: errors.windows(2).map(|pair| near(pair[0]) * near(pair[1])).sum(),
            square: errors.iter().map(|&error| near(error).powi(2)).sum(),
            count: errors.len() as f64,
            series: 1.0,
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            product: self.product + other.product,
            square: self.square + other.square,
            count: self.count + other.count,
            series: self.series + other.series,
        }
    }

    /// Upper bound of the correlation: one standard error above the estimate, from 0 to 0.9.
    pub(super) fn correlation_max(&self) -> f64 {
        if self.square == 0.0 {
            return 0.0;
        }
        let seen = self.product / self.square;
        // Errors around a level estimated from the same values underestimate the correlation.
        let hidden = (1.0 + 3.0 * seen.max(0.0)) * self.series / self.count;
        (seen + hidden + 1.0 / self.count.sqrt()).clamp(0.0, 0.9)
    }
}
