//! Medians of single runs as reports have them, for examples and tests.

use wingbeat_stats::histogram::Histogram;

use super::clock;
use crate::instrument::wrapper::Recorded;

/// The median of what each of two clocks has recorded, in nanoseconds, between the steps that both move
/// in. `None` if one has recorded nothing.
pub fn medians_ns(recorded: [&Recorded; 2]) -> Option<[f64; 2]> {
    let step = clock::step_ns(recorded.iter().map(|recorded| &*recorded.buckets));
    let median = |recorded: &Recorded| match step {
        Some(step) if recorded.count > 0 => Some(clock::quantile(recorded, step, 0.5)),
        _ => Some(Histogram::recorded(&recorded.buckets).ok()?.quantile(0.5)),
    };
    Some([median(recorded[0])?, median(recorded[1])?])
}
