//! Scales profile weights to the metric: the share of the profile times the metric, so that the differences of all
//! parts add up to the metric's change.

use serde::Serialize;

use crate::side::{Side, Stack};

/// Run-to-run variation of shares beyond sampling noise, because code and data move in memory and other load
/// changes, as a part of one sample's standard deviation. `cargo xtask peers guilty` measured 3.8 % in 60 pairs of
/// runs of the same code, of nine benchmarks on a shared machine: 2.0 % in the first 36 of them, 5.5 % in the 24
/// of a busier hour.
pub const RUN_TO_RUN: f64 = 0.04;

/// The metric of the profiles, before and after, with the standard deviation of each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    pub before: f64,
    pub after: f64,
    pub before_sd: f64,
    pub after_sd: f64,
}

impl Metric {
    /// The totals of both profiles, if no metric is known.
    pub fn of_totals(before: &Side, after: &Side) -> Self {
        let of = |side: &Side| {
            let mut whole = Sum::default();
            side.stacks.iter().for_each(|stack| whole.add(stack));
            (side.total, if side.is_exact { 0.0 } else { whole.variance.sqrt() })
        };
        let ((before, before_sd), (after, after_sd)) = (of(before), of(after));
        Self { before, after, before_sd, after_sd }
    }
}

/// A value before and after, in units of the metric.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Change {
    pub before: f64,
    pub after: f64,
    /// Standard deviation of the difference; 0 for exact counts.
    pub sd: f64,
}

impl Change {
    pub fn difference(self) -> f64 {
        self.after - self.before
    }

    /// Number of standard deviations of the difference from zero. Infinite for an exact difference.
    pub fn deviations(self) -> f64 {
        match self.difference() {
            0.0 => 0.0,
            difference => difference / self.sd,
        }
    }
}

/// Weight and variance of a sum.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    pub(crate) weight: f64,
    variance: f64,
}

impl Sum {
    pub(crate) fn join(&mut self, other: Self) {
        self.weight += other.weight;
        self.variance += other.variance;
    }

    pub(crate) fn add(&mut self, stack: &Stack) {
        self.join(Self::of(stack));
    }

    pub(crate) fn of(stack: &Stack) -> Self {
        // Poisson-distributed count, with equal mean weights.
        Self { weight: stack.weight, variance: stack.weight * stack.weight / stack.count }
    }

    pub(crate) fn exact(weight: f64) -> Self {
        Self { weight, variance: 0.0 }
    }
}

/// Conversion from profile weights to the metric.
#[derive(Debug, Clone, Copy)]
struct Scale {
    whole: Sum,
    metric: f64,
    metric_sd: f64,
    is_exact: bool,
}

impl Scale {
    /// Value and variance of a part of the profile.
    fn value(self, part: Sum) -> (f64, f64) {
        let share = part.weight / self.whole.weight;
        if self.is_exact {
            // Counts stay integers if they are the metric.
            let is_metric = self.whole.weight == self.metric;
            return (if is_metric { part.weight } else { share * self.metric }, 0.0);
        }
        let rest = (self.whole.variance - part.variance).max(0.0);
        let sampling = ((1.0 - share).powi(2) * part.variance + share.powi(2) * rest)
            / self.whole.weight.powi(2);
        let run_to_run = RUN_TO_RUN.powi(2) * share * (1.0 - share);
        let variance =
            self.metric.powi(2) * (sampling + run_to_run) + (share * self.metric_sd).powi(2);
        (share * self.metric, variance)
    }
}

impl Scale {
    fn of(side: &Side, metric: f64, metric_sd: f64) -> Self {
        let mut whole = Sum::default();
        side.stacks.iter().for_each(|stack| whole.add(stack));
        Self { whole, metric, metric_sd, is_exact: side.is_exact }
    }
}

/// Both scales.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scales {
    before: Scale,
    after: Scale,
}

impl Scales {
    pub(crate) fn of(before: &Side, after: &Side, metric: Metric) -> Self {
        Self {
            before: Scale::of(before, metric.before, metric.before_sd),
            after: Scale::of(after, metric.after, metric.after_sd),
        }
    }

    /// The scales of weights that are the metric.
    pub(crate) fn exact(total: f64) -> Self {
        let scale =
            Scale { whole: Sum::exact(total), metric: total, metric_sd: 0.0, is_exact: true };
        Self { before: scale, after: scale }
    }

    /// The scales for a metric of exactly 1, which gives shares.
    pub(crate) fn shares(self) -> Self {
        let share = |scale| Scale { metric: 1.0, metric_sd: 0.0, ..scale };
        Self { before: share(self.before), after: share(self.after) }
    }

    pub(crate) fn change(&self, before: Sum, after: Sum) -> Change {
        let (before, before_variance) = self.before.value(before);
        let (after, after_variance) = self.after.value(after);
        Change { before, after, sd: (before_variance + after_variance).sqrt() }
    }
}
