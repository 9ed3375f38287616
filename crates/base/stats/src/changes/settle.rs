//! Finds changes and noise that are consistent with each other.
//!
//! The noise is measured within levels, and levels are found by their noise. A consistent pair is a
//! fixed point of that, and there may be more than one: steps between alternating levels look like
//! noise until they are found. So the search starts from two sides, from noise that is too strong
//! and from noise that is too weak. Of both readings, the one with the shorter description of the
//! series is kept (`fit`).

use super::{
    Settings, clean::Clean, evidence::Judge, fit::code_length, noise::Noise, segments::Segments,
};

/// The longest window for the noise while changes are still looked for, which look like noise until
/// then, the more so the longer the window.
const WINDOW_SHORT: usize = 8;

/// Maximum number of rounds of measuring the noise and finding the changes; two or three are usual.
const ROUNDS_MAX: usize = 6;

/// The changes among candidates, by the better of both readings.
pub(super) fn settle(clean: &Clean, candidates: &[usize], settings: &Settings) -> Segments {
    let find = |noise: &Noise| Segments::find(&Judge::new(clean, noise, settings), candidates);
    let most = find(&Noise::independent());
    // Most series end here: what the weakest noise explains, all noise does.
    if most.boundaries().is_empty() {
        return most;
    }
    // The more changes are known, the less of them is taken for noise, and the other way round.
    let down = reading(clean, find, find(&Noise::strong()), Noise::min);
    let up = reading(clean, find, most, Noise::max);
    let length = |segments: &Segments| code_length(clean, segments.boundaries());
    let is_same = up.boundaries() == down.boundaries();
    if is_same || length(&down) <= length(&up) { down } else { up }
}

/// Finds changes and measures the noise alternately until both are stable.
fn reading(
    clean: &Clean,
    find: impl Fn(&Noise) -> Segments,
    mut segments: Segments,
    bound: impl Fn(Noise, &Noise) -> Noise,
) -> Segments {
    let mut noise = Noise::measure(clean, segments.boundaries(), WINDOW_SHORT);
    for _ in 0..ROUNDS_MAX {
        let found = find(&noise);
        let is_stable = found.boundaries() == segments.boundaries();
        segments = found;
        if is_stable {
            break;
        }
        noise = bound(Noise::measure(clean, segments.boundaries(), WINDOW_SHORT), &noise);
    }
    find(&Noise::measure(clean, segments.boundaries(), usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::{super::scan, *};
    use crate::random::Random;

    /// Series of any kind: noise that leans on what was before, spikes, and small steps now and then.
    fn series(seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        let points = 10 + random.below(190);
        let (rho, spikes) = (random.unit() * 0.9, random.unit() * 0.1);
        let (period, step) = (5 + random.below(60), random.unit() * 3.0);
        let mut last = 0.0;
        let value = |at: usize| {
            last = rho * last + (1.0 - rho * rho).sqrt() * random.normal();
            let spike = if random.unit() < spikes { 8.0 } else { 1.0 };
            100.0 + last * spike + if (at / period) % 2 == 1 { step } else { 0.0 }
        };
        (0..points).map(value).collect()
    }

    /// The search ends early there. Of 200,000 such series, one showed a change in noise of another kind alone.
    #[test]
    fn what_the_weakest_noise_explains_all_noise_does() {
        let settings = Settings::default();
        let mut early = 0;
        for seed in 0..2_000 {
            let clean = Clean::new(&series(seed)).expect("values that differ");
            let candidates = scan::candidates(&clean);
            let find =
                |noise: &Noise| Segments::find(&Judge::new(&clean, noise, &settings), &candidates);
            if !find(&Noise::independent()).boundaries().is_empty() {
                continue;
            }
            early += 1;
            for (start, bound) in [
                (Noise::strong(), Noise::min as fn(Noise, &Noise) -> Noise),
                (Noise::independent(), Noise::max),
            ] {
                let found = reading(&clean, find, find(&start), bound);
                assert_eq!(found.boundaries(), [0; 0], "seed {seed}");
            }
        }
        assert!(early > 500, "{early}");
    }
}
