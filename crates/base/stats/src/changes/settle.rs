//! Which changes and which noise go together.
//!
//! The noise is measured within levels, and levels are found by their noise. What fits together is a
//! fixed point of that, and there may be more than one: steps between levels that alternate look like
//! noise until they are found. So it is looked for from two sides, from noise that is too strong and
//! from noise that is too weak, and of both readings the one stays that explains the series in fewer
//! words (`fit`).

use super::{
    Settings, clean::Clean, evidence::Judge, fit::code_length, noise::Noise, segments::Segments,
};

/// The longest window for the noise while changes are still looked for, which look like noise until
/// then, the more so the longer the window.
const WINDOW_SHORT: usize = 8;

/// How often the noise is measured and the changes are found anew; two or three times is usual.
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

/// Finds changes and measures the noise by turns until both stay.
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
