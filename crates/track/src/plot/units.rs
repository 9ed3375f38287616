//! Values with units that people can read: 1,234,567 "nanoseconds (ns)" is 1.23 ms.

use serde::Serialize;

use crate::model::{Kind, Measure};

/// The units of a measure as a ladder of prefixes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Units {
    /// Rungs, smallest first: how many of the measure's own units one of this unit is, and its symbol.
    rungs: Vec<(f64, String)>,
    /// Whole numbers are written out.
    whole: bool,
}

/// Times from a picosecond on, in nanoseconds.
const TIMES: [(f64, &str); 5] = [(1e-3, "ps"), (1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];

/// Prefixes of bytes.
const BINARY: [(f64, &str); 4] =
    [(1.0, ""), (1024.0, "Ki"), (1_048_576.0, "Mi"), (1_073_741_824.0, "Gi")];

/// Prefixes of everything else.
const DECIMAL: [(f64, &str); 4] = [(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G")];

/// Whole numbers of exact measures are written out below this.
const WHOLE_END: f64 = 1e7;

/// Values that are so many times the last rung have none.
const GIANT: f64 = 1e4;

/// The longest symbol that is shown, in characters.
const SYMBOL_MAX: usize = 24;

impl Units {
    /// Of a measure.
    #[must_use]
    pub fn of(measure: &Measure) -> Self {
        let symbol = symbol(measure);
        let time = TIMES.iter().find(|(_, name)| *name == symbol);
        if let Some(&(own, _)) = time {
            let rungs = TIMES.iter().map(|&(size, name)| (size / own, name.to_owned()));
            return Self { rungs: rungs.collect(), whole: false };
        }
        let is_bytes = symbol == "B" || symbol == "B/s";
        let prefixes = if is_bytes { BINARY } else { DECIMAL };
        let rungs = prefixes.iter().map(|&(size, prefix)| {
            // "M ops/s", since "Mops/s" is no unit that anybody knows; but "MiB".
            let gap = if is_bytes || prefix.is_empty() || symbol.is_empty() { "" } else { " " };
            (size, format!("{prefix}{gap}{symbol}"))
        });
        Self { rungs: rungs.collect(), whole: measure.kind == Kind::Exact }
    }

    /// The rung on which a value has one to three digits before the point, as far as there is one.
    #[must_use]
    pub fn rung(&self, value: f64) -> (f64, &str) {
        let size = value.abs();
        let fits = |rung: &&(f64, String)| size >= rung.0 * 0.999_95;
        let own = self.rungs.iter().find(|rung| rung.0 == 1.0);
        // Zero has no size, and for giants there is no prefix, so they stand in the measure's own units.
        let is_giant = self.rungs.last().is_some_and(|rung| size > rung.0 * GIANT);
        let found = match size > 0.0 && !is_giant && !(self.whole && size < WHOLE_END) {
            true => self.rungs.iter().rev().find(fits).or(self.rungs.first()),
            false => own,
        };
        found.map_or((1.0, ""), |(size, symbol)| (*size, symbol))
    }

    /// A value with its units, to four significant digits: `12.35 µs`.
    #[must_use]
    pub fn format(&self, value: f64) -> String {
        let (size, symbol) = self.rung(value);
        let number = match self.whole && value.fract() == 0.0 && size == 1.0 {
            true => fixed(value, 0),
            false => significant(value / size),
        };
        if symbol.is_empty() { number } else { format!("{number} {symbol}") }
    }
}

/// What stands in the last pair of brackets, or else the whole text, unless the measure's name says it.
fn symbol(measure: &Measure) -> String {
    let text = measure.units.trim();
    let inner = text.strip_suffix(')').and_then(|rest| rest.rsplit_once('('));
    let text = match inner.map(|(_, inner)| inner.trim()) {
        // An unknown measure has the units "NAME (units)", which tell nothing.
        Some("units") => "",
        Some("us") => "µs",
        Some(inner) if !inner.is_empty() => inner,
        _ if measure.name.to_lowercase().contains(&text.to_lowercase()) => "",
        _ => text,
    };
    text.chars().take(SYMBOL_MAX).collect()
}

/// A number to four significant digits, and no digit before the point left out.
#[must_use]
pub fn significant(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-6..1e9).contains(&size) {
        return minus(&format!("{value:.3e}"));
    }
    let before_point = size.log10().floor();
    // 9.9999 becomes 10.00 by rounding, one digit more than asked for, which does no harm.
    let decimals = (3.0 - before_point).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.decimals$}");
    // 17 rather than 17.00, but 1.080 beside 1.007.
    let text = match text.split_once('.') {
        Some((whole, rest)) if rest.bytes().all(|digit| digit == b'0') => whole.to_owned(),
        _ => text,
    };
    minus(&grouped(&text))
}

/// A number with that many decimals.
#[must_use]
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let is_zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
    minus(&grouped(if is_zero { text.trim_start_matches('-') } else { &text }))
}

