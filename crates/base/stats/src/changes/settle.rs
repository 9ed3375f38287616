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
    // The more changes are known, the less of them is taken for noise, and the other way round.
    let down = reading(clean, find, &Noise::strong(), Noise::min);
    let up = reading(clean, find, &Noise::independent(), Noise::max);
    let length = |segments: &Segments| code_length(clean, segments.boundaries());
    let is_same = up.boundaries() == down.boundaries();
    if is_same || length(&down) <= length(&up) { down } else { up }
}

/// Finds changes and measures the noise alternately until both are stable.
fn reading(
    clean: &Clean,
    find: impl Fn(&Noise) -> Segments,
    start: &Noise,
    bound: impl Fn(Noise, &Noise) -> Noise,
) -> Segments {
    let mut segments = find(start);
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
