//! Sparklines.

use maud::{Markup, html};

use super::parts::Tone;

const WIDTH: f32 = 120.0;
const HEIGHT: f32 = 24.0;
const EDGE: f32 = 3.0;

/// Draws values, oldest first, with a dot at the newest.
pub(super) fn spark(values: &[f32], tone: Tone) -> Markup {
    let points = points(values);
    let Some(&(x, y)) = points.last() else { return html! {} };
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let class = format!("spark {}", tone.class());
    html! {
        svg class=(class) viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } width=(WIDTH) height=(HEIGHT)
            aria-hidden="true" {
            polyline points=(path.join(" ")) {}
            circle cx=(format!("{x:.1}")) cy=(format!("{y:.1}")) r="2" {}
        }
    }
}

/// Positions of the values. The axis spans at least 4 % of their size, so that a steady series looks steady.
fn points(values: &[f32]) -> Vec<(f32, f32)> {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (low, high) = finite().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low > high {
        return Vec::new();
    }
    let middle = low / 2.0 + high / 2.0;
    let span = (high - low).max(middle.abs() * 0.04).max(f32::MIN_POSITIVE);
    let step = (WIDTH - 2.0 * EDGE) / (values.len().max(2) - 1) as f32;
    let place = |(index, value): (usize, &f32)| {
        let share = (value - middle) / span;
        (EDGE + step * index as f32, HEIGHT / 2.0 - share * (HEIGHT - 2.0 * EDGE))
    };
    values.iter().enumerate().filter(|(_, value)| value.is_finite()).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fill_the_height_unless_they_hardly_move() {
        let check = |values: &[f32], expected: &[(f32, f32)]| {
            assert_eq!(points(values), expected, "{values:?}");
        };
        check(&[], &[]);
        check(&[f32::NAN], &[]);
        check(&[1.0], &[(3.0, 12.0)]);
        check(&[1.0, 2.0], &[(3.0, 21.0), (117.0, 3.0)]);
        check(&[0.0, 0.0], &[(3.0, 12.0), (117.0, 12.0)]);
        let steady = points(&[100.0, 101.0]);
        assert!(steady.iter().all(|(_, y)| (9.0..15.0).contains(y)), "{steady:?}");
    }
}
