//! Noise of many kinds, as results of benchmarks have it. Seeded: the same seed makes the same values.

use wingbeat_stats::{normal, random::Random};

/// A kind of noise. All have mean 0 or nearly so, and standard deviation 1, spikes left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// Independent normal values.
    Gaussian,
    /// Independent, with a long tail upwards: exp of a normal value of standard deviation 0.6.
    LogNormal,
    /// Each value leans on the one before, with this correlation.
    Autoregressive(f64),
    /// Normal values, of which this share is thrown off by 5 to 20 standard deviations, mostly upwards.
    Spikes(f64),
    /// Two hosts, chosen anew for each point, whose levels lie four times their own noise apart.
    Bimodal,
    /// The same, but a host is kept for this many points in the mean.
    Sticky(f64),
    /// Normal values, rounded to whole standard deviations.
    Quantised,
    /// Student's t with three degrees of freedom.
    HeavyTails,
}

/// The kinds whose false alarms and power are reported.
pub(super) const KINDS: [Kind; 8] = [
    Kind::Gaussian,
    Kind::LogNormal,
    Kind::Autoregressive(0.5),
    Kind::Spikes(0.05),
    Kind::Bimodal,
    Kind::Quantised,
    Kind::HeavyTails,
    Kind::Sticky(8.0),
];

/// Distance of the two hosts' levels ÷ the noise of each.
const HOSTS_APART: f64 = 4.0;

impl Kind {
    pub(super) fn name(self) -> String {
        match self {
            Self::Gaussian => "Gaussian".to_owned(),
            Self::LogNormal => "log-normal".to_owned(),
            Self::Autoregressive(rho) => format!("AR(1), ρ = {rho}"),
            Self::Spikes(share) => format!("{:.0} % spikes", share * 100.0),
            Self::Bimodal => "bimodal".to_owned(),
            Self::Sticky(points) => format!("bimodal, runs of {points}"),
            Self::Quantised => "quantised to 1 σ".to_owned(),
            Self::HeavyTails => "Student's t, 3 degrees".to_owned(),
        }
    }

    pub(super) fn values(self, count: usize, random: &mut Random) -> Vec<f64> {
        match self {
            Self::Gaussian | Self::Quantised => repeat(count, || gaussian(random)),
            Self::LogNormal => {
                const S: f64 = 0.6;
                let mean = (S * S / 2.0_f64).exp();
                let deviation = mean * ((S * S).exp() - 1.0).sqrt();
                repeat(count, || ((S * gaussian(random)).exp() - mean) / deviation)
            }
            Self::Autoregressive(rho) => {
                let mut last = gaussian(random);
                let fresh = (1.0 - rho * rho).sqrt();
                repeat(count, || {
                    let value = last;
                    last = rho * last + fresh * gaussian(random);
                    value
                })
            }
            Self::Spikes(share) => repeat(count, || {
                let value = gaussian(random);
                if random.unit() >= share {
                    return value;
                }
                let size = 5.0 + 15.0 * random.unit();
                if random.unit() < 0.8 { value + size } else { value - size }
            }),
            Self::Bimodal => hosts(count, 1.0, random),
            Self::Sticky(points) => hosts(count, points, random),
            Self::HeavyTails => repeat(count, || {
                let chi_square: f64 = (0..3).map(|_| gaussian(random).powi(2)).sum();
                // The variance of Student's t with three degrees is 3.
                gaussian(random) / (chi_square / 3.0).sqrt() / 3.0_f64.sqrt()
            }),
        }
    }

    /// What becomes of a value, in standard deviations, when it is written down.
    pub(super) fn written(self, value: f64) -> f64 {
        if self == Self::Quantised { value.round() } else { value }
    }
}

/// A normal value.
pub(super) fn gaussian(random: &mut Random) -> f64 {
    // Never 0, whose quantile is infinite.
    normal::quantile(1.0 - random.unit() - f64::EPSILON / 4.0)
}

fn repeat(count: usize, value: impl FnMut() -> f64) -> Vec<f64> {
    std::iter::repeat_with(value).take(count).collect()
}

fn hosts(count: usize, run_points: f64, random: &mut Random) -> Vec<f64> {
    // Two levels at ± half the distance have the variance distance²/4.
    let noise = 1.0 / (1.0 + HOSTS_APART * HOSTS_APART / 4.0).sqrt();
    let mut side = random.coin();
    repeat(count, || {
        if random.unit() < 1.0 / run_points {
            side = random.coin();
        }
        let level = if side { HOSTS_APART / 2.0 } else { -HOSTS_APART / 2.0 };
        noise * (level + gaussian(random))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_mean_0_and_deviation_1() {
        let mut random = Random::new(1);
        // Spikes are left out of what is promised; heavy tails settle slowly.
        for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Spikes(0.05)) {
            let values = kind.values(200_000, &mut random);
            let count = values.len() as f64;
            let mean = values.iter().sum::<f64>() / count;
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let deviation = (squares / count).sqrt();
            assert!(mean.abs() < 0.05, "{kind:?}: mean {mean}");
            assert!((deviation - 1.0).abs() < 0.1, "{kind:?}: deviation {deviation}");
        }
    }
}
