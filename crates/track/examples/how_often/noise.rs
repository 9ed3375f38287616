//! Known noise.

use wingbeat_stats::{normal, random::Random};

/// Standard deviation of all noise, as a share of the level.
pub(crate) const SIGMA: f64 = 0.03;

/// How far the second of two levels is above the first, in standard deviations.
const SECOND_LEVEL: f64 = 8.0;

/// A kind of noise with standard deviation 1; spikes, second levels and drift come on top.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Gaussian,
    Uniform,
    /// The standard deviation of the logarithm, which sets the skewness.
    LogNormal(f64),
    HeavyTails,
    /// Share of values that deviate by 5 to 20 σ, four out of five of them upwards.
    Spikes(f64),
    /// The same with 5 to 100 σ: the sizes vary widely.
    LargeSpikes(f64),
    /// Share of values at the second level.
    TwoLevels(f64),
    /// The level rises by this much in total over the history.
    Drift(f64),
    Autoregressive,
    Bimodal,
    Quantised,
    Constant,
    /// Alternates between the [`KINDS`] before it.
    Mixed,
}

pub(crate) const KINDS: [(Kind, &str); 18] = [
    (Kind::Gaussian, "Gaussian"),
    (Kind::Uniform, "uniform"),
    (Kind::LogNormal(0.1), "log-normal 0.1"),
    (Kind::LogNormal(0.3), "log-normal 0.3"),
    (Kind::LogNormal(0.6), "log-normal 0.6"),
    (Kind::HeavyTails, "Student's t, 3 degrees"),
    (Kind::Spikes(0.02), "2 % spikes of 5 to 20 σ"),
    (Kind::LargeSpikes(0.05), "5 % spikes of 5 to 100 σ"),
    (Kind::Spikes(0.05), "5 % spikes of 5 to 20 σ"),
    (Kind::Spikes(0.1), "10 % spikes"),
    (Kind::Spikes(0.2), "20 % spikes"),
    (Kind::TwoLevels(0.1), "1 in 10 is 8 σ higher"),
    (Kind::Drift(2.0), "drift of 2 σ"),
    (Kind::Autoregressive, "AR(1), ρ = 0.5"),
    (Kind::Bimodal, "bimodal"),
    (Kind::Quantised, "quantised to 1 σ"),
    (Kind::Constant, "constant"),
    (Kind::Mixed, "all of them, alternating"),
];

fn gaussian(random: &mut Random) -> f64 {
    normal::quantile(1.0 - random.unit() - f64::EPSILON / 4.0)
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    pub(crate) fn of(self, benchmark: usize) -> Self {
        if self == Self::Mixed { KINDS[benchmark % (KINDS.len() - 1)].0 } else { self }
    }

    pub(crate) fn has_spikes(self) -> bool {
        matches!(self, Self::Spikes(_) | Self::LargeSpikes(_) | Self::TwoLevels(_))
    }

    /// This many values in standard deviations, of which `history` are the history. From `calm` on none is a spike or
    /// at the second level.
    pub(crate) fn noise(
        self,
        count: usize,
        history: usize,
        calm: usize,
        random: &mut Random,
    ) -> Vec<f64> {
        let mut last = gaussian(random);
        let mut one = |place: usize| match self {
            Self::Gaussian | Self::Quantised => gaussian(random),
            Self::Uniform => (random.unit() - 0.5) * 12.0_f64.sqrt(),
            Self::LogNormal(s) => {
                let mean = (s * s / 2.0).exp();
                let deviation = mean * ((s * s).exp() - 1.0).sqrt();
                ((s * gaussian(random)).exp() - mean) / deviation
            }
            Self::HeavyTails => {
                let squares: f64 = (0..3).map(|_| gaussian(random).powi(2)).sum();
                gaussian(random) / (squares / 3.0).sqrt() / 3.0_f64.sqrt()
            }
            Self::Spikes(share) | Self::LargeSpikes(share) => {
                let value = gaussian(random);
                let range = if matches!(self, Self::LargeSpikes(_)) { 95.0 } else { 15.0 };
                let size = 5.0 + range * random.unit();
                match random.unit() {
                    _ if place >= calm => value,
                    chance if chance < 0.8 * share => value + size,
                    chance if chance < share => value - size,
                    _ => value,
                }
            }
            Self::TwoLevels(share) => {
                let value = gaussian(random);
                if random.unit() < share && place < calm { value + SECOND_LEVEL } else { value }
            }
            Self::Drift(total) => gaussian(random) + total * place as f64 / history as f64,
            Self::Autoregressive => {
                let value = last;
                last = 0.5 * last + 0.75_f64.sqrt() * gaussian(random);
                value
            }
            Self::Bimodal => {
                let level = if random.coin() { 2.0 } else { -2.0 };
                (level + gaussian(random)) / 5.0_f64.sqrt()
            }
            Self::Constant | Self::Mixed => 0.0,
        };
        (0..count).map(&mut one).collect()
    }

    /// A value as reported.
    pub(crate) fn value(self, sigmas: f64) -> f64 {
        match self {
            Self::Quantised => 100.0 * (1.0 + SIGMA * sigmas.round()),
            _ => 100.0 * (1.0 + SIGMA * sigmas),
        }
    }
}
