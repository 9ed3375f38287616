//! Intervals by resampling: what would the figure have been, had the values come out otherwise?
//!
//! A resample draws n of the n values, with replacement. How a figure varies from resample to
//! resample tells how it varies from sample to sample (Efron, "Bootstrap methods: another look at the
//! jackknife", Annals of Statistics 7, 1979). Results depend on the sample, the settings and nothing
//! else; the same seed gives the same bits.
//!
//! For a verdict about a mean of few units take [`Bootstrap::mean`]. [`Bootstrap::bca`] and
//! [`Bootstrap::percentile`] take any statistic, and promise too much below some 20 values.

mod studentized;
mod visible;

use crate::{
    interval::{Interval, tail},
    normal,
    random::Places,
    sample::{Sample, at_place, sum_of},
};

/// How to resample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bootstrap {
    pub resamples: usize,
    /// The share of intervals that are to hold the truth, such as 0.95.
    pub confidence: f64,
    /// Where the random numbers begin.
    pub seed: u64,
}

impl Default for Bootstrap {
    /// 10,000 resamples for 95 %.
    fn default() -> Self {
        Self { resamples: 10_000, confidence: 0.95, seed: 0x77_69_6e_67 }
    }
}

/// How many values the fast way of writing a resample writes at once.
const BURST: usize = 4;

impl Bootstrap {
    /// The percentile interval of a statistic: what is left of its replicates when the tails are cut
    /// off. Efron & Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13.
    ///
    /// The statistic gets each resample **in ascending order**, so that medians and quantiles need
    /// not sort ([`crate::sample::quantile_of_sorted`]).
    ///
    /// `None` for fewer than two values, unless `0 < confidence < 1`, with fewer than
    /// `2 / (1 − confidence) − 1` resamples, which reach no value in the tails, and if the statistic
    /// once is not finite. Time and memory: `resamples · n`, and `resamples`.
    pub fn percentile(
        &self,
        sample: &Sample,
        statistic: impl Fn(&[f64]) -> f64,
    ) -> Option<Interval> {
        let tail = self.tail(sample)?;
        let replicates = self.replicates(sample, statistic)?;
        Interval::between(share(&replicates, tail), share(&replicates, 1.0 - tail))
    }

    /// The bias-corrected and accelerated interval of a statistic (BCa): the percentile interval,
    /// cut where the median of the replicates (z₀) and the skewness of the jackknife (a) tell.
    ///
    /// `α₁ = Φ(z₀ + (z₀ + z) / (1 − a (z₀ + z)))`, `a = Σ(θ̄ − θᵢ)³ / 6 (Σ(θ̄ − θᵢ)²)^1.5`; replicates
    /// equal to the statistic count half for z₀. Efron, "Better bootstrap confidence intervals", JASA
    /// 82 (1987).
    ///
    /// The statistic gets ascending values, and `None` is returned, as with [`Self::percentile`].
    /// Time: `(resamples + n) · n`.
    pub fn bca(&self, sample: &Sample, statistic: impl Fn(&[f64]) -> f64) -> Option<Interval> {
        let tail = self.tail(sample)?;
        let acceleration = acceleration(sample.values(), &statistic)?;
        let whole = statistic(sample.values());
        let replicates = self.replicates(sample, statistic)?;
        let below = replicates.partition_point(|&replicate| replicate < whole);
        let up_to = replicates.partition_point(|&replicate| replicate <= whole);
        let count = replicates.len() as f64;
        // Kept off 0 and 1, where no shift could be told.
        let middle = ((below + up_to) as f64 / 2.0).clamp(0.5, count - 0.5) / count;
        let bias = normal::quantile(middle);
        let corrected = |z: f64| {
            let shifted = bias + z;
            let scale = 1.0 - acceleration * shifted;
            // Beyond the pole the formula runs back; the pole itself means the last replicate.
            let far = if scale > 0.0 { shifted / scale } else { f64::INFINITY.copysign(shifted) };
            normal::cdf(bias + far)
        };
        let z = normal::quantile(tail);
        Interval::between(share(&replicates, corrected(z)), share(&replicates, corrected(-z)))
    }

    /// The share in each tail, if that many resamples reach it.
    fn tail(&self, sample: &Sample) -> Option<f64> {
        let tail = tail(self.confidence)?;
        let in_tail = (self.resamples as f64 + 1.0) * tail;
        // A hair below 1 is rounding.
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
            // Always a few at once, which needs no branch on the count; too many are overwritten.
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

/// Random places in a sample of `n` values; beyond 2³² values only the first would be drawn, of which
/// nobody has the memory.
fn places(n: usize, seed: u64) -> Places {
    Places::new(u32::try_from(n).unwrap_or(u32::MAX), seed)
}

/// The replicate that a share `p` of all lies below: number `p · (count + 1)` in ascending order, with
/// linear interpolation. Davison & Hinkley, "Bootstrap Methods and their Application" (1997), 5.2.
fn share(replicates: &[f64], p: f64) -> f64 {
    let count = replicates.len() as f64;
    at_place(replicates, (p * (count + 1.0) - 1.0).clamp(0.0, (count - 1.0).max(0.0)))
}

/// A sixth of the skewness of the jackknife, the statistic without each value in turn. 0 if they are
/// all the same. `None` if one is not finite.
fn acceleration(sorted: &[f64], statistic: impl Fn(&[f64]) -> f64) -> Option<f64> {
    let Some((_, rest)) = sorted.split_first() else {
        return Some(0.0);
    };
    let mut rest = rest.to_vec();
    let mut jackknife = Vec::with_capacity(sorted.len());
    for (index, &value) in sorted.iter().enumerate() {
        jackknife.push(statistic(&rest));
        // Now `rest` lacks the value at `index`; put it in the place of its successor.
        if let Some(slot) = rest.get_mut(index) {
            *slot = value;
        }
    }
    let mean = sum_of(&jackknife) / jackknife.len() as f64;
    // Relative to the largest, so that cubes neither vanish nor overflow.
    let largest = jackknife.iter().map(|theta| (mean - theta).abs()).fold(0.0, f64::max);
    if !mean.is_finite() || !largest.is_finite() {
        return None;
    }
    if largest <= 1e-12 * mean.abs() {
        return Some(0.0);
    }
    let (mut squares, mut cubes) = (0.0, 0.0);
    for theta in &jackknife {
        let distance = (mean - theta) / largest;
        squares += distance.powi(2);
        cubes += distance.powi(3);
    }
    Some(cubes / (6.0 * squares.powf(1.5)))
}

#[cfg(test)]
mod tests;
