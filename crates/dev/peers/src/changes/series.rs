//! Made series, whose changes are known.

use wingbeat_stats::random::Random;

use super::noise::{KINDS, Kind, gaussian};

/// A series with the truth about it.
#[derive(Debug, Clone)]
pub(super) struct Made {
    /// The values; NaN where there is none.
    pub(super) values: Vec<f64>,
    /// The first points of the new levels, ascending.
    pub(super) changes: Vec<usize>,
}

/// Level and noise of the plain series.
const LEVEL: f64 = 100.0;
const SIGMA: f64 = 2.0;

/// One kind of noise, with steps up and down by turns at distances of `apart` to 1.5 · `apart`, also
/// from both ends; no steps without a distance.
pub(super) fn plain(
    kind: Kind,
    count: usize,
    apart: Option<usize>,
    step_sigmas: f64,
    random: &mut Random,
) -> Made {
    let mut changes = Vec::new();
    if let Some(apart) = apart {
        let mut next = apart + random.below(apart / 2 + 1);
        while next + apart <= count {
            changes.push(next);
            next += apart + random.below(apart / 2 + 1);
        }
    }
    let noise = kind.values(count, random);
    let is_up_first = random.coin();
    let level = |place: usize| {
        let before = changes.iter().filter(|&&change| change <= place).count();
        let up = if before % 2 == 1 { step_sigmas } else { 0.0 };
        if is_up_first { up } else { -up }
    };
    let values = noise.iter().enumerate();
    let values = values.map(|(place, noise)| LEVEL + SIGMA * kind.written(noise + level(place)));
    Made { values: values.collect(), changes }
}

/// Two levels that alternate every so many points, in Gaussian noise. Stays of up to
/// [`OUTAGE_MAX`] points are no levels, so there is nothing to be found in them.
pub(super) fn turns(count: usize, every: usize, step_sigmas: f64, random: &mut Random) -> Made {
    let is_up_first = random.coin();
    let values = Kind::Gaussian.values(count, random).into_iter().enumerate();
    let level = |place: usize| {
        if (place / every).is_multiple_of(2) == is_up_first { step_sigmas } else { 0.0 }
    };
    let values = values.map(|(place, noise)| LEVEL + SIGMA * (noise + level(place))).collect();
    // A level at the end may go on outside the series, so it may be shorter.
    let steps = (every..=count - END_MIN).step_by(every);
    Made { values, changes: if every > OUTAGE_MAX { steps.collect() } else { Vec::new() } }
}

/// Points that the last level lasts, at least.
pub(super) const END_MIN: usize = 4;

/// Points that an outage lasts, at most.
pub(super) const OUTAGE_MAX: usize = 8;

/// Noise with outages of two to eight points and 5 to 20 standard deviations, every 40 to 80 points.
pub(super) fn outages(kind: Kind, count: usize, random: &mut Random) -> Made {
    let mut noise = kind.values(count, random);
    let mut place = 40;
    while place + 40 <= count {
        let size = 5.0 + 15.0 * random.unit();
        let by = if random.coin() { size } else { -size };
        let points = 2 + random.below(OUTAGE_MAX - 1);
        noise[place..place + points].iter_mut().for_each(|value| *value += by);
        place += 40 + random.below(40);
    }
    unchanged(kind, noise)
}

/// Noise whose level drifts by so many standard deviations from the first to the last point.
pub(super) fn drift(kind: Kind, count: usize, sigmas: f64, random: &mut Random) -> Made {
    let mut noise = kind.values(count, random);
    for (place, value) in noise.iter_mut().enumerate() {
        *value += sigmas * place as f64 / count as f64;
    }
    unchanged(kind, noise)
}

fn unchanged(kind: Kind, noise: Vec<f64>) -> Made {
    let values = noise.into_iter().map(|value| LEVEL + SIGMA * kind.written(value)).collect();
    Made { values, changes: Vec::new() }
}

