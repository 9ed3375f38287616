//! Shares, in percent: changes with their sign, and sizes without.

use super::digits::{decimals, exponential, fixed};

/// A change as a share: `+4.2 %`, `−0.34 %`, `+1,200 %`.
#[must_use]
pub fn change(share: f64) -> String {
    let percent = share * 100.0;
    format!("{} %", signed(percent, places(percent)))
}

/// Where a change lies, both ends with the same decimals and without `%`: `−0.5 to +2.5`.
#[must_use]
pub fn interval(lower: f64, upper: f64) -> String {
    let (lower, upper) = (lower * 100.0, upper * 100.0);
    let places = places(if lower.abs() > upper.abs() { lower } else { upper });
    format!("{} to {}", signed(lower, places), signed(upper, places))
}

/// A share without a sign: `1.3 %`, `0.60 %`, `40 %`.
#[must_use]
pub fn size(share: f64) -> String {
    let percent = share.abs() * 100.0;
    let text = written(percent, places(percent));
    // Two digits are enough of what is only an estimate.
    let text = if percent >= 9.95 { text.strip_suffix(".0").unwrap_or(&text) } else { &text };
    format!("{text} %")
}

/// Decimals of a percentage; what is too large or too small for them has none.
fn places(percent: f64) -> Option<usize> {
    match percent.abs() {
        0.0 => Some(0),
        size if size >= 1e6 => None,
        size if size >= 99.95 => Some(0),
        size if size >= 0.995 => Some(1),
        size if size >= 0.01 => Some(2),
        size if size >= 1e-4 => Some(decimals(size, 1)),
        _ => None,
    }
}

fn signed(percent: f64, places: Option<usize>) -> String {
    let size = written(percent.abs(), places);
    match percent {
        // What rounding has made nothing has no sign either.
        _ if size.bytes().all(|byte| matches!(byte, b'0' | b'.')) => size,
        _ if percent < 0.0 => format!("−{size}"),
        _ => format!("+{size}"),
    }
}

fn written(size: f64, places: Option<usize>) -> String {
    match places {
        Some(places) => fixed(size, places),
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
        check(1e5, "+1.0e7 %", "1.0e7 %");
        check(-0.000_012, "−0.001 %", "0.001 %");
        check(1e-9, "+1e−7 %", "1e−7 %");
    }

    #[test]
    fn intervals() {
        let check = |lower, upper, expected| assert_eq!(interval(lower, upper), expected);
        check(-0.005, 0.025, "−0.5 to +2.5");
        check(-0.004, 0.003, "−0.40 to +0.30");
        check(0.0, 0.5, "0.0 to +50.0");
        check(-12.0, 0.1, "−1,200 to +10");
    }
}
