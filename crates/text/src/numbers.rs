//! Number formatting: digits, grouping, signs and units.

use std::{fmt::Display, time::Duration};

/// A whole number with thousands separators: `1,234,567`.
#[must_use]
pub fn grouped(number: impl Display) -> String {
    in_groups(&number.to_string())
}

/// `1 metric`, `2 metrics`, `1,000 batches`.
#[must_use]
pub fn plural(count: impl Display, noun: &str) -> String {
    let count = grouped(count);
    let ending = match noun {
        _ if count == "1" => "",
        _ if noun.ends_with('s') || noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
}

/// A figure, or a dash if it is unavailable.
#[must_use]
pub fn or_dash<T>(figure: Option<T>, write: impl FnOnce(T) -> String) -> String {
    figure.map_or_else(|| "–".to_owned(), write)
}

/// A number with that many decimals: `1,234.50`, `−3`. Never `−0`.
#[must_use]
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let is_zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
    in_groups(if is_zero { text.trim_start_matches('-') } else { &text })
}

/// A number with exactly that many decimals, for columns. Positive numbers never look like zero: `<0.01`.
#[must_use]
pub fn decimal(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let least = 10_f64.powi(-i32::try_from(decimals).unwrap_or(0));
    match value > 0.0 && value < least / 2.0 {
        true => format!("<{least:.decimals$}"),
        false => fixed(value, decimals),
    }
}

/// A number with that many decimals, or with as many more as needed to differ from zero.
#[must_use]
pub fn rounded(value: f64, places: usize) -> String {
    let is_nothing = |text: &str| !text.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    let forms = [places, significant_decimals(value, 2)].map(|places| fixed(value, places));
    match forms.iter().position(|text| value == 0.0 || !is_nothing(text)) {
        Some(first) => forms[first].clone(),
        None => exponential(value, 1),
    }
}

/// A number too large or too small for positional notation: `1.235e12`.
#[must_use]
pub fn exponential(value: f64, decimals: usize) -> String {
    format!("{value:.decimals$e}").replace('-', "−")
}

/// Decimals that show `digits` significant digits, at most 9.
#[must_use]
pub fn significant_decimals(value: f64, digits: i32) -> usize {
    let size = value.abs();
    if size == 0.0 || !size.is_finite() {
        return 0;
    }
    let magnitude = size.log10().floor() as i32;
    let after = digits - 1 - magnitude;
    // The digits before the point after rounding: 999.96 has four.
    let carries = size + 0.5 * 10f64.powi(-after) >= 10f64.powi(magnitude + 1);
    usize::try_from(after - i32::from(carries)).unwrap_or(0).min(9)
}

/// A duration to three significant digits, in a suitable unit: `999 ns`, `20.1 ms`, `1,234 s`.
#[must_use]
pub fn duration(time_ns: u64) -> String {
    // A unit ends where its rounding reaches the next.
    let (value, unit) = match time_ns {
        0..1_000 => return format!("{time_ns} ns"),
        1_000..999_500 => (time_ns as f64 / 1e3, "µs"),
        999_500..999_500_000 => (time_ns as f64 / 1e6, "ms"),
        _ => (time_ns as f64 / 1e9, "s"),
    };
    format!("{} {unit}", fixed(value, significant_decimals(value, 3)))
}

/// Formats a [`Duration`] like [`duration`].
#[must_use]
pub fn duration_of(time: Duration) -> String {
    duration(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// A rounded size in bytes: `9,999 bytes`, `123 KB`, `55 MB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let rounded = |unit: u64| grouped(bytes / unit + u64::from(bytes % unit >= unit / 2));
    match bytes {
        0..10_000 => plural(bytes, "byte"),
        10_000..9_999_500 => format!("{} KB", rounded(1_000)),
        _ => format!("{} MB", rounded(1_000_000)),
    }
}

/// Adds thousands separators and replaces the hyphen by a minus sign.
fn in_groups(number: &str) -> String {
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => ("−", digits),
        None => ("", number),
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups() {
        let check = |number: u64, expected: &str| assert_eq!(grouped(number), expected);
        check(0, "0");
        check(999, "999");
        check(1_000, "1,000");
        check(1_234_567, "1,234,567");
        check(u64::MAX, "18,446,744,073,709,551,615");
        assert_eq!(grouped(-1_234), "−1,234");
    }

    #[test]
    fn counts() {
        let check = |number, expected| assert_eq!(plural(number, "metric"), expected);
        check(0, "0 metrics");
        check(1, "1 metric");
        check(1000, "1,000 metrics");
        assert_eq!(plural(1, "process"), "1 process");
        assert_eq!(plural(2, "process"), "2 processes");
        assert_eq!(plural(2, "batch"), "2 batches");
    }

    #[test]
    fn digits() {
        let check = |value, decimals, expected| assert_eq!(fixed(value, decimals), expected);
        check(999.0, 0, "999");
        check(1000.0, 0, "1,000");
        check(1_000_000.5, 1, "1,000,000.5");
        check(-0.000_01, 2, "0.00");
        check(-12_345.0, 0, "−12,345");
        assert_eq!(exponential(-1.25e-7, 1), "−1.2e−7");
    }

    #[test]
    fn decimals() {
        let check =
            |number, decimals, expected: &str| assert_eq!(decimal(number, decimals), expected);
        check(0.0, 1, "0.0");
        check(63.44, 1, "63.4");
        check(1_234.56, 1, "1,234.6");
        check(0.004, 2, "<0.01");
        check(0.006, 2, "0.01");
        check(12_345.6, 0, "12,346");
        check(0.2, 0, "<1");
        check(-1_234.56, 1, "−1,234.6");
        check(f64::NAN, 1, "–");
        check(f64::INFINITY, 1, "–");
    }

    #[test]
    fn only_nothing_looks_like_nothing() {
        let check = |value, places, expected| assert_eq!(rounded(value, places), expected);
        check(0.0, 1, "0.0");
        check(0.06, 1, "0.1");
        check(0.04, 1, "0.040");
        check(-0.000_012, 1, "−0.000012");
        check(1.6e-9, 1, "0.000000002");
        check(1.5e-12, 1, "1.5e−12");
    }

    #[test]
    fn significant_digits() {
        let check = |value, expected| assert_eq!(significant_decimals(value, 4), expected);
        check(0.0, 0);
        check(1.5, 3);
        check(9.999_96, 2);
        check(12_345.0, 0);
        check(0.001_234, 6);
        check(1e-30, 9);
    }

    #[test]
    fn durations() {
        let check = |time_ns, expected: &str| assert_eq!(duration(time_ns), expected);
        check(0, "0 ns");
        check(999, "999 ns");
        check(1_000, "1.00 µs");
        check(9_994, "9.99 µs");
        check(9_996, "10.0 µs");
        check(99_960, "100 µs");
        check(999_499, "999 µs");
        check(999_500, "1.00 ms");
        check(20_120_000, "20.1 ms");
        check(999_500_000, "1.00 s");
        check(12_345_000_000, "12.3 s");
        check(1_234_400_000_000, "1,234 s");
        check(u64::MAX, "18,446,744,074 s");
    }

    #[test]
    fn sizes() {
        let check = |amount, expected| assert_eq!(bytes(amount), expected);
        check(0, "0 bytes");
        check(1, "1 byte");
        check(9_999, "9,999 bytes");
        check(123_456, "123 KB");
        check(123_500, "124 KB");
        check(9_999_499, "9,999 KB");
        check(9_999_500, "10 MB");
        check(104_857_600, "105 MB");
        check(u64::MAX, "18,446,744,073,710 MB");
    }
}
