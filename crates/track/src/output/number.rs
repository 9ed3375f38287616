//! Numbers as people read them: units scaled, digits that mean something, thousands apart.

use crate::model::{Kind, Measure};

/// Significant digits of a noisy value.
const DIGITS: i32 = 4;

/// Whole numbers of exact measures are written out up to this.
const WHOLE_MAX: f64 = 1e7;

/// How the values of a row are written: all in the same unit, with the same decimals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale<'a> {
    factor: f64,
    prefix: &'static str,
    unit: &'a str,
    decimals: usize,
}

const TIME: &[(f64, &str)] = &[(1e-9, "n"), (1e-6, "µ"), (1e-3, "m"), (1.0, "")];
const BINARY: &[(f64, &str)] =
    &[(1.0, ""), (1024.0, "Ki"), (1_048_576.0, "Mi"), (1_073_741_824.0, "Gi")];
const DECIMAL: &[(f64, &str)] = &[(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G")];

impl<'a> Scale<'a> {
    /// The scale for `value`. Where `other` is a different number, both stay different as they are written.
    pub(crate) fn of(measure: &'a Measure, value: f64, other: Option<f64>) -> Self {
        let symbol = symbol(measure);
        let is_whole = |value: f64| value.fract() == 0.0;
        let differs = other.is_some_and(|other| other != value);
        let is_plain = measure.kind == Kind::Exact
            && is_whole(value)
            && other.is_none_or(is_whole)
            && (value.abs() < WHOLE_MAX || differs)
            && !matches!(symbol, "ns" | "s");
        if is_plain {
            return Self { factor: 1.0, prefix: "", unit: symbol, decimals: 0 };
        }
        // Nanoseconds are a billionth of the unit that the prefixes belong to.
        let (unit, base, steps) = match symbol {
            "ns" => ("s", 1e-9, TIME),
            "s" => ("s", 1.0, TIME),
            "B" | "B/s" => (symbol, 1.0, BINARY),
            _ => (symbol, 1.0, DECIMAL),
        };
        let size = value.abs() * base;
        // Rounded first, so that 999.99 ns are 1.000 µs.
        let fits = |step: &&(f64, &str)| rounded(size) >= step.0 * (1.0 - 1e-12);
        let (step, prefix) = steps.iter().rev().find(fits).unwrap_or(&steps[0]);
        let mut scale = Self { factor: base / step, prefix, unit, decimals: 0 };
        let exact = measure.kind == Kind::Exact && is_whole(value) && *step == 1.0;
        scale.decimals = if exact { 0 } else { decimals(value * scale.factor, DIGITS) };
        if let Some(other) = other.filter(|_| differs) {
            while scale.decimals < 9 && scale.bare(value) == scale.bare(other) {
                scale.decimals += 1;
            }
        }
        scale
    }

    /// The number without its unit.
    pub(super) fn bare(&self, value: f64) -> String {
        let scaled = value * self.factor;
        if scaled.abs() >= 1e15 {
            return format!("{scaled:.3e}");
        }
        if scaled != 0.0 && scaled.abs() < 1e-6 {
            return format!("{scaled:.2e}");
        }
        grouped(&format!("{scaled:.*}", self.decimals))
    }

    /// The number with its unit: `12.34 µs`.
    pub(crate) fn with_unit(&self, value: f64) -> String {
        self.attach(&self.bare(value))
    }

    /// The unit, scaled: `µs`, `KiB`; empty where the measure's name says it.
    pub(super) fn attach(&self, number: &str) -> String {
        match (self.prefix, self.unit) {
            ("", "") => number.to_owned(),
            (prefix, "") => format!("{number} {prefix}"),
            (prefix, unit) => format!("{number} {prefix}{unit}"),
        }
    }

    /// A value with its spread: `12.34 ± 0.05 µs`, or `12.34 (12.30 to 13.00) µs` if it is lopsided.
    pub(super) fn with_spread(&self, value: f64, ends: (Option<f64>, Option<f64>)) -> String {
        let number = self.bare(value);
        let (Some(lower), Some(upper)) = ends else { return self.attach(&number) };
        let (below, above) = (value - lower, upper - value);
        let widest = below.abs().max(above.abs());
        // Half a unit of the last digit is no difference.
        let is_even = (below - above).abs() * self.factor <= 10f64.powi(-self.places()) / 2.0
            || (below - above).abs() <= widest * 0.02;
        if !is_even || below < 0.0 || above < 0.0 {
            let (lower, upper) = (self.bare(lower), self.bare(upper));
            return self.attach(&format!("{number} ({lower} to {upper})"));
        }
        // A spread that is not nothing does not look like nothing.
        let decimals = self.decimals.max(match widest * self.factor {
            0.0 => 0,
            spread => decimals(spread, 1),
        });
        let spread = Self { decimals: decimals.min(9), ..*self }.bare(widest);
        self.attach(&format!("{number} ± {spread}"))
    }

    fn places(&self) -> i32 {
        i32::try_from(self.decimals).unwrap_or(9)
    }
}

/// What stands for the unit: `ns` of `nanoseconds (ns)`; nothing where it is unknown or the measure's name
/// says it.
fn symbol(measure: &Measure) -> &str {
    let inside = measure.units.rsplit_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    let units = inside.unwrap_or(&measure.units).trim();
    let named = measure.name.to_lowercase();
    if units == "units" || named.contains(&units.to_lowercase()) && inside.is_none() {
        ""
    } else {
        units
    }
}

/// To four digits.
fn rounded(size: f64) -> f64 {
    let scale = 10f64.powi(i32::try_from(decimals(size, DIGITS)).unwrap_or(0));
    if scale.is_finite() { (size * scale).round() / scale } else { size }
}

/// Decimals that show `digits` significant digits, at most 15.
fn decimals(value: f64, digits: i32) -> usize {
    let size = value.abs();
    if size == 0.0 || !size.is_finite() {
        return 0;
    }
    // The digits before the point, after rounding: 999.96 has four.
    let magnitude = size.log10().floor() as i32;
    let after = digits - 1 - magnitude;
    let carries = size + 0.5 * 10f64.powi(-after) >= 10f64.powi(magnitude + 1);
    usize::try_from(after - i32::from(carries)).unwrap_or(0).min(15)
}

/// Thousands apart: `1,234,567.8`.
fn grouped(number: &str) -> String {
    let (sign, digits) = number.split_at(usize::from(number.starts_with('-')));
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut text = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + rest
}

/// A count: `1,234`.
pub(super) fn count(count: usize) -> String {
    grouped(&count.to_string())
}

/// `1 metric`, `2 metrics`.
pub(crate) fn plural(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A signed share: `+4.2 %`.
pub(super) fn change(share: f64) -> String {
    match size(share.abs()) {
        zero if zero == "0 %" => zero,
        text => format!("{}{text}", if share < 0.0 { '−' } else { '+' }),
    }
}

/// A share without a sign: `4.2 %`.
pub(super) fn size(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        size if size >= 1e6 => format!("{size:.1e} %"),
        size if size >= 99.95 => format!("{} %", grouped(&format!("{size:.0}"))),
        size if size >= 0.095 => format!("{size:.1} %"),
        size if size >= 1e-4 => format!("{:.*} %", decimals(size, 1), size),
        size => format!("{size:.0e} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Direction;

    fn custom(units: &str, kind: Kind) -> Measure {
        Measure::custom("thing", units, Direction::Unknown, kind)
    }

    #[test]
    fn units_are_scaled() {
        let check = |measure: &str, value, expected: &str| {
            let measure = Measure::named(measure);
            assert_eq!(Scale::of(&measure, value, None).with_unit(value), expected);
        };
        check("latency", 0.0, "0 ns");
        check("latency", 0.5, "0.5000 ns");
        check("latency", 63.412, "63.41 ns");
        check("latency", 999.96, "1.000 µs");
        check("latency", 12_345.6, "12.35 µs");
        check("latency", 7.5e6, "7.500 ms");
        check("latency", 3.6e12, "3,600 s");
        check("latency", -1500.0, "-1.500 µs");
        check("build-time", 0.25, "250.0 ms");
        check("build-time", 61.5, "61.50 s");
        check("throughput", 1.25e6, "1.250 Mops/s");
        check("throughput", 12.0, "12.00 ops/s");
        check("bytes-per-second", 3.0 * 1024.0, "3.000 KiB/s");
        check("instructions", 1234.0, "1,234");
        check("verified-instructions", 212.0, "212");
        check("file-size", 123_456.0, "123,456 B");
        check("file-size", 52_428_800.0, "50.00 MiB");
        check("estimated-cycles", 2.5e9, "2.500 G");
        check("My Score", 88.0, "88.00");
    }

    #[test]
    fn what_differs_looks_different() {
        let check = |measure: &str, value, other, expected: [&str; 2]| {
            let measure = Measure::named(measure);
            let scale = Scale::of(&measure, value, Some(other));
            assert_eq!([scale.with_unit(value), scale.with_unit(other)], expected);
        };
        check("latency", 1000.0, 1010.0, ["1.000 µs", "1.010 µs"]);
        check("latency", 1000.0, 1000.1, ["1.0000 µs", "1.0001 µs"]);
        check("latency", 1500.0, 2e6, ["1.500 µs", "2,000.000 µs"]);
        check("file-size", 52_428_800.0, 52_428_801.0, ["52,428,800 B", "52,428,801 B"]);
    }

    #[test]
    fn spreads() {
        let check = |value, lower, upper, expected: &str| {
            let measure = Measure::latency();
            let scale = Scale::of(&measure, value, None);
            assert_eq!(scale.with_spread(value, (lower, upper)), expected);
        };
        check(1000.0, Some(950.0), Some(1050.0), "1.000 ± 0.050 µs");
        check(1000.0, Some(999.9), Some(1000.1), "1.000 ± 0.0001 µs");
        check(1000.0, Some(1000.0), Some(1000.0), "1.000 ± 0.000 µs");
        check(1000.0, Some(990.0), Some(1300.0), "1.000 (0.990 to 1.300) µs");
        check(1000.0, Some(1001.0), Some(1002.0), "1.000 (1.001 to 1.002) µs");
        check(1000.0, None, Some(1300.0), "1.000 µs");
    }

    #[test]
    fn custom_units() {
        let check = |units: &str, kind, value, expected: &str| {
            let measure = custom(units, kind);
            assert_eq!(Scale::of(&measure, value, None).with_unit(value), expected);
        };
        check("widgets", Kind::Exact, 3.0, "3 widgets");
        check("things", Kind::Exact, 3.0, "3 things");
        check("thing", Kind::Exact, 3.0, "3");
        check("thing (units)", Kind::Noisy, 3.0, "3.000");
        check("%", Kind::Noisy, 12.5, "12.50 %");
        check("m", Kind::Noisy, 1e300, "1.000e291 Gm");
        check("m", Kind::Noisy, 1e-300, "1.00e-300 m");
    }

    #[test]
    fn shares() {
        let check = |share, expected: &str| assert_eq!(change(share), expected);
        check(0.0, "0 %");
        check(0.0421, "+4.2 %");
        check(-0.5, "−50.0 %");
        check(12.0, "+1,200 %");
        check(0.000_012, "+0.001 %");
        check(1e-9, "+1e-7 %");
        assert_eq!(size(0.013), "1.3 %");
    }

    #[test]
    fn nothing_panics() {
        let values = [0.0, -0.0, 1e-308, f64::MIN_POSITIVE / 8.0, f64::MAX, -f64::MAX, 999.999_999];
        for measure in ["latency", "build-time", "file-size", "throughput", "x"] {
            let measure = Measure::named(measure);
            for value in values {
                for other in values {
                    let scale = Scale::of(&measure, value, Some(other));
                    assert!(!scale.with_spread(value, (Some(other), Some(value))).is_empty());
                }
            }
        }
    }
}
