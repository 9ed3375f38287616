//! Slow drift: a level that moves by small amounts and far in total, which tests of single values or steps do not
//! detect.
//!
//! The newest values are cut into blocks, whose medians are robust to spikes. It is drift if most blocks move to the
//! same side, no block makes most of the change, and the change is far beyond the scatter within a block. Noise moves
//! both ways, and a step is made by one block.

use crate::sample;

/// Values per block.
const BLOCK: usize = 10;

/// Range of the number of blocks: at most those of 120 values.
const BLOCKS_MIN: usize = 6;
const BLOCKS_MAX: usize = 12;

/// Minimum number of values of a drift.
pub const POINTS_MIN: usize = BLOCK * BLOCKS_MIN;

/// Maximum number of values considered.
pub const POINTS_MAX: usize = BLOCK * BLOCKS_MAX;

/// Minimum change, as a share of the first block.
const CHANGE_MIN: f64 = 0.05;

/// Minimum change, in mean distances of values from the median of their block.
const SCATTERS_MIN: f64 = 5.0;

/// Maximum share of the change made by one block.
const BLOCK_SHARE_MAX: f64 = 0.5;

/// Maximum total variation over all blocks, as a multiple of the change.
const WAY_MAX: f64 = 1.5;

/// A continuing drift is reported again after growing by this factor.
const MARK_FACTOR: f64 = 1.5;

/// How far the newest values drifted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Median of the first block.
    pub before: f64,
    /// Median of the last block, which ends with the newest value.
    pub after: f64,
    /// Values from the middle of the first block to that of the last.
    pub points: usize,
}

impl Drift {
    /// The change as a share of `before`, which is not 0.
    pub fn relative(&self) -> f64 {
        (self.after - self.before) / self.before.abs()
    }
}

/// Finds the drift of the newest values, which must be finite.
///
/// ```
/// use wingbeat_stats::drift::find;
///
/// let rising: Vec<f64> = (0..120).map(|at| 100.0 * 1.005_f64.powi(at)).collect();
/// assert_eq!((find(&rising).unwrap().relative() * 100.0).round(), 73.0);
/// assert_eq!(find(&[100.0; 120]), None);
/// ```
pub fn find(values: &[f64]) -> Option<Drift> {
    let blocks: Vec<&[f64]> = values.rchunks_exact(BLOCK).take(BLOCKS_MAX).collect();
    if blocks.len() < BLOCKS_MIN {
        return None;
    }
    // The newest block comes first.
    let levels: Vec<f64> = blocks.iter().map(|block| sample::median(block.to_vec())).collect();
    let (&after, &before) = (levels.first()?, levels.last()?);
    let distance = |(block, level): (&&[f64], &f64)| {
        let sum: f64 = block.iter().map(|value| (value - level).abs()).sum();
        sum / block.len() as f64
    };
    let scatter = sample::median(blocks.iter().zip(&levels).map(distance).collect());
    let change = (after - before).abs();
    let moves = levels.windows(2).map(|pair| (pair[0] - pair[1]).abs());
    let (way, farthest) = moves.fold((0.0, 0.0_f64), |(way, far), it| (way + it, far.max(it)));
    let is_drift = change >= CHANGE_MIN * before.abs()
        && before != 0.0
        && change >= SCATTERS_MIN * scatter
        && farthest <= BLOCK_SHARE_MAX * change
        && way <= WAY_MAX * change;
    is_drift.then_some(Drift { before, after, points: (blocks.len() - 1) * BLOCK })
}