/// A share as a signed percentage: `+4.2 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    let text = match percent.abs() {
        0.0 => "0".to_owned(),
        size if size >= 1e6 => format!("{percent:+.1e}"),
        size if size >= 100.0 => format!("{percent:+.0}"),
        size if size >= 9.995 => format!("{percent:+.1}"),
        size if size >= 0.005 => format!("{percent:+.2}"),
        _ => "±0.00".to_owned(),
    };
    format!("{} %", minus(&text))
}

/// With commas between groups of three digits before the point, from five digits on.
fn grouped(text: &str) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let point = digits.find('.').unwrap_or(digits.len());
    let (whole, rest) = digits.split_at(point);
    if whole.len() < 5 {
        return text.to_owned();
    }
    let mut out = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

fn minus(text: &str) -> String {
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_units() {
        let check = |slug: &str, value, expected| {
            assert_eq!(Units::of(&Measure::named(slug)).format(value), expected, "{slug} {value}");
        };
        check("latency", 0.0, "0 ns");
        check("latency", 0.25, "250 ps");
        check("latency", 17.0, "17 ns");
        check("latency", 999.9, "999.9 ns");
        check("latency", 999.96, "1 µs");
        check("latency", 1_234_567.0, "1.235 ms");
        check("latency", -1_234_567.0, "−1.235 ms");
        check("latency", 7.2e12, "7200 s");
        check("latency", 1e300, "1.000e300 ns");
        check("latency", 1e-300, "1.000e−297 ps");
        check("build-time", 1e-5, "10 µs");
        check("file-size", 1_536.0, "1536 B");
        check("file-size", 15_728_640.0, "15 MiB");
        check("bytes-per-second", 1_073_741_824.0, "1 GiB/s");
        check("throughput", 2_500_000.0, "2.500 M ops/s");
        check("instructions", 12_345.0, "12,345");
        check("instructions", 12_345_678.0, "12.35 M");
        check("l1-hits", 12.0, "12");
        check("score", 42.0, "42");
        check("score", 42_000.0, "42 k");
    }

    #[test]
    fn numbers() {
        let check = |value, expected| assert_eq!(significant(value), expected, "{value}");
        check(123_456.7, "123,457");
        check(1234.5, "1234");
        check(9.999_96, "10");
        check(0.001_234_5, "0.001234");
        check(-0.5, "−0.5000");
        check(1e12, "1.000e12");
        let check = |value, decimals, expected| assert_eq!(fixed(value, decimals), expected);
        check(1_000_000.5, 1, "1,000,000.5");
        check(-0.000_01, 2, "0.00");
        check(-12_345.0, 0, "−12,345");
        let check = |share, expected| assert_eq!(percent(share), expected);
        check(0.0421, "+4.21 %");
        check(-0.5, "−50.0 %");
        check(12.0, "+1200 %");
        check(0.0, "0 %");
        check(1e-9, "±0.00 %");
    }
}
