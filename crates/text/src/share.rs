//! Shares in percent: signed changes, and unsigned sizes. A hundredfold increase or more is written as a factor.

use crate::numbers::{exponential, rounded, significant_decimals};

/// Share from which a change is written as a factor.
const FACTOR_MIN: f64 = 100.0;

/// A change as a share: `+4.2 %`, `−0.34 %`, `+1,200 %`; `108,051 ×` beyond 10,000 %.
#[must_use]
pub fn change(share: f64) -> String {
    if share >= FACTOR_MIN {
        return format!("{} ×", factor(share));
    }
    let percent = share * 100.0;
    format!("{} %", signed(percent, places(percent)))
}

/// The interval of a change, both ends with the same decimals and without `%`: `−0.5 to +2.5`; as factors,
/// `98 to 121 ×`, beyond 10,000 %.
#[must_use]
pub fn interval(lower: f64, upper: f64) -> String {
    if upper >= FACTOR_MIN {
        return format!("{} to {} ×", factor(lower), factor(upper));
    }
    let (lower, upper) = (lower * 100.0, upper * 100.0);
    let places = places(if lower.abs() > upper.abs() { lower } else { upper });
    format!("{} to {}", signed(lower, places), signed(upper, places))
}

/// A share without a sign: `1.3 %`, `0.60 %`, `40 %`; `101 ×` if a change of that size is a factor.
#[must_use]
pub fn size(share: f64) -> String {
    if share.abs() >= FACTOR_MIN {
        return format!("{} ×", factor(share.abs()));
    }
    let percent = share.abs() * 100.0;
    let text = written(percent, places(percent));
    // Two digits are enough for an estimate.
    let text = if percent >= 9.95 { text.strip_suffix(".0").unwrap_or(&text) } else { &text };
    format!("{text} %")
}

/// A part of a whole, formatted like [`size`].
#[must_use]
pub fn part(part: u64, whole: u64) -> String {
    size(part as f64 / whole.max(1) as f64)
}

/// Decimals of a percentage. `None` if it is too large or too small for them.
fn places(percent: f64) -> Option<usize> {
    match percent.abs() {
        0.0 => Some(0),
        size if size >= 1e6 => None,
        size if size >= 99.95 => Some(0),
        size if size >= 0.995 => Some(1),
        size if size >= 0.01 => Some(2),
        size if size >= 1e-4 => Some(significant_decimals(size, 1)),
        _ => None,
    }
}

/// New ÷ old of a change.
fn factor(share: f64) -> String {
    let factor = 1.0 + share;
    match factor.abs() < 1e12 {
        true => rounded(factor, significant_decimals(factor, 2)),
        false => exponential(factor, 1),
    }
}

fn signed(percent: f64, places: Option<usize>) -> String {
    let size = written(percent.abs(), places);
    match percent {
        0.0 => size,
        _ if percent < 0.0 => format!("−{size}"),
        _ => format!("+{size}"),
    }
}

fn written(size: f64, places: Option<usize>) -> String {
    match places {
        Some(places) => rounded(size, places),
        None => exponential(size, usize::from(size >= 1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        let check = |share, signed: &str, unsigned: &str| {
            assert_eq!((change(share).as_str(), size(share).as_str()), (signed, unsigned));
        };
        check(0.0, "0 %", "0 %");
        check(0.0421, "+4.2 %", "4.2 %");
        check(0.01, "+1.0 %", "1.0 %");
        check(0.0034, "+0.34 %", "0.34 %");
        check(0.125, "+12.5 %", "12.5 %");
        check(-0.5, "−50.0 %", "50 %");
        check(12.0, "+1,200 %", "1,200 %");
        check(99.0, "+9,900 %", "9,900 %");
        check(100.0, "101 ×", "101 ×");
        check(108_050.4, "108,051 ×", "108,051 ×");
        check(1e15, "1.0e15 ×", "1.0e15 ×");
        check(-0.000_012, "−0.001 %", "0.001 %");
        check(1e-9, "+1e−7 %", "1e−7 %");
    }

    #[test]
    fn parts() {
        let check = |of, whole, expected| assert_eq!(part(of, whole), expected);
        check(0, 0, "0 %");
        check(1, 3, "33.3 %");
        check(3, 3, "100 %");
        check(1, 100_000, "0.001 %");
    }

    #[test]
    fn intervals() {
        let check = |lower, upper, expected| assert_eq!(interval(lower, upper), expected);
        check(-0.005, 0.025, "−0.5 to +2.5");
        check(-0.004, 0.003, "−0.40 to +0.30");
        check(0.0, 0.5, "0.0 to +50.0");
        check(-12.0, 0.1, "−1,200 to +10");
        check(0.000_002, 0.1, "+0.00020 to +10.0");
        check(-1.0, 114.0, "0 to 115 ×");
        check(-0.5, 114.0, "0.50 to 115 ×");
    }
}
