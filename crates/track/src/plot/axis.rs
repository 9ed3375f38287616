//! Axes: visible range and ticks.

use time::OffsetDateTime;
use wingbeat_text::{Units, exponential, fixed};

use super::chart::Scale;
use crate::store::PlotPoint;

/// A vertical axis: linear, or logarithmic where a linear one would hide changes of small values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    rule: Rule,
}

/// Transformation of a value before it is mapped to `low` to `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rule {
    /// Divides by this, since differences of huge numbers overflow.
    Linear(f64),
    Logarithmic,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ticks {
    /// Values and their labels, from the lowest.
    pub(super) marks: Vec<(f64, String)>,
    /// The unit of the labels. Empty if each label has its own.
    pub(super) symbol: String,
}

/// Ratio of the largest to the smallest value from which an axis of positive values is logarithmic.
///
/// On a linear axis a change of 10 % of the smallest value takes 0.1 ÷ (ratio − 1) of the height. Lines are 1.5 pixels
/// wide and panels have about 130 pixels, so at a ratio of 10 that change is narrower than its line.
const LOG_RATIO: f64 = 10.0;

/// Maximum share of the range of values that spreads may add on each side. Beyond, they are clipped.
const EXTRA_MAX: f64 = 0.75;

/// The same for limits, which would otherwise squeeze the values. Figures at the edge replace farther ones.
const LIMIT_EXTRA_MAX: f64 = 0.25;

/// The same for a logarithmic axis, whose range is large already.
const EXTRA_MAX_LOG: f64 = 0.25;

/// Maximum decimals of ticks if there is a smaller unit.
const DECIMALS_MAX: f64 = 3.0;

const MARGIN: f64 = 0.06;

/// Minimum height of a panel relative to its values: noise of a thousandth should not look large.
pub(super) const NOISY_SPAN_MIN: f64 = 0.02;

