//! Axes: which part of the numbers is shown, and where the ticks stand.

use time::OffsetDateTime;

use super::chart::Dot;
use crate::output::number::{exponential, fixed};

/// A vertical axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    /// All is divided by this before it is subtracted, since differences of huge numbers are infinite.
    scale: f64,
}

/// Ticks of an axis in one unit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ticks {
    /// Values and their texts, from the lowest.
    pub(super) marks: Vec<(f64, String)>,
}

/// Part of the range of values that spreads and limits may add on each side. What goes beyond is cut off.
const EXTRA_MAX: f64 = 0.75;

/// Empty part above and below.
const MARGIN: f64 = 0.06;

/// Least height of a panel as a part of its values, so that noise of a thousandth does not look like a
/// storm.
pub(super) const NOISY_SPAN_MIN: f64 = 0.02;

impl Axis {
    /// The axis on which all values are to be seen. `span_min` is the least height as a part of the
    /// largest value.
    pub(super) fn of<'a>(dots: impl Iterator<Item = &'a Dot> + Clone, span_min: f64) -> Self {
        let ends = |values: &mut dyn Iterator<Item = f64>| {
            values.fold(None, |ends: Option<(f64, f64)>, value| match ends {
                Some((low, high)) => Some((low.min(value), high.max(value))),
                None => Some((value, value)),
            })
        };
        let values = ends(&mut dots.clone().map(|dot| dot.value));
        let (low, high) = values.unwrap_or((0.0, 0.0));
        let around = dots.flat_map(|dot| [dot.lower, dot.upper, dot.lower_limit, dot.upper_limit]);
        let (outer_low, outer_high) = ends(&mut around.flatten()).unwrap_or((low, high));
        // What is never below 0 has no numbers below 0 at its axis.
        let floor = if low.min(outer_low) >= 0.0 { 0.0 } else { f64::NEG_INFINITY };
        let size = low.abs().max(high.abs());
        let scale = if size > 0.0 { size } else { 1.0 };
        let (low, high) = (low / scale, high / scale);
        // All numbers are from −1 to 1 from here on.
        let missing = (span_min - (high - low)).max(0.0);
        let (low, high) = (low - missing / 2.0, high + missing / 2.0);
        let span = if high > low { high - low } else { 0.1 };
        let (low, high) = if high > low { (low, high) } else { (low - 0.05, high + 0.05) };
        let extra = span * EXTRA_MAX;
        let low = (outer_low / scale).clamp(low - extra, low);
        let high = (outer_high / scale).clamp(high, high + extra);
        let margin = MARGIN * (high - low);
        Self { low: (low - margin).max(floor), high: high + margin, scale }
    }

    /// Where a value stands: 0 at the bottom, 1 at the top.
    pub(super) fn place(&self, value: f64) -> f64 {
        (value / self.scale - self.low) / (self.high - self.low)
    }

    /// Its ends, in the units of the values.
    pub(super) fn ends(&self) -> (f64, f64) {
        (self.low * self.scale, self.high * self.scale)
    }

    /// The end farther from zero.
    pub(super) fn size(&self) -> f64 {
        self.low.abs().max(self.high.abs()).min(1.0) * self.scale
    }

    /// About `count` ticks at round numbers of a unit of that size.
    pub(super) fn ticks(&self, count: usize, unit: f64) -> Ticks {
        let (low, high) = (self.low * (self.scale / unit), self.high * (self.scale / unit));
        let step = round_step((high - low) / count.max(1) as f64);
        let first = (low / step).ceil();
        let decimals = (-step.log10().floor()).max(0.0);
        let is_plain = decimals <= 9.0 && low.abs().max(high.abs()) < 1e12;
        let mut marks = Vec::new();
        for index in 0..=2 * count {
            let value = (first + index as f64) * step;
            // Not a number where the arithmetic of huge numbers gave up.
            if value > high || value.is_nan() {
                break;
            }
            let text = match is_plain {
                _ if value == 0.0 => "0".to_owned(),
                true => fixed(value, decimals as usize),
                false => exponential(value, 2),
            };
            marks.push((value * unit, text));
        }
        Ticks { marks }
    }
}