/// Steps below this many standard deviations nobody would mark: they are there, and count as noise.
const MARKED_SIGMAS: f64 = 1.0;

/// A series as one finds it in the history of a project: any length from 50 to 2,000 points, any
/// unit, some lasting steps of 0.3 to 20 standard deviations, and besides them, each in some series
/// only: drift, slow wobble, spikes, outages of two to five points, other noise from some point on, two hosts, gaps.
pub(super) fn project(random: &mut Random) -> Made {
    let between = |low: f64, high: f64, random: &mut Random| low * (high / low).powf(random.unit());
    let count = between(50.0, 2000.0, random).round() as usize;
    let level = between(1e-3, 1e9, random);
    let sigma_share = between(0.001, 0.08, random);
    let kind = match random.below(10) {
        0..=1 => Kind::Autoregressive(0.2 + 0.5 * random.unit()),
        2 => Kind::Sticky(between(3.0, 12.0, random)),
        _ => KINDS[random.below(KINDS.len() - 1)],
    };
    let mut changes = Vec::new();
    // Levels as logarithms in units of the noise: noise grows with the level.
    let mut steps = vec![0.0; count];
    let apart = between(40.0, 600.0, random);
    let mut place = 0;
    loop {
        // Exponential distances, but no level shorter than 8 points.
        place += 8 + (-apart * (1.0 - random.unit()).ln()) as usize;
        if place + 8 > count {
            break;
        }
        let size = between(0.3, 20.0, random);
        let up = if random.coin() { size } else { -size };
        steps[place] = up;
        if size >= MARKED_SIGMAS {
            changes.push(place);
        }
    }
    let mut noise = kind.values(count, random);
    if random.unit() < 0.3 {
        let from = random.below(count);
        let factor = between(0.3, 3.0, random);
        noise.iter_mut().skip(from).for_each(|value| *value *= factor);
    }
    let wobble = wobble(count, random);
    let drift = if random.unit() < 0.3 { 4.0 * (random.unit() - 0.5) } else { 0.0 };
    let mut exponent = 0.0;
    let mut values: Vec<f64> = (0..count)
        .map(|place| {
            exponent += steps[place];
            let slow = wobble[place] + drift * place as f64 / count as f64;
            let step = (sigma_share * exponent).clamp(-5.0, 5.0).exp();
            level * step * (1.0 + sigma_share * kind.written(noise[place] + slow)).max(0.01)
        })
        .collect();
    disturb(&mut values, sigma_share, random);
    Made { values, changes }
}

/// A slow process that returns to 0 (Ornstein–Uhlenbeck), in half of the series.
fn wobble(count: usize, random: &mut Random) -> Vec<f64> {
    if random.coin() {
        return vec![0.0; count];
    }
    let size = 0.2 + 0.6 * random.unit();
    let keeps: f64 = (-1.0 / (20.0 + 130.0 * random.unit())).exp();
    let mut value = size * gaussian(random);
    let mut next = || {
        value = keeps * value + size * (1.0 - keeps * keeps).sqrt() * gaussian(random);
        value
    };
    (0..count).map(|_| next()).collect()
}

/// Spikes, outages and gaps.
fn disturb(values: &mut [f64], sigma_share: f64, random: &mut Random) {
    let spikes = if random.coin() { 0.03 * random.unit() } else { 0.0 };
    let outages = if random.unit() < 0.3 { 0.004 } else { 0.0 };
    let gaps = if random.unit() < 0.2 { 0.05 } else { 0.0 };
    for place in 0..values.len() {
        let size = 1.0 + sigma_share * (5.0 + 20.0 * random.unit());
        let factor = if random.unit() < 0.8 { size } else { 1.0 / size };
        if random.unit() < spikes {
            values[place] *= factor;
        }
        if random.unit() < outages {
            let points = 2 + random.below(4);
            values.iter_mut().skip(place).take(points).for_each(|value| *value *= factor);
        }
        if random.unit() < gaps {
            values[place] = f64::NAN;
        }
    }
}