impl Axis {
    /// The axis for all values. `span_min` is the minimum height, relative to the largest value.
    pub(super) fn of<'a>(
        dots: impl Iterator<Item = &'a PlotPoint> + Clone,
        span_min: f64,
        scale: Scale,
    ) -> Self {
        let (low, high) = ends(dots.clone().map(|dot| dot.value)).unwrap_or((0.0, 0.0));
        let spread = dots.clone().flat_map(|dot| [dot.lower, dot.upper]).flatten();
        let limits = dots.flat_map(|dot| [dot.lower_limit, dot.upper_limit]).flatten();
        let is_logarithmic = match scale {
            Scale::Auto => high / low >= LOG_RATIO,
            Scale::Linear => false,
            Scale::Logarithmic => true,
        };
        if low > 0.0 && is_logarithmic {
            // What reaches down to zero has no end on this axis, so it is clipped.
            let logarithms = |all: &mut dyn Iterator<Item = f64>| -> Vec<f64> {
                all.filter(|&value| value > 0.0).map(f64::ln).collect()
            };
            let (mut spread, mut limits) = (spread, limits);
            let (spread, limits) = (logarithms(&mut spread), logarithms(&mut limits));
            let values = widened((low.ln(), high.ln()), span_min);
            let (low, high) = outer(values, EXTRA_MAX_LOG, spread.into_iter(), limits.into_iter());
            let margin = MARGIN * (high - low);
            return Self { low: low - margin, high: high + margin, rule: Rule::Logarithmic };
        }
        // An axis of non-negative values has no negative ticks, whatever the limits.
        let floor = if low >= 0.0 { 0.0 } else { f64::NEG_INFINITY };
        let size = low.abs().max(high.abs());
        let scale = if size > 0.0 { size } else { 1.0 };
        // All numbers are between −1 and 1 from here on.
        let values = widened((low / scale, high / scale), span_min);
        let (spread, limits) = (spread.map(|it| it / scale), limits.map(|it| it / scale));
        let (low, high) = outer(values, EXTRA_MAX, spread, limits);
        let margin = MARGIN * (high - low);
        Self { low: (low - margin).max(floor), high: high + margin, rule: Rule::Linear(scale) }
    }

    pub(super) fn is_logarithmic(&self) -> bool {
        self.rule == Rule::Logarithmic
    }

    /// Relative position of a value: 0 at the bottom, 1 at the top.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = match self.rule {
            Rule::Linear(scale) => value / scale,
            // Zero and negative values are below any axis.
            Rule::Logarithmic if value > 0.0 => value.ln(),
            Rule::Logarithmic => f64::NEG_INFINITY,
        };
        (value - self.low) / (self.high - self.low)
    }

    pub(super) fn value(&self, place: f64) -> f64 {
        let value = self.low + (self.high - self.low) * place;
        match self.rule {
            Rule::Linear(scale) => value * scale,
            Rule::Logarithmic => value.exp(),
        }
    }

    /// About `count` ticks at round numbers: in one unit, or in rising units on a logarithmic axis.
    pub(super) fn ticks(&self, count: usize, units: &Units) -> Ticks {
        match self.rule {
            Rule::Linear(scale) => {
                let size = self.low.abs().max(self.high.abs()).min(1.0) * scale;
                let (unit, symbol) = match units.rung(size) {
                    // 18,204,123,457 rather than 18.204123457 G.
                    (unit, _) if self.decimals(count, scale, unit) > DECIMALS_MAX => units.own(),
                    rung => rung,
                };
                Ticks { marks: self.even_marks(count, scale, unit), symbol: symbol.to_owned() }
            }
            Rule::Logarithmic if self.high - self.low < LOG_RATIO.ln() => {
                // Powers of ten are too far apart.
                let scale = self.high.exp();
                let (low, high) = ((self.low - self.high).exp(), 1.0);
                Self { low, high, rule: Rule::Linear(scale) }.ticks(count, units)
            }
            Rule::Logarithmic => {
                let marks = log_marks(self.low, self.high, count, units.is_binary());
                let marks = marks.into_iter().map(|value| (value, log_text(value, units)));
                Ticks { marks: marks.collect(), symbol: String::new() }
            }
        }
    }

    fn step(&self, count: usize, scale: f64, unit: f64) -> f64 {
        round_step((self.high - self.low) * (scale / unit) / count.max(1) as f64)
    }

    fn decimals(&self, count: usize, scale: f64, unit: f64) -> f64 {
        (-self.step(count, scale, unit).log10().floor()).max(0.0)
    }

    fn even_marks(&self, count: usize, scale: f64, unit: f64) -> Vec<(f64, String)> {
        let (low, high) = (self.low * (scale / unit), self.high * (scale / unit));
        let step = self.step(count, scale, unit);
        let first = (low / step).ceil();
        let decimals = self.decimals(count, scale, unit);
        let is_plain = decimals <= 9.0 && low.abs().max(high.abs()) < 1e12;
        let mut marks = Vec::new();
        for index in 0..=2 * count {
            let value = (first + index as f64) * step;
            // NaN if huge numbers overflow.
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
        marks
    }
}

/// Both ends at least `span_min` apart, and apart.
fn widened((low, high): (f64, f64), span_min: f64) -> (f64, f64) {
    let missing = (span_min - (high - low)).max(0.0);
    let (low, high) = (low - missing / 2.0, high + missing / 2.0);
    if high > low { (low, high) } else { (low - 0.05, high + 0.05) }
}

/// The ends with spreads, up to a share of the range of values, and with limits that are near.
fn outer(
    (low, high): (f64, f64),
    extra_max: f64,
    spread: impl Iterator<Item = f64>,
    limits: impl Iterator<Item = f64>,
) -> (f64, f64) {
    let (extra, near) = ((high - low) * extra_max, (high - low) * LIMIT_EXTRA_MAX);
    let spread = spread.map(|end| end.clamp(low - extra, high + extra));
    let limits = limits.filter(|&limit| limit >= low - near && limit <= high + near);
    ends(spread.chain(limits).chain([low, high])).unwrap_or((low, high))
}

fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |ends, value| match ends {
        Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
        None => Some((value, value)),
    })
}

