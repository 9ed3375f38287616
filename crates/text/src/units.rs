//! Values with readable units: 1,234,567 "nanoseconds (ns)" are 1.235 ms.

use serde::Serialize;

use crate::numbers::{exponential, rounded, significant_decimals};

/// The units of a measure with their prefixes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Units {
    /// Units, smallest first: the size in the measure's own units, and the symbol.
    rungs: Vec<(f64, String)>,
    /// Whether integers are written in full.
    whole: bool,
}

/// How to write the values of a row: all in the same unit, with the same decimals.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// Size of this unit in the measure's own units.
    size: f64,
    symbol: String,
    decimals: usize,
}

/// Time units from picoseconds on, in nanoseconds.
const TIMES: [(f64, &str); 5] = [(1e-3, "ps"), (1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];

/// Factors and symbols of prefixes, smallest first.
type Prefixes = [(f64, &'static str); 4];

/// Prefixes of bytes.
const BINARY: Prefixes = [(1.0, ""), (1024.0, "Ki"), (1_048_576.0, "Mi"), (1_073_741_824.0, "Gi")];

/// Prefixes of everything else.
const DECIMAL: Prefixes = [(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G")];

/// Symbols joined with a prefix: MHz, but M ops.
const GROWN: [&str; 5] = ["Hz", "J", "W", "V", "A"];

/// Significant digits.
const DIGITS: i32 = 4;

/// Integers of exact measures below this are written in full.
const WHOLE_END: f64 = 1e7;

/// Values beyond this multiple of the largest unit are written in the measure's own units.
const GIANT: f64 = 1e6;

/// Scaled numbers in this range use positional notation.
const PLAIN: std::ops::Range<f64> = 1e-6..1e12;

/// Maximum length of a symbol, in characters.
const SYMBOL_MAX: usize = 24;

impl Units {
    /// Units for this symbol. Integers of exact measures are written in full.
    #[must_use]
    pub fn new(symbol: &str, is_exact: bool) -> Self {
        let symbol: String = symbol.chars().take(SYMBOL_MAX).collect();
        let time = TIMES.iter().find(|(_, name)| *name == symbol);
        if let Some(&(own, _)) = time {
            let rungs = TIMES.iter().map(|&(size, name)| (size / own, name.to_owned()));
            return Self { rungs: rungs.collect(), whole: false };
        }
        if let Some((own, prefixes, base)) = prefixed(&symbol) {
            let name = |size: f64, prefix: &str| match size == own {
                true => symbol.clone(),
                false => format!("{prefix}{base}"),
            };
            let rungs = prefixes.iter().map(|&(size, prefix)| (size / own, name(size, prefix)));
            return Self { rungs: rungs.collect(), whole: false };
        }
        let is_bytes = symbol == "B" || symbol == "B/s";
        let prefixes = if is_bytes { BINARY } else { DECIMAL };
        let grows = is_bytes || GROWN.contains(&&*symbol);
        let rungs = prefixes.iter().map(|&(size, prefix)| {
            let gap = if grows || prefix.is_empty() || symbol.is_empty() { "" } else { " " };
            (size, format!("{prefix}{gap}{symbol}"))
        });
        Self { rungs: rungs.collect(), whole: is_exact }
    }

    /// Units for numbers of unknown meaning, without prefixes, which would be misleading.
    #[must_use]
    pub fn unknown(is_exact: bool) -> Self {
        Self { rungs: vec![(1.0, String::new())], whole: is_exact }
    }

    /// The unit in which a value has one to three digits before the point, if there is one: its size in the measure's
    /// own units, and its symbol.
    #[must_use]
    pub fn rung(&self, value: f64) -> (f64, &str) {
        let size = value.abs();
        // After rounding: 999.96 ns are 1.000 µs.
        let fits = |rung: &&(f64, String)| size >= rung.0 * 0.999_95;
        // Zero has no magnitude, and giants have no prefix.
        let is_giant = self.rungs.last().is_some_and(|rung| size > rung.0 * GIANT);
        let found = match size > 0.0 && !is_giant && !(self.whole && size < WHOLE_END) {
            true => self.rungs.iter().rev().find(fits).or(self.rungs.first()),
            false => return self.own(),
        };
        found.map_or((1.0, ""), |(size, symbol)| (*size, symbol))
    }

    /// Whether prefixes are powers of 1,024.
    pub fn is_binary(&self) -> bool {
        self.rungs.iter().any(|rung| rung.0 == 1024.0)
    }

    /// Factor from another measure's own units to this one's, if both are times.
    pub fn factor_from(&self, other: &Self) -> Option<f64> {
        let second =
            |units: &Self| units.rungs.iter().find(|rung| rung.1 == "s").map(|rung| rung.0);
        Some(second(self)? / second(other)?)
    }

    /// The measure's own unit.
    pub fn own(&self) -> (f64, &str) {
        let own = self.rungs.iter().find(|rung| rung.0 == 1.0);
        own.map_or((1.0, ""), |(size, symbol)| (*size, symbol))
    }

    /// The scale for `value`. If `other` differs from it, both stay different as written.
    #[must_use]
    pub fn scale(&self, value: f64, other: Option<f64>) -> Scale {
        let other = other.filter(|other| *other != value);
        let is_whole = |value: f64| self.whole && value.fract() == 0.0 && PLAIN.end > value.abs();
        let is_out = |value: f64| value.abs() < WHOLE_END || other.is_some();
        if is_whole(value) && is_out(value) && other.is_none_or(is_whole) {
            return Scale { size: 1.0, symbol: self.own().1.to_owned(), decimals: 0 };
        }
        // Zero fits every unit.
        let sized = if value == 0.0 { other.unwrap_or(value) } else { value };
        let (size, symbol) = self.rung(sized);
        let decimals = significant_decimals(sized / size, DIGITS);
        let mut scale = Scale { size, symbol: symbol.to_owned(), decimals };
        if let Some(other) = other {
            while scale.decimals < 9 && scale.bare(value) == scale.bare(other) {
                scale.decimals += 1;
            }
        }
        scale
    }

    /// A value with its units, to four significant digits: `12.35 µs`.
    #[must_use]
    pub fn format(&self, value: f64) -> String {
        self.scale(value, None).with_unit(value)
    }
}

/// Splits a symbol that already has a byte prefix: the size in bytes, and the prefixes to continue with.
fn prefixed(symbol: &str) -> Option<(f64, Prefixes, &str)> {
    let [(_, _), binary @ ..] = BINARY;
    let decimal = [(1e3, "k"), (1e3, "K"), (1e6, "M"), (1e9, "G")];
    let of = |own: &[(f64, &str)], all| {
        own.iter().find_map(|(size, prefix)| Some((*size, all, symbol.strip_prefix(prefix)?)))
    };
    let found = of(&binary, BINARY).or_else(|| of(&decimal, DECIMAL));
    found.filter(|(.., base)| matches!(*base, "B" | "B/s"))
}

impl Scale {
    /// The number without its unit.
    pub fn bare(&self, value: f64) -> String {
        let scaled = value / self.size;
        match scaled == 0.0 || PLAIN.contains(&scaled.abs()) {
            true => rounded(scaled, self.decimals),
            false => exponential(scaled, 3),
        }
    }

    /// The number with its unit: `12.34 µs`.
    #[must_use]
    pub fn with_unit(&self, value: f64) -> String {
        self.attach(&self.bare(value))
    }

    /// Appends the unit to a number. Omitted if the measure's name states the unit.
    fn attach(&self, number: &str) -> String {
        if self.symbol.is_empty() { number.to_owned() } else { format!("{number} {}", self.symbol) }
    }

    /// A value with its spread: `12.34 ± 0.05 µs`, or `12.34 (12.30 to 13.00) µs` if asymmetric.
    #[must_use]
    pub fn with_spread(&self, value: f64, ends: (Option<f64>, Option<f64>)) -> String {
        let number = self.bare(value);
        self.attach(&match self.spread(value, ends) {
            None => number,
            Some(even) if even.starts_with('±') => format!("{number} {even}"),
            Some(ends) => format!("{number} ({ends})"),
        })
    }

    /// The spread of a value, without the unit: `± 0.05`, or `12.30 to 13.00` if asymmetric.
    #[must_use]
    pub fn spread(&self, value: f64, ends: (Option<f64>, Option<f64>)) -> Option<String> {
        let (lower, upper) = ends.0.zip(ends.1)?;
        let (below, above) = (value - lower, upper - value);
        let widest = below.abs().max(above.abs());
        // Ignores differences of half a unit of the last digit.
        let places = i32::try_from(self.decimals).unwrap_or(9);
        let is_even = (below - above).abs() / self.size <= 10f64.powi(-places) / 2.0
            || (below - above).abs() <= widest * 0.02;
        if !is_even || below < 0.0 || above < 0.0 {
            return Some(format!("{} to {}", self.bare(lower), self.bare(upper)));
        }
        // A nonzero spread must not look like zero.
        let decimals = self.decimals.max(significant_decimals(widest / self.size, 1));
        Some(format!("± {}", Self { decimals, ..self.clone() }.bare(widest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_scaled() {
        let check = |symbol, is_exact, value, expected: &str| {
            assert_eq!(Units::new(symbol, is_exact).format(value), expected, "{symbol} {value}");
        };
        check("ns", false, 0.0, "0 ns");
        check("ns", false, 0.25, "250.0 ps");
        check("ns", false, 63.412, "63.41 ns");
        check("ns", false, 999.9, "999.9 ns");
        check("ns", false, 999.96, "1.000 µs");
        check("ns", false, 12_345.6, "12.35 µs");
        check("ns", false, -1_234_567.0, "−1.235 ms");
        check("ns", false, 7.2e12, "7,200 s");
        check("ns", false, 1e300, "1.000e300 ns");
        check("ns", false, 1e-300, "1.000e−297 ps");
        check("s", false, 1e-5, "10.00 µs");
        check("s", false, 61.5, "61.50 s");
        check("ops/s", false, 12.0, "12.00 ops/s");
        check("ops/s", false, 2_500_000.0, "2.500 M ops/s");
        check("B/s", false, 1_073_741_824.0, "1.000 GiB/s");
        check("B", true, 1_536.0, "1,536 B");
        check("B", true, 52_428_800.0, "50.00 MiB");
        check("", true, 1234.0, "1,234");
        check("", true, 12_345_678.0, "12.35 M");
        check("", false, 88.0, "88.00");
        check("", false, 42_000.0, "42.00 k");
        check("widgets", true, 3.0, "3 widgets");
        check("widgets", false, 3e6, "3.000 M widgets");
        check("µs", false, 1500.0, "1.500 ms");
        check("Hz", false, 3.2e9, "3.200 GHz");
        check("%", false, 12.5, "12.50 %");
        check("m", false, 1e300, "1.000e300 m");
        check("m", false, 1e-300, "1.000e−300 m");
    }

    #[test]
    fn what_differs_looks_different() {
        let check = |symbol, value, other, expected: [&str; 2]| {
            let scale = Units::new(symbol, symbol == "B").scale(value, Some(other));
            assert_eq!([scale.with_unit(value), scale.with_unit(other)], expected);
        };
        check("ns", 1000.0, 1010.0, ["1.000 µs", "1.010 µs"]);
        check("ns", 1000.0, 1000.1, ["1.0000 µs", "1.0001 µs"]);
        check("ns", 1500.0, 2e6, ["1.500 µs", "2,000.000 µs"]);
        check("ns", 0.0, 2e6, ["0.000 ms", "2.000 ms"]);
        check("ns", 523.1e6, 12.0, ["523.1 ms", "0.000012 ms"]);
        check("ns", 523.1e6, 0.012, ["523.1 ms", "1.200e−8 ms"]);
        check("B", 52_428_800.0, 52_428_801.0, ["52,428,800 B", "52,428,801 B"]);
    }

    #[test]
    fn spreads() {
        let check = |value, lower, upper, expected: &str| {
            let scale = Units::new("ns", false).scale(value, None);
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
    fn nothing_panics() {
        let values = [0.0, -0.0, 1e-308, f64::MIN_POSITIVE / 8.0, f64::MAX, -f64::MAX, 999.999_999];
        for symbol in ["ns", "s", "B", "ops/s", "x"] {
            let units = Units::new(symbol, symbol == "B");
            for value in values {
                for other in values {
                    let scale = units.scale(value, Some(other));
                    assert!(!scale.with_spread(value, (Some(other), Some(value))).is_empty());
                }
            }
        }
    }
}
