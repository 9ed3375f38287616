//! Places where the level may change: where the means of two neighbouring windows differ most.

use super::{END_MIN, clean::Clean};

/// The longest window. Longer ones would find smaller steps at the same extra cost each.
pub(super) const WINDOW_MAX: usize = 226;

/// The shortest window.
const WINDOW_MIN: usize = 5;

/// Windows grow by this factor.
const GROWTH: f64 = std::f64::consts::SQRT_2;

/// Least difference of the means, in standard errors of independent values.
const DIFFERENCE_MIN: f64 = 2.5;

/// Candidates in ascending order, each a first point of a new level.
pub(super) fn candidates(clean: &Clean) -> Vec<usize> {
    let mut found = Vec::new();
    let mut window = WINDOW_MIN;
    while window <= WINDOW_MAX.min(clean.len() - END_MIN) {
        peaks(clean, window, &mut found);
        window = (window as f64 * GROWTH).round() as usize;
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Adds local maxima: places where the difference is the greatest within half a window on both sides.
fn peaks(clean: &Clean, window: usize, found: &mut Vec<usize>) {
    let reach = window.div_ceil(2);
    // For two full windows, the usual case.
    let error_of_whole = (2.0 / window as f64).sqrt();
    // The best place so far.
    let mut best: Option<(usize, f64)> = None;
    for place in END_MIN..=clean.len() - END_MIN {
        let difference = difference(clean, (window, error_of_whole), place);
        match best {
            Some((peak, height)) if difference <= height => {
                if place - peak >= reach {
                    if height >= DIFFERENCE_MIN {
                        found.push(peak);
                    }
                    best = Some((place, difference));
                }
            }
            _ => best = Some((place, difference)),
        }
    }
    found.extend(best.filter(|(_, height)| *height >= DIFFERENCE_MIN).map(|(peak, _)| peak));
}

/// Difference of the means before and after a place, in standard errors. Windows are clipped to the series.
fn difference(clean: &Clean, (window, error_of_whole): (usize, f64), place: usize) -> f64 {
    let from = place.saturating_sub(window);
    let to = (place + window).min(clean.len());
    let difference = clean.mean(place, to) - clean.mean(from, place);
    // Uses the calmer side: otherwise a step of a calm stretch next to a noisy one may be missed.
    let sigma = clean.sigma(from).min(clean.sigma(to - 1));
    let error = match to - from == 2 * window {
        true => error_of_whole,
        false => (1.0 / (place - from) as f64 + 1.0 / (to - place) as f64).sqrt(),
    };
    difference.abs() / (sigma * error)
}
