//! What the next value of a series is expected to be, how far off values usually are, and how far off
//! this one is: a level, a spread, and errors in units of the spread.
//!
//! The series may consist of pieces with levels of their own (see [`crate::changes`]); the next value
//! is expected at the level of the last. Nothing here assumes a bell curve: [`crate::tail`] looks up in
//! the errors of the past what an error means.

use crate::{normal, sample::quantile_of_sorted};

/// Up to so many values the errors of the past are worked out with each value left out in turn. With
/// more, one of them has no weight worth mentioning in the level and the spread.
const LEFT_OUT_MAX: usize = 48;

/// Variance of a median ÷ variance of a single value, times their number, for normal values: π/2.
const MEDIAN_VARIANCE: f64 = std::f64::consts::FRAC_PI_2;

/// Variance of the logarithm of a spread, times the number of values less one, for normal values.
const LOG_SPREAD_VARIANCE: f64 = 0.7;

/// What is known of spreads before a series is looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// Logarithm of the spread as a share of the level.
    pub log_share: f64,
    /// How much that differs from series to series, as a variance.
    pub variance: f64,
}

impl Expected {
    /// From spreads of several series, as shares of their levels, with the number of values of each.
    ///
    /// Shares of 0 tell nothing and do not count. `None` for fewer than five that do.
    #[must_use]
    pub fn from_shares(shares: impl IntoIterator<Item = (f64, usize)>) -> Option<Self> {
        let known = shares
            .into_iter()
            .filter(|&(share, values)| share.is_normal() && share > 0.0 && values > 1);
        let known: Vec<(f64, f64)> =
            known.map(|(share, values)| (share.ln(), chance_variance(values))).collect();
        if known.len() < 5 {
            return None;
        }
        let mut logs: Vec<f64> = known.iter().map(|(log, _)| *log).collect();
        logs.sort_unstable_by(f64::total_cmp);
        let quantile = |q| quantile_of_sorted(&logs, q);
        // Quartiles of normal values lie 1.349 standard deviations apart.
        let seen = ((quantile(0.75) - quantile(0.25)) / 1.349).powi(2);
        let by_chance = known.iter().map(|(_, variance)| variance).sum::<f64>() / logs.len() as f64;
        Some(Self { log_share: quantile(0.5), variance: (seen - by_chance).max(0.0) })
    }
}

/// Variance of the logarithm of a spread by chance alone.
fn chance_variance(values: usize) -> f64 {
    LOG_SPREAD_VARIANCE / (values as f64 - 1.0).max(1.0)
}

/// How a spread is corrected.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Correction {
    /// The spread is never below, in the units of the values.
    pub least: f64,
    /// What other series say.
    pub expected: Option<Expected>,
}

/// Where the next value is expected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Median of the last piece.
    pub level: f64,
    /// Spread of single values, comparable with a standard deviation.
    pub spread: f64,
    /// Values of the last piece.
    pub values: usize,
}

impl Prediction {
    /// From the pieces of a series, the newest last; empty pieces do not count. `None` if there is no
    /// value. The values have to be finite.
    #[must_use]
    pub fn from_pieces(pieces: &[&[f64]], correction: &Correction) -> Option<Self> {
        let last = pieces.iter().rev().find(|piece| !piece.is_empty())?;
        let level = median(last);
        let mut distances = Vec::new();
        for piece in pieces {
            add_distances(piece, &mut distances);
        }
        let spread = correct(trimmed_spread(&mut distances), level, distances.len(), correction);
        Some(Self { level, spread, values: last.len() })
    }

    /// Standard deviation of what the next value is off by: the spread, and the level's own doubt.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.spread * widening(self.values)
    }

    /// How far off a value is, in [`scale`](Self::scale)s; 0 if it is where it was expected.
    #[must_use]
    pub fn error(&self, value: f64) -> f64 {
        if value == self.level { 0.0 } else { (value - self.level) / self.scale() }
    }
}

/// The spread of the values around the medians of their pieces, uncorrected.
#[must_use]
pub fn spread(pieces: &[&[f64]]) -> f64 {
    let mut distances = Vec::new();
    for piece in pieces {
        add_distances(piece, &mut distances);
    }
    trimmed_spread(&mut distances)
}