/// Like [`find`], but only new drift: no earlier value showed it, or the level has since passed the next mark of a
/// scale with factor 1.5.
pub fn find_new(values: &[f64]) -> Option<Drift> {
    let drift = find(values)?;
    let side = (drift.after - drift.before).signum();
    let mark = |drift: &Drift| side * drift.after.abs().log(MARK_FACTOR).floor();
    let is_known = |end: usize| {
        let known = find(&values[..end]);
        known.is_some_and(|it| (it.after - it.before) * side > 0.0 && mark(&it) >= mark(&drift))
    };
    let oldest = values.len().saturating_sub(POINTS_MAX).max(POINTS_MIN);
    (!(oldest..values.len()).rev().any(is_known)).then_some(drift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Autocorrelated noise of the first order, with one in twenty values a spike.
    fn noise(points: usize, rho: f64, spikes: f64, random: &mut Random) -> Vec<f64> {
        let mut last = random.normal();
        let mut next = || {
            last = rho * last + (1.0 - rho * rho).sqrt() * random.normal();
            if random.unit() < spikes { last + 5.0 + 15.0 * random.unit() } else { last }
        };
        (0..points).map(|_| next()).collect()
    }

    #[test]
    fn slow_rises_and_falls_are_found() {
        let check = |per_report: f64, points: usize, expected: Option<f64>| {
            for seed in 0..20 {
                let noise = noise(points, 0.0, 0.05, &mut Random::new(seed)).into_iter();
                let level = |at: usize| 100.0 * (1.0 + per_report).powi(at as i32);
                let values: Vec<f64> =
                    noise.enumerate().map(|(at, noise)| level(at) * (1.0 + 0.01 * noise)).collect();
                let found = find(&values).map(|drift| drift.relative());
                let is_same = match (found, expected) {
                    (Some(found), Some(expected)) => {
                        (found - expected).abs() < 0.05 * expected.abs() + 0.01
                    }
                    (found, expected) => found.is_none() && expected.is_none(),
                };
                assert!(is_same, "{per_report} {points} {seed}: {found:?}");
            }
        };
        check(0.005, 120, Some(0.731));
        check(0.01, 200, Some(1.988));
        check(0.003, 120, Some(0.390));
        check(-0.003, 120, Some(-0.281));
        check(0.003, 60, Some(0.161));
        check(0.003, 59, None);
        check(0.0001, 400, None);
    }

    #[test]
    fn steps_are_no_drift() {
        for seed in 0..200 {
            let step = |at: usize| if at < 70 { 0.0 } else { 30.0 };
            let noise = noise(120, 0.3, 0.05, &mut Random::new(seed)).into_iter().enumerate();
            let values: Vec<f64> = noise.map(|(at, noise)| 100.0 + step(at) + noise).collect();
            assert_eq!(find(&values), None, "{seed}");
        }
    }

    /// Independent of the length: at most 3 in 1,000 of 200 reports.
    #[test]
    fn noise_is_no_drift() {
        for (rho, spikes) in [(0.0, 0.0), (0.0, 0.05), (0.5, 0.05), (0.7, 0.05)] {
            let drifts = |seed: &u64| {
                let noise = noise(200, rho, spikes, &mut Random::new(1_000 + seed)).into_iter();
                let values: Vec<f64> = noise.map(|noise| 100.0 + 3.0 * noise).collect();
                (POINTS_MIN..=values.len()).any(|end| find(&values[..end]).is_some())
            };
            let found = (0..1_000).filter(drifts).count();
            assert!(found <= 3, "{rho} {spikes}: {found}");
        }
    }

    /// Also if nobody looked at the earlier values.
    #[test]
    fn drift_is_news_now_and_then() {
        for rate in [1.004_f64, 0.996] {
            let noise = noise(400, 0.3, 0.05, &mut Random::new(1)).into_iter().enumerate();
            let level = |at: usize| 100.0 * rate.powi(at as i32);
            let values: Vec<f64> =
                noise.map(|(at, noise)| level(at) * (1.0 + 0.02 * noise)).collect();
            let is_news = |end: &usize| find_new(&values[..*end]).is_some();
            let news: Vec<usize> = (1..=values.len()).filter(is_news).collect();
            assert!((3..=5).contains(&news.len()), "{rate}: {news:?}");
            assert!(news.iter().any(|end| (150..270).contains(end)), "{rate}: {news:?}");
        }
    }

    #[test]
    fn odd_values_do_no_harm() {
        for values in [vec![], vec![0.0; 200], [f64::MAX, f64::MIN].repeat(100)] {
            assert_eq!(find(&values), None);
        }
        let shrinking: Vec<f64> = (0..200).map(|at| 1e-300 * f64::from(200 - at)).collect();
        assert!(find(&shrinking).is_some_and(|drift| drift.relative() < -0.5));
    }
}