/// Round numbers between two bounds, which are given as natural logarithms, at most `count`: 1, 2, 5, 10; or 1, 10,
/// 100; or fewer. Powers of two for bytes.
fn log_marks(low: f64, high: f64, count: usize, is_binary: bool) -> Vec<f64> {
    let base: f64 = if is_binary { 2.0 } else { 10.0 };
    let first = (low / base.ln()).floor() as i32;
    let last = (high / base.ln()).ceil() as i32;
    let is_inside = |value: &f64| value.is_normal() && value.ln() >= low && value.ln() <= high;
    let every = |step: usize, digits: &[f64]| -> Vec<f64> {
        let begin = first.div_euclid(step as i32) * step as i32;
        let powers = (begin..=last).step_by(step).map(|power| base.powi(power));
        let marks = powers.flat_map(|power| digits.iter().map(move |digit| digit * power));
        marks.filter(is_inside).collect()
    };
    let fine = if is_binary { every(1, &[1.0]) } else { every(1, &[1.0, 2.0, 5.0]) };
    if fine.len() <= count {
        return fine;
    }
    // Floats cover 2,098 powers of two.
    (1..=2098)
        .map(|step| every(step, &[1.0]))
        .find(|marks| marks.len() <= count)
        .unwrap_or_default()
}

fn log_text(value: f64, units: &Units) -> String {
    let (size, symbol) = units.rung(value);
    let scaled = value / size;
    let text = match scaled {
        0.999..1e12 => fixed(scaled, 0),
        0.001..1.0 => fixed(scaled, (-scaled.log10() - 1e-9).ceil() as usize),
        _ => exponential(scaled, 0),
    };
    if symbol.is_empty() { text } else { format!("{text} {symbol}") }
}

/// The smallest 1, 2 or 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let digit = step / power;
    let rounded = [1.0, 2.0, 5.0].into_iter().find(|round| digit <= round * 1.000_001);
    rounded.unwrap_or(10.0) * power
}

/// Formats a time below a plot that covers this time span.
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

/// A time to the minute, with its time zone.
pub(super) fn full_time(time: OffsetDateTime) -> String {
    let time = time.to_offset(time::UtcOffset::UTC);
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", time.hour(), time.minute())
}

