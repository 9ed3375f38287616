//! Units of time and of rates, as tools write them.

/// Nanoseconds in one of the unit; `None` if it is none.
pub(super) fn nanoseconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ps" => 1e-3,
        "ns" => 1.0,
        // The sign for micro exists twice.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1e3,
        "ms" => 1e6,
        "s" | "sec" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return None,
    })
}

/// The power that a prefix stands for: 1 for the first of these letters.
pub(super) fn power(letters: &str, prefix: char) -> Option<i32> {
    letters.find(prefix).and_then(|at| i32::try_from(at + 1).ok())
}

/// A number as tools print it: digits with at most one point, commas between thousands, an exponent.
pub(super) fn number(text: &str) -> Option<f64> {
    let starts_right = text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
    if !starts_right {
        return None;
    }
    // Most are counts. A float holds each of so few digits.
    if text.len() <= 15 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let whole = text.bytes().fold(0, |whole, digit| whole * 10 + u64::from(digit - b'0'));
        return Some(whole as f64);
    }
    let value = if text.contains(',') { text.replace(',', "").parse() } else { text.parse() };
    value.ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_tools_print_them() {
        let check = |text, expected| assert_eq!(number(text), expected, "{text:?}");
        check("1,234.5", Some(1234.5));
        check("12", Some(12.0));
        check("999999999999999", Some(999_999_999_999_999.0));
        check("9007199254740993", Some(9_007_199_254_740_992.0));
        check("1e3", Some(1000.0));
        check("-2.5", Some(-2.5));
        check("inf", None);
        check("NaN", None);
        check("+1", None);
        check("", None);
    }

    #[test]
    fn both_signs_for_micro() {
        for unit in ["us", "µs", "μs"] {
            assert_eq!(nanoseconds(unit), Some(1000.0));
        }
        assert_eq!(nanoseconds("ops"), None);
    }
}
