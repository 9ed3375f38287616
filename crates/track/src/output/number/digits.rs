//! Digits: how many, in what groups, and what stands before and behind them.

/// A number with that many decimals: `1,234.50`, `−3`. Nothing is ever `−0`.
#[must_use]
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let is_zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
    grouped(if is_zero { text.trim_start_matches('-') } else { &text })
}

/// A number with that many decimals, or with as many more as it takes: what is not nothing never looks like
/// nothing.
#[must_use]
pub fn rounded(value: f64, places: usize) -> String {
    let is_nothing = |text: &str| !text.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    let forms = [places, decimals(value, 2)].map(|places| fixed(value, places));
    match forms.iter().position(|text| value == 0.0 || !is_nothing(text)) {
        Some(first) => forms[first].clone(),
        None => exponential(value, 1),
    }
}

/// A count: `1,234`.
#[must_use]
pub fn count(count: usize) -> String {
    grouped(&count.to_string())
}

/// `1 metric`, `2 metrics`, `1,000 metrics`.
#[must_use]
pub fn plural(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Items that a sentence names.
const NAMED_MAX: usize = 3;

/// `a, b, c and 1,000 more`.
#[must_use]
pub fn first_few(mut all: impl Iterator<Item = String>) -> String {
    let named: Vec<String> = all.by_ref().take(NAMED_MAX).collect();
    let named = named.join(", ");
    match all.count() {
        0 => named,
        more => format!("{named} and {} more", count(more)),
    }
}

/// A number that is too large or too small to be written out: `1.235e12`.
#[must_use]
pub fn exponential(value: f64, decimals: usize) -> String {
    format!("{value:.decimals$e}").replace('-', "−")
}

/// Decimals that show `digits` significant digits, at most 9.
pub(super) fn decimals(value: f64, digits: i32) -> usize {
    let size = value.abs();
    if size == 0.0 || !size.is_finite() {
        return 0;
    }
    let magnitude = size.log10().floor() as i32;
    let after = digits - 1 - magnitude;
    // The digits before the point, after rounding: 999.96 has four.
    let carries = size + 0.5 * 10f64.powi(-after) >= 10f64.powi(magnitude + 1);
    usize::try_from(after - i32::from(carries)).unwrap_or(0).min(9)
}

/// Thousands apart, and the sign of arithmetic.
fn grouped(number: &str) -> String {
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
    fn the_first_few() {
        let check = |count: u32, expected: &str| {
            assert_eq!(first_few((0..count).map(|number| number.to_string())), expected);
        };
        check(0, "");
        check(1, "0");
        check(3, "0, 1, 2");
        check(4, "0, 1, 2 and 1 more");
        check(2_003, "0, 1, 2 and 2,000 more");
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
    fn counts() {
        let check = |number, expected| assert_eq!(plural(number, "metric"), expected);
        check(0, "0 metrics");
        check(1, "1 metric");
        check(1000, "1,000 metrics");
    }

    #[test]
    fn significant_digits() {
        let check = |value, expected| assert_eq!(decimals(value, 4), expected, "{value}");
        check(0.0, 0);
        check(1.5, 3);
        check(9.999_96, 2);
        check(12_345.0, 0);
        check(0.001_234, 6);
        check(1e-30, 9);
    }
}