/// Indices of positions at least `distance` pixels apart, if `count` positions share `width` pixels.
pub(super) fn places(count: usize, width: f64, distance: f64) -> Vec<usize> {
    let most = ((width / distance).floor() as usize).max(1);
    let step = count.div_ceil(most).max(1);
    (0..count).step_by(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Measure;

    fn axis(values: &[f64], span_min: f64) -> Axis {
        let dots: Vec<PlotPoint> =
            values.iter().map(|&value| PlotPoint { value, ..PlotPoint::default() }).collect();
        Axis::of(dots.iter(), span_min, Scale::Auto)
    }

    #[test]
    fn ticks_are_round_numbers() {
        let check = |slug: &str, values: &[f64], expected: &[&str]| {
            let ticks = axis(values, 0.0).ticks(4, &Measure::named(slug).ladder());
            let texts: Vec<&str> = ticks.marks.iter().map(|(_, text)| &**text).collect();
            assert_eq!(texts, expected, "{values:?}");
        };
        check("score", &[0.0, 1.0], &["0", "0.5", "1.0"]);
        check("score", &[-3.0, 3.0], &["−2", "0", "2"]);
        check("latency", &[1000.0, 5000.0], &["2", "4"]);
        check("score", &[7.0], &["6.8", "7.0", "7.2"]);
        check("score", &[0.0], &["0", "0.02", "0.04"]);
        check("score", &[0.0, 100.0], &["0", "50", "100"]);
        let billions = ["1,000,000,000", "1,000,000,002", "1,000,000,004"];
        check("instructions", &[1e9, 1e9 + 4.0], &billions);
    }

    #[test]
    fn ticks_of_a_logarithmic_axis_rise_through_the_units() {
        let check = |slug: &str, values: &[f64], expected: &[&str]| {
            let axis = axis(values, 0.0);
            assert!(axis.is_logarithmic(), "{values:?}");
            let ticks = axis.ticks(8, &Measure::named(slug).ladder());
            let texts: Vec<&str> = ticks.marks.iter().map(|(_, text)| &**text).collect();
            assert_eq!((texts, &*ticks.symbol), (expected.to_vec(), ""), "{values:?}");
        };
        let decades = ["100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"];
        check("latency", &[30.0, 450e6], &decades);
        check("latency", &[30.0, 450.0], &["50 ns", "100 ns", "200 ns", "500 ns"]);
        check("latency", &[300.0, 4500.0], &["500 ns", "1 µs", "2 µs", "5 µs"]);
        let bytes = ["1 KiB", "4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB", "4 MiB"];
        check(
            "bytes-per-second",
            &[1000.0, 4e6],
            &bytes.map(|text| format!("{text}/s")).each_ref().map(|text| &**text),
        );
        check("score", &[0.02, 3.0], &["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"]);
        let wide = ["1", "100", "10,000", "1,000,000", "100,000,000", "10,000,000,000", "1e12"];
        check("score", &[1.0, 1e12], &wide);
        let wide = ["1", "100", "10,000", "1,000,000", "100 M", "10 G", "1,000 G"];
        check("instructions", &[1.0, 1e12], &wide);
    }

    #[test]
    fn only_wide_positive_values_have_a_logarithmic_axis() {
        let check = |values: &[f64], expected| {
            assert_eq!(axis(values, 0.02).is_logarithmic(), expected, "{values:?}");
        };
        check(&[1.0, 9.9], false);
        check(&[1.0, 10.0], true);
        check(&[0.0, 10.0], false);
        check(&[-1.0, 1000.0], false);
        check(&[5e-324, f64::MAX], true);
    }

    #[test]
    fn what_reaches_to_zero_is_cut_at_a_logarithmic_axis() {
        let dot = |value, lower| PlotPoint { value, lower: Some(lower), ..PlotPoint::default() };
        let axis = |lower| Axis::of([dot(30.0, 29.0), dot(450e6, lower)].iter(), 0.0, Scale::Auto);
        // The axis is that of the other values, and the lower end is below it.
        assert_eq!(axis(-1e6), axis(400e6));
        assert!(axis(-1e6).place(-1e6) < 0.0 && axis(0.0).place(0.0) < 0.0);
    }

    #[test]
    fn any_finite_values_have_a_place() {
        let check = |values: &[f64]| {
            let axis = axis(values, 0.02);
            for &value in values {
                let place = axis.place(value);
                assert!((0.0..=1.0).contains(&place), "{values:?} {value} {place}");
            }
            let ticks = axis.ticks(4, &Measure::named("score").ladder());
            assert!(ticks.marks.len() < 12, "{values:?}");
            assert!(ticks.marks.iter().all(|(value, _)| value.is_finite()), "{values:?}");
        };
        check(&[5e-324, f64::MAX]);
        check(&[f64::MAX, f64::MIN]);
        check(&[f64::MIN_POSITIVE, 0.0]);
        check(&[5e-324]);
        check(&[1.0, 1.0 + f64::EPSILON]);
        check(&[-1e-9, 1e300]);
    }

    #[test]
    fn spreads_may_widen_but_not_squash() {
        let dot = |value, upper| PlotPoint { value, upper: Some(upper), ..PlotPoint::default() };
        let check = |upper, expected: f64| {
            let dots = [dot(1.0, 1.0), dot(2.0, upper)];
            let place = Axis::of(dots.iter(), 0.0, Scale::Auto).place(2.0);
            assert!((place - expected).abs() < 0.01, "{place}");
        };
        check(2.0, 0.946);
        check(2.5, 0.649);
        check(100.0, 0.564);
    }

    #[test]
    fn near_limits_widen_and_far_ones_do_not() {
        let axis = |values: [f64; 2], limit| {
            let dots = values.map(|value| PlotPoint {
                value,
                lower_limit: Some(limit),
                ..PlotPoint::default()
            });
            Axis::of(dots.iter(), 0.0, Scale::Auto)
        };
        assert!(axis([1.0, 3.0], 0.6).place(0.6) > 0.0);
        assert_eq!(axis([1.0, 3.0], -2.0), axis([1.0, 3.0], 1.0));
        // Where no value is below zero, no near limit is in sight there.
        let cut = axis([0.0, 3.0], -0.5);
        assert!(cut.place(0.0).abs() < 1e-9, "{cut:?}");
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
