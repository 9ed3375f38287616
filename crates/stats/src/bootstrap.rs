//! Bootstrap intervals: how a figure would vary if the values were drawn again.
//!
//! A resample draws n of the n values with replacement. The variation of a figure between resamples estimates its
//! variation between samples (Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7, 1979).
//! Results depend only on the sample and the settings; the same seed gives the same bits.
//!
//! For a verdict about a mean of few units use [`Bootstrap::mean`]. [`Bootstrap::percentile`] takes any statistic, but
//! its intervals are too narrow below about 20 values.

mod studentized;
mod visible;

use crate::{
    interval::{Interval, tail},
    random::Places,
    sample::{Sample, at_place},
};

/// Settings of the resampling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bootstrap {
    pub resamples: usize,
    /// The share of intervals that should contain the true value, such as 0.95.
    pub confidence: f64,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for Bootstrap {
    /// 10,000 resamples for 95 %.
    fn default() -> Self {
        Self { resamples: 10_000, confidence: 0.95, seed: 0x77_69_6e_67 }
    }
}

/// Values that the fast path writes at once.
const BURST: usize = 4;

impl Bootstrap {
    /// The percentile interval of a statistic: the range of its replicates without the tails. Efron & Tibshirani, "An
    /// Introduction to the Bootstrap" (1993), chapter 13.
    ///
    /// The statistic gets each resample **in ascending order**, so that medians and quantiles need not sort
    /// ([`crate::sample::quantile_of_sorted`]).
    ///
    /// `None` for fewer than two values, unless `0 < confidence < 1`, with fewer than `2 / (1 − confidence) − 1`
    /// resamples, which reach no value in the tails, and if the statistic is not finite for any resample. Time and
    /// memory: `resamples · n`, and `resamples`.
    pub fn percentile(
        &self,
        sample: &Sample,
        statistic: impl Fn(&[f64]) -> f64,
    ) -> Option<Interval> {
        let tail = self.tail(sample)?;
        let replicates = self.replicates(sample, statistic)?;
        Interval::between(share(&replicates, tail), share(&replicates, 1.0 - tail))
    }

    /// The share in each tail, if there are enough resamples to reach it.
    fn tail(&self, sample: &Sample) -> Option<f64> {
        let tail = tail(self.confidence)?;
        let in_tail = (self.resamples as f64 + 1.0) * tail;
        // Slightly below 1 is rounding.
        (sample.len() >= 2 && in_tail > 1.0 - 1e-9).then_some(tail)
    }

    /// The statistic of each resample, ascending. `None` if one is not finite.
    fn replicates(&self, sample: &Sample, statistic: impl Fn(&[f64]) -> f64) -> Option<Vec<f64>> {
        let mut resampler = Resampler::new(sample.values(), self.seed);
        let mut replicates: Vec<f64> =
            (0..self.resamples).map(|_| statistic(resampler.draw())).collect();
        replicates.sort_unstable_by(f64::total_cmp);
        replicates.iter().all(|replicate| replicate.is_finite()).then_some(replicates)
    }
}

/// Draws resamples in ascending order without sorting: counts how often each value was drawn.
struct Resampler<'a> {
    sorted: &'a [f64],
    counts: Vec<u32>,
    resample: Vec<f64>,
    places: Places,
}

impl<'a> Resampler<'a> {
    fn new(sorted: &'a [f64], seed: u64) -> Self {
        let n = sorted.len();
        let (counts, resample) = (vec![0; n], vec![0.0; n + BURST]);
        Self { sorted, counts, resample, places: places(n, seed) }
    }

    fn draw(&mut self) -> &[f64] {
        let n = self.sorted.len();
        self.counts.fill(0);
        for _ in 0..n {
            if let Some(count) = self.counts.get_mut(self.places.place()) {
                *count += 1;
            }
        }
        let mut end = 0;
        for (&value, &count) in self.sorted.iter().zip(&self.counts) {
            // Always writes a fixed number, which needs no branch on the count. Excess values are overwritten.
            let begin = end;
            end += count as usize;
            if let Some(slots) = self.resample.get_mut(begin..begin + BURST) {
                slots.fill(value);
            }
            if let Some(slots) = self.resample.get_mut(begin + BURST..end) {
                slots.fill(value);
            }
        }
        self.resample.get(..n).unwrap_or_default()
    }
}

/// Random indices into a sample of `n` values. Of more than 2³² values, which do not fit into memory, only the first
/// would be drawn.
fn places(n: usize, seed: u64) -> Places {
    Places::new(u32::try_from(n).unwrap_or(u32::MAX), seed)
}

/// The replicate with a share `p` of all below it: number `p · (count + 1)` in ascending order,
/// with linear interpolation. Davison & Hinkley, "Bootstrap Methods and their Application" (1997),
/// 5.2.
fn share(replicates: &[f64], p: f64) -> f64 {
    let count = replicates.len() as f64;
    at_place(replicates, (p * (count + 1.0) - 1.0).clamp(0.0, (count - 1.0).max(0.0)))
}

#[cfg(test)]
mod tests;
