//! Finds changes and noise that are consistent with each other.
//!
//! The noise is measured within levels, and levels are found by their noise. A consistent pair is a fixed point of
//! that, and there may be more than one: steps between alternating levels look like noise until they are found. So the
//! search starts from two sides, from noise that is too strong and from noise that is too weak. Of both segmentations,
//! the one with the shorter description of the series is kept (`fit`).

use super::{
    Settings, clean::Clean, evidence::Judge, fit::code_length, noise::Noise, segments::Segments,
};

/// The false-alarm probability used while separating noise from changes.
const SEARCH_CHANCE: f64 = 0.003;

/// The same where the requested probability is above [`SEARCH_CHANCE`].
const LAX_CHANCE: f64 = 0.2;

/// The longest window for the noise during the search. Undetected changes look like noise, the more so the longer the
/// window.
const WINDOW_SHORT: usize = 8;

/// Maximum number of rounds of measuring the noise and finding the changes; two or three are usual.
const ROUNDS_MAX: usize = 6;

/// The changes among candidates, from the better of both segmentations.
///
/// What counts as noise does not depend on the requested probability. Otherwise a step above that probability would
/// count as noise, and mask clearer ones.
pub(super) fn settle(clean: &Clean, candidates: &[usize], settings: &Settings) -> Segments {
    let search = Settings { false_alarm_chance: SEARCH_CHANCE, ..*settings };
    let find = |noise: &Noise| Segments::find(&Judge::new(clean, noise, &search), candidates);
    let most = find(&Noise::independent());
    let is_lax = settings.false_alarm_chance > SEARCH_CHANCE;
    // Most series end here: what the weakest noise explains, any noise explains.
    if most.boundaries().is_empty() && !is_lax {
        return most;
    }
    // The more changes are known, the less of them is taken for noise, and vice versa.
    let down = reading(clean, find, find(&Noise::strong()), Noise::min);
    let up = reading(clean, find, most, Noise::max);
    let length = |(segments, _): &(Segments, Noise)| code_length(clean, segments.boundaries());
    let is_same = up.0.boundaries() == down.0.boundaries();
    let (found, noise) = if is_same || length(&down) <= length(&up) { down } else { up };
    let asked = Judge::new(clean, &noise, settings);
    if !is_lax {
        return found.pruned(&asked);
    }
    let lax = settings.false_alarm_chance.max(LAX_CHANCE);
    let lax = Settings { false_alarm_chance: lax, ..*settings };
    let all = Segments::find(&Judge::new(clean, &noise, &lax), candidates);
    all.pruned(&asked).combined_with(&found, SEARCH_CHANCE)
}

/// Finds changes and measures the noise alternately until both are stable.
fn reading(
    clean: &Clean,
    find: impl Fn(&Noise) -> Segments,
    mut segments: Segments,
    bound: impl Fn(Noise, &Noise) -> Noise,
) -> (Segments, Noise) {
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
    let noise = Noise::measure(clean, segments.boundaries(), usize::MAX);
    (find(&noise), noise)
}

#[cfg(test)]
mod tests {
    use super::{super::scan, *};
    use crate::random::Random;

    /// Series of any kind: autocorrelated noise, spikes, and occasional small steps.
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

    /// The search stops early there. Of 200,000 such series, only one showed a change under another kind of noise.
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
                let (found, _) = reading(&clean, find, find(&start), bound);
                assert_eq!(found.boundaries(), [0; 0], "seed {seed}");
            }
        }
        assert!(early > 500, "{early}");
    }
}
