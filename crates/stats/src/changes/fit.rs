//! How well a segmentation explains a series: the number of nats needed to describe the series with it.
//!
//! A segmentation is a set of changes; the rest is noise, whose values may depend on their predecessors. With more
//! changes the noise gets smaller, but each change has to be described, too. The segmentation with the shortest
//! description is the best. That is the principle of minimum description length (Rissanen 1978), and its use for
//! changes in autoregressive noise is that of Davis, Lee & Rodriguez-Yam, "Structural break estimation for
//! nonstationary time series models", Journal of the American Statistical Association 101 (2006). It has no constant to
//! tune.

use super::clean::{Clean, ranges};

/// Maximum number of predecessors that a value of the noise may depend on.
const ORDER_MAX: usize = 8;

/// Nats for the cleaned series, except for what all segmentations of it share.
///
/// Places are encoded by their number among all choices of as many places, a level to the precision of its points (half
/// the logarithm of their number), and likewise the parameters of the noise.
pub(super) fn code_length(clean: &Clean, boundaries: &[usize]) -> f64 {
    let points = clean.len() as f64;
    let mut residuals = Vec::with_capacity(clean.len());
    let mut levels = 0.0;
    for (start, end) in ranges(boundaries, clean.len()) {
        let mean = clean.mean(start, end);
        let noise = (start..end).map(|place| (clean.values[place] - mean) / clean.sigma(place));
        residuals.extend(noise);
        levels += 0.5 * ((end - start) as f64).ln();
    }
    let parameter = 0.5 * points.ln();
    let noise = innovations(&residuals).enumerate().map(|(order, variance)| {
        0.5 * points * variance.max(f64::MIN_POSITIVE).ln() + (order + 1) as f64 * parameter
    });
    noise.fold(f64::INFINITY, f64::min) + levels + places(clean.len(), boundaries.len())
}

/// Nats that encode the number of boundaries and their places.
fn places(points: usize, boundaries: usize) -> f64 {
    // ln C(n − 1, k), factor by factor, and the number itself.
    let choices = (1..=boundaries).map(|at| ((points - at) as f64 / at as f64).ln()).sum::<f64>();
    choices + (1.0 + boundaries as f64).ln()
}

/// Innovation variance of autoregressions of order 0, 1, 2 and so on: the Levinson–Durbin recursion over the
/// autocovariances.
fn innovations(residuals: &[f64]) -> impl Iterator<Item = f64> {
    let covariance = |lag: usize| {
        let pairs = residuals.iter().zip(residuals.get(lag..).unwrap_or_default());
        pairs.map(|(before, after)| before * after).sum::<f64>() / residuals.len() as f64
    };
    let covariances: [f64; ORDER_MAX + 1] = std::array::from_fn(covariance);
    let mut weights = [0.0; ORDER_MAX];
    let mut variance = covariances[0];
    let first = variance;
    let others = (0..ORDER_MAX).map(move |order| {
        let explained: f64 =
            (0..order).map(|at| weights[at] * covariances[order - at]).sum::<f64>();
        let partial =
            if variance > 0.0 { (covariances[order + 1] - explained) / variance } else { 0.0 };
        let before = weights;
        weights[order] = partial;
        for at in 0..order {
            weights[at] = before[at] - partial * before[order - 1 - at];
        }
        variance *= 1.0 - partial * partial;
        variance
    });
    [first].into_iter().chain(others)
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{leaning, noise},
        *,
    };

    fn clean(series: &[f64]) -> Clean {
        Clean::new(series).expect("values that differ")
    }

    #[test]
    fn places_cost_the_logarithm_of_their_choices() {
        let check = |points, boundaries, choices: f64| {
            let expected = choices.ln() + (1.0 + boundaries as f64).ln();
            assert!((places(points, boundaries) - expected).abs() < 1e-9, "{points}, {boundaries}");
        };
        check(10, 0, 1.0);
        check(10, 1, 9.0);
        check(10, 2, 36.0);
        check(10, 9, 1.0);
    }

    #[test]
    fn what_is_new_in_leaning_values() {
        for rho in [0.0, 0.5, 0.9, -0.5] {
            let found: Vec<f64> = innovations(&leaning(100_000, rho, 1)).collect();
            assert!((found[0] - 1.0).abs() < 0.05, "{rho}: {found:?}");
            let expected = 1.0 - rho * rho;
            assert!(
                found[1..].iter().all(|it| (it / expected - 1.0).abs() < 0.03),
                "{rho}: {found:?}"
            );
        }
        assert!(innovations(&[0.0; 20]).all(|variance| variance == 0.0));
    }

    #[test]
    fn the_true_places_make_the_shortest_text() {
        for seed in 0..20 {
            let step = |at: usize| if (at / 20) % 2 == 1 { 6.0 } else { 0.0 };
            let noise = noise(200, seed).into_iter().enumerate();
            let clean = clean(&noise.map(|(at, value)| value + step(at)).collect::<Vec<_>>());
            let all: Vec<usize> = (1..10).map(|at| at * 20).collect();
            let length = code_length(&clean, &all);
            let others: [&[usize]; 4] =
                [&[], &all[1..], &[20, 40, 60], &[20, 40, 50, 60, 80, 100, 120, 140, 160, 180]];
            for other in others {
                assert!(length < code_length(&clean, other), "seed {seed}: {other:?}");
            }
        }
    }

    /// Cuts at random swings of the noise save less than it takes to encode them.
    #[test]
    fn leaning_values_are_no_steps() {
        for seed in 0..20 {
            let series = leaning(300, 0.7, seed);
            let clean = clean(&series);
            let mut sums = vec![0.0];
            sums.extend(series.iter().scan(0.0, |sum, value| {
                *sum += value;
                Some(*sum)
            }));
            // The best single cut.
            let gain = |at: usize| {
                let (before, after) = (at as f64, (300 - at) as f64);
                (sums[at] / before - (sums[300] - sums[at]) / after).powi(2) * before * after
            };
            let best = (6..295).max_by(|&a, &b| gain(a).total_cmp(&gain(b))).unwrap_or(6);
            assert!(code_length(&clean, &[]) < code_length(&clean, &[best]), "seed {seed}: {best}");
        }
    }
}