/// How far off each value would have been, had it come last in its piece: the errors of the past.
#[must_use]
pub fn errors(pieces: &[&[f64]], correction: &Correction) -> Vec<f64> {
    let count: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut all = Vec::with_capacity(count);
    let others_of = |index: usize| {
        let mut distances = Vec::with_capacity(count);
        for (_, piece) in pieces.iter().enumerate().filter(|(other, _)| *other != index) {
            add_distances(piece, &mut distances);
        }
        distances
    };
    let whole = (count > LEFT_OUT_MAX).then(|| spread(pieces));
    let mut rest = Vec::new();
    let mut distances = Vec::new();
    for (index, piece) in pieces.iter().enumerate().filter(|(_, piece)| piece.len() > 1) {
        if let Some(whole) = whole {
            let level = median(piece);
            let spread = correct(whole, level, count, correction);
            let prediction = Prediction { level, spread, values: piece.len() };
            all.extend(piece.iter().map(|&value| prediction.error(value)));
            continue;
        }
        let others = others_of(index);
        for (place, &value) in piece.iter().enumerate() {
            rest.clear();
            rest.extend_from_slice(&piece[..place]);
            rest.extend_from_slice(&piece[place + 1..]);
            distances.clear();
            distances.extend_from_slice(&others);
            rest.sort_unstable_by(f64::total_cmp);
            let level = quantile_of_sorted(&rest, 0.5);
            distances.extend(rest.iter().map(|other| (other - level).abs()));
            let spread = correct(trimmed_spread(&mut distances), level, count - 1, correction);
            all.push(Prediction { level, spread, values: rest.len() }.error(value));
        }
    }
    all
}

/// Doubt about the level makes errors larger.
fn widening(values: usize) -> f64 {
    (1.0 + MEDIAN_VARIANCE / values as f64).sqrt()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile_of_sorted(&sorted, 0.5)
}

fn add_distances(piece: &[f64], distances: &mut Vec<f64>) {
    if !piece.is_empty() {
        let level = median(piece);
        distances.extend(piece.iter().map(|value| (value - level).abs()));
    }
}

/// The mean of the distances, the largest tenth left out, as the standard deviation of normal values.
fn trimmed_spread(distances: &mut [f64]) -> f64 {
    // The nearest whole number, but one at least: of few values two are many to leave out.
    let left_out = ((distances.len() + 5) / 10).max(1);
    let kept = distances.len().saturating_sub(left_out);
    if kept == 0 {
        return 0.0;
    }
    distances.select_nth_unstable_by(kept, f64::total_cmp);
    let mean = distances[..kept].iter().sum::<f64>() / kept as f64;
    let share = kept as f64 / distances.len() as f64;
    let end = normal::quantile(f64::midpoint(1.0, share));
    mean * share / (2.0 * (normal::density(0.0) - normal::density(end)))
}

/// Draws the spread of few values towards what other series say, rather up than down, and lifts it to
/// the least.
fn correct(spread: f64, level: f64, values: usize, correction: &Correction) -> f64 {
    let drawn = match correction.expected {
        Some(expected) if spread > 0.0 && level != 0.0 => {
            let chance = chance_variance(values);
            let log_expected = expected.log_share + level.abs().ln();
            let off = spread.ln() - log_expected;
            // What is larger than that of others by more than chance is taken at its word.
            let seen = if off > 0.0 { off * off - chance } else { 0.0 };
            let variance = expected.variance.max(seen);
            let own = variance / (variance + chance);
            let log = own * spread.ln() + (1.0 - own) * log_expected;
            log.exp()
        }
        _ => spread,
    };
    drawn.max(correction.least)
}

/// The least distance of two different values; distances by rounding are none. `None` if there are fewer
/// than three different ones: two may be a value and a spike.
#[must_use]
pub fn smallest_step(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let largest = sorted.first()?.abs().max(sorted.last()?.abs());
    let steps = sorted.windows(2).map(|pair| pair[1] - pair[0]);
    let mut steps = steps.filter(|&step| step > largest * 1e-12);
    let first = steps.next()?;
    steps.reduce(f64::min).map(|least| least.min(first))
}

