//! Values with units that people can read: 1,234,567 "nanoseconds (ns)" is 1.23 ms.

use serde::Serialize;

/// The units of a measure as a ladder of prefixes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Units {
    /// Rungs, smallest first: how many of the measure's own units one of this unit is, and its symbol.
    rungs: Vec<(f64, String)>,
}

/// Times from a nanosecond on, in nanoseconds.
const TIMES: [(f64, &str); 6] =
    [(1e-3, "ps"), (1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"), (60e9, "min")];

/// Prefixes of counts.
const COUNTS: [(f64, &str); 5] = [(1.0, ""), (1e3, "K"), (1e6, "M"), (1e9, "G"), (1e12, "T")];

/// The longest symbol that is shown, in characters.
const SYMBOL_MAX: usize = 24;

impl Units {
    /// Of a description such as `nanoseconds (ns)`: the symbol in brackets, or else the whole text.
    #[must_use]
    pub fn parse(description: &str) -> Self {
        let symbol = symbol(description);
        let time = TIMES.iter().find(|(_, name)| *name == symbol || (*name == "µs" && symbol == "us"));
        if let Some(&(own, _)) = time {
            let rungs = TIMES.iter().map(|&(size, name)| (size / own, name.to_owned()));
            return Self { rungs: rungs.collect() };
        }
        let separator = if symbol == "B" || symbol == "B/s" { "" } else { " " };
        let rungs = COUNTS.iter().map(|&(size, prefix)| {
            let gap = if prefix.is_empty() || symbol.is_empty() { "" } else { separator };
            (size, format!("{prefix}{gap}{symbol}"))
        });
        Self { rungs: rungs.collect() }
    }

    /// The rung on which a value has one to three digits before the point, as far as there is one.
    #[must_use]
    pub fn rung(&self, value: f64) -> (f64, &str) {
        let size = value.abs();
        let fits = |rung: &&(f64, String)| size >= rung.0 * 0.9995;
        let own = self.rungs.iter().find(|rung| rung.0 == 1.0);
        // Zero has no size, so it stands in the measure's own units.
        let found = match size > 0.0 {
            true => self.rungs.iter().rev().find(fits).or(self.rungs.first()),
            false => own,
        };
        found.map_or((1.0, ""), |(size, symbol)| (*size, symbol))
    }

    /// A value with its units, to four significant digits: `12.35 µs`.
    #[must_use]
    pub fn format(&self, value: f64) -> String {
        let (size, symbol) = self.rung(value);
        let number = significant(value / size);
        if symbol.is_empty() { number } else { format!("{number} {symbol}") }
    }
}

/// What stands in the last pair of brackets, or the text itself, cut off if it is long.
fn symbol(description: &str) -> String {
    let text = description.trim();
    let inner = text.strip_suffix(')').and_then(|rest| rest.rsplit_once('(')).map(|(_, inner)| inner);
    let text = match inner.map(str::trim) {
        // An unknown measure has the units "NAME (units)", which tell nothing.
        Some("units") => "",
        Some(inner) if !inner.is_empty() => inner,
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
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
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
        let check = |description, value, expected| {
            assert_eq!(Units::parse(description).format(value), expected, "{description} {value}");
        };
        let ns = "nanoseconds (ns)";
        check(ns, 0.0, "0 ns");
        check(ns, 0.25, "250 ps");
        check(ns, 17.0, "17 ns");
        check(ns, 999.9, "1 µs");
        check(ns, 1_234_567.0, "1.235 ms");
        check(ns, -1_234_567.0, "−1.235 ms");
        check(ns, 7.2e12, "120 min");
        check("seconds (s)", 1e-5, "10 µs");
        check("bytes (B)", 1_500.0, "1.5 KB");
        check("bytes / second (B/s)", 1e9, "1 GB/s");
        check("operations / second (ops/s)", 2_500_000.0, "2.5 M ops/s");
        check("instructions", 12_345.0, "12.35 K instructions");
        check("score (units)", 42.0, "42");
        check("score (units)", 42_000.0, "42 K");
        check("", 1.0, "1");
        check(ns, 1e300, "1.667e289 min");
        check(ns, 1e-300, "1.000e−297 ps");
    }

    #[test]
    fn numbers() {
        let check = |value, expected| assert_eq!(significant(value), expected, "{value}");
        check(123_456.7, "123,457");
        check(1234.5, "1234");
        check(9.999_96, "10");
        check(0.001_234_5, "0.001234");
        check(-0.5, "−0.5");
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