/// The least of 1, 2 and 5 times a power of ten that is at least as large.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let digit = step / power;
    let rounded = [1.0, 2.0, 5.0].into_iter().find(|round| digit <= round * 1.000_001);
    rounded.unwrap_or(10.0) * power
}

/// How a time is written under a picture whose ends lie that far apart.
pub(super) fn time_text(time: OffsetDateTime, span: time::Duration) -> String {
    let time = time.to_offset(time::UtcOffset::UTC);
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    if span < time::Duration::minutes(30) {
        format!("{hour:02}:{minute:02}:{second:02}")
    } else if span < time::Duration::hours(36) {
        format!("{month:02}-{day:02} {hour:02}:{minute:02}")
    } else {
        format!("{year:04}-{month:02}-{day:02}")
    }
}

/// A time to the minute, with its zone.
pub(super) fn full_time(time: OffsetDateTime) -> String {
    let time = time.to_offset(time::UtcOffset::UTC);
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", time.hour(), time.minute())
}

/// Indices of places at least `distance` pixels apart, when `count` places share `width` pixels.
pub(super) fn places(count: usize, width: f64, distance: f64) -> Vec<usize> {
    let most = ((width / distance).floor() as usize).max(1);
    let step = count.div_ceil(most).max(1);
    (0..count).step_by(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(values: &[f64], span_min: f64) -> Axis {
        let dots: Vec<Dot> = values.iter().map(|&value| Dot { value, ..Dot::default() }).collect();
        Axis::of(dots.iter(), span_min)
    }

    #[test]
    fn ticks_are_round_numbers() {
        let check = |values: &[f64], unit, expected: &[&str]| {
            let ticks = axis(values, 0.0).ticks(4, unit);
            let texts: Vec<&str> = ticks.marks.iter().map(|(_, text)| &**text).collect();
            assert_eq!(texts, expected, "{values:?}");
        };
        check(&[0.0, 1.0], 1.0, &["0", "0.5", "1.0"]);
        check(&[-3.0, 3.0], 1.0, &["−2", "0", "2"]);
        check(&[1000.0, 5000.0], 1000.0, &["2", "4"]);
        check(&[7.0], 1.0, &["6.8", "7.0", "7.2"]);
        check(&[0.0], 1.0, &["0", "0.02", "0.04"]);
        check(&[0.1, 100.0], 1.0, &["0", "50", "100"]);
        check(&[1e9, 1e9 + 4.0], 1.0, &["1,000,000,000", "1,000,000,002", "1,000,000,004"]);
    }

    #[test]
    fn any_finite_values_have_a_place() {
        let check = |values: &[f64]| {
            let axis = axis(values, 0.02);
            for &value in values {
                let place = axis.place(value);
                assert!((0.0..=1.0).contains(&place), "{values:?} {value} {place}");
            }
            assert!(axis.ticks(4, 1.0).marks.len() < 12, "{values:?}");
        };
        check(&[f64::MAX, f64::MIN]);
        check(&[f64::MIN_POSITIVE, 0.0]);
        check(&[5e-324]);
        check(&[1.0, 1.0 + f64::EPSILON]);
        check(&[-1e-9, 1e300]);
    }

    #[test]
    fn spreads_may_widen_but_not_squash() {
        let dot = |value, upper| Dot { value, upper: Some(upper), ..Dot::default() };
        let check = |upper, expected: f64| {
            let dots = [dot(1.0, 1.0), dot(2.0, upper)];
            let place = Axis::of(dots.iter(), 0.0).place(2.0);
            assert!((place - expected).abs() < 0.01, "{place}");
        };
        check(2.0, 0.946);
        check(2.5, 0.649);
        check(100.0, 0.564);
    }

    #[test]
    fn places_are_spread() {
        let check = |count, width, expected: &[usize]| {
            assert_eq!(places(count, width, 100.0), expected, "{count} {width}");
        };
        check(0, 500.0, &[]);
        check(3, 500.0, &[0, 1, 2]);
        check(10, 500.0, &[0, 2, 4, 6, 8]);
        check(10, 50.0, &[0]);
    }
}