/// The largest power of ten of which both values are multiples: the step that their digits suggest.
#[must_use]
pub fn decimal_step(first: f64, second: f64) -> f64 {
    let largest = first.abs().max(second.abs());
    if !largest.is_normal() {
        return 0.0;
    }
    let top = largest.log10().floor() as i32;
    let is_multiple = |value: f64, step: f64| {
        let times = value / step;
        (times - times.round()).abs() <= 1e-9 * times.abs().max(1.0)
    };
    (0..=15)
        .map(|digits| 10_f64.powi(top - digits))
        .find(|&step| is_multiple(first, step) && is_multiple(second, step))
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn values(count: usize, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        (0..count).map(|_| 100.0 + 3.0 * normal::quantile(random.unit().max(1e-17))).collect()
    }

    #[test]
    fn spread_is_that_of_normal_values() {
        let many = values(20_000, 1);
        assert!((spread(&[&many]) - 3.0).abs() < 0.05, "{}", spread(&[&many]));
        let mut wild = many.clone();
        wild.iter_mut().step_by(50).for_each(|value| *value += 1000.0);
        assert!((spread(&[&wild]) - 3.0).abs() < 0.2, "{}", spread(&[&wild]));
    }

    #[test]
    fn levels_of_pieces_do_not_add_to_the_spread() {
        let (low, high) = (values(30, 2), values(30, 3));
        let raised: Vec<f64> = high.iter().map(|value| value + 50.0).collect();
        let plain = Correction::default();
        let found = Prediction::from_pieces(&[&low, &raised], &plain).expect("values");
        assert!((found.level - 150.0).abs() < 3.0 && (found.spread - 3.0).abs() < 1.0, "{found:?}");
        assert_eq!(found.values, 30);
        assert_eq!(errors(&[&low, &raised], &plain).len(), 60);
        assert_eq!(Prediction::from_pieces(&[&[]], &plain), None);
    }

    /// The new value's error is one more of the same kind.
    #[test]
    fn errors_of_the_past_are_as_large_as_the_next() {
        let (mut past, mut next) = (0.0, 0.0);
        for seed in 0..2_000 {
            let all = values(12, seed);
            let (new, old) = all.split_last().expect("values");
            let plain = Correction::default();
            let errors = errors(&[old], &plain);
            past += errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64;
            next += Prediction::from_pieces(&[old], &plain).expect("values").error(*new).abs();
        }
        assert!((past / next - 1.0).abs() < 0.06, "{past} {next}");
    }

    #[test]
    fn few_values_lean_on_other_series() {
        let alike = Expected::from_shares((0..20).map(|_| (0.05, 10))).expect("enough");
        let correction = Correction { expected: Some(alike), least: 0.0 };
        let narrow = [100.0, 100.1, 99.9, 100.0, 100.2];
        let found = Prediction::from_pieces(&[&narrow], &correction).expect("values");
        assert!((found.spread - 5.0).abs() < 0.2, "{found:?}");
        let shares = (0..20).map(|i| (0.001 * 1.6_f64.powi(i), 10));
        let correction = Correction { expected: Expected::from_shares(shares), least: 0.0 };
        let found = Prediction::from_pieces(&[&narrow], &correction).expect("values");
        assert!(found.spread < 0.3, "{found:?}");
        assert_eq!(Expected::from_shares([(0.0, 10), (0.1, 10)]), None);
    }

    #[test]
    fn steps_of_values() {
        assert_eq!(smallest_step(&[3.0, 1.0, 1.5, 3.0]), Some(0.5));
        assert_eq!(smallest_step(&[3.0, 1.0, 3.0]), None);
        assert_eq!(smallest_step(&[3.0, 3.0]), None);
        assert_eq!(smallest_step(&[]), None);
        let check = |first, second, expected: f64| {
            let found = decimal_step(first, second);
            assert!((found - expected).abs() <= 1e-9 * expected, "{first} {second}: {found}");
        };
        check(100.0, 110.0, 10.0);
        check(50.0, 51.0, 1.0);
        check(0.25, 0.3, 0.01);
        check(2e6, 3e6, 1e6);
        check(0.0, 0.0, 0.0);
        check(-20.0, 15.0, 1.0);
    }
}
