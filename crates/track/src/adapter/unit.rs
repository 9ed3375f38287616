//! Units of time and of rates as written by tools, and the measures of values for which only the unit is known.

use rustc_hash::FxHashMap;

use super::{line::in_one_line, naming};
use crate::model::{Direction, Measure};

/// Size of a time unit in nanoseconds. `None` for any other unit.
pub(super) fn nanoseconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ps" => 1e-3,
        "ns" => 1.0,
        // There are two micro signs.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1e3,
        "ms" => 1e6,
        "s" | "sec" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return None,
    })
}

/// The power of a prefix: 1 for the first of these letters.
pub(super) fn power(letters: &str, prefix: char) -> Option<i32> {
    letters.find(prefix).and_then(|at| i32::try_from(at + 1).ok())
}

/// A number as printed by tools: digits with at most one point, thousands separated by commas, an exponent. A comma
/// anywhere else may be a decimal comma, and is rejected.
pub(super) fn number(text: &str) -> Option<f64> {
    let starts_right = text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
    if !starts_right {
        return None;
    }
    // Most are counts. A float represents that few digits exactly.
    if text.len() <= 15 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let whole = text.bytes().fold(0, |whole, digit| whole * 10 + u64::from(digit - b'0'));
        return Some(whole as f64);
    }
    let value = match text.contains(',') {
        true if !has_thousands(text) => return None,
        true => text.replace(',', "").parse(),
        false => text.parse(),
    };
    value.ok().filter(|value: &f64| value.is_finite())
}

/// The number of a tool that never groups thousands. NaN if there is a comma, which must be a decimal comma.
pub(super) fn ungrouped(text: &str) -> Option<f64> {
    match text.contains(',') {
        true => number(&text.replace(',', "")).map(|_| f64::NAN),
        false => number(text),
    }
}

/// Whether each comma precedes a group of exactly three digits of the integer part: `12,345.5`.
fn has_thousands(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let whole = text.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(text.len());
    let (whole, rest) = text.split_at(whole);
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    (1..=3).contains(&first.len())
        && !first.starts_with('0')
        && groups.all(|group| group.len() == 3)
        && !rest.contains(',')
}

/// Whether a text is a number apart from its commas.
pub(super) fn has_odd_comma(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_part = |byte| matches!(byte, b'0'..=b'9' | b',' | b'.');
    text.contains(',')
        && digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(is_part)
        && number(text).is_none()
}

/// Error message about decimal commas.
pub(super) const ODD_COMMA: &str = "has a comma that does not stand between thousands; \
                                    make the program write decimal points (LC_ALL=C)";

/// Why a text is not a number, and how to fix it.
pub(super) fn no_number(text: &str) -> String {
    match text.contains(',') {
        true => format!("{text:?} {ODD_COMMA}"),
        false => format!("{text:?} is not a number"),
    }
}

/// Measures for user-defined units, each with the factor of its values.
#[derive(Default)]
pub(crate) struct Measures(FxHashMap<String, (Measure, f64)>);

impl Measures {
    /// The measure of a unit. A time is a latency, operations per second are a throughput. Any other unit has its own
    /// measure, as in `go_bench`.
    pub(crate) fn of(&mut self, unit: &str) -> (&Measure, f64) {
        let make = |unit: &String| {
            let plain =
                ["/iter", "/op"].iter().find_map(|per| unit.strip_suffix(per)).unwrap_or(unit);
            let time = match plain.to_lowercase().as_str() {
                "nanosecond" | "nanoseconds" => Some(1.0),
                "microsecond" | "microseconds" => Some(1e3),
                "millisecond" | "milliseconds" => Some(1e6),
                "second" | "seconds" => Some(1e9),
                // A single letter is ambiguous.
                "m" | "h" => None,
                _ => nanoseconds(plain),
            };
            match (time, unit.as_str()) {
                (Some(factor), _) => (Measure::latency(), factor),
                (_, "ops/sec" | "ops/s" | "op/s") => (Measure::throughput(), 1.0),
                (_, "") => (Measure::named("value"), 1.0),
                (_, own) => (naming::counter(own, own, Direction::Unknown), 1.0),
            }
        };
        let found = self.0.entry(in_one_line(unit).into_owned()).or_insert_with_key(make);
        (&found.0, found.1)
    }
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
    fn commas_stand_between_thousands_only() {
        let check = |text, expected| {
            assert_eq!(number(text), expected, "{text:?}");
            assert_eq!(has_odd_comma(text), expected.is_none(), "{text:?}");
        };
        check("1,234", Some(1234.0));
        check("-12,345,678", Some(-12_345_678.0));
        check("1,234e1", Some(12_340.0));
        for odd in ["26,3077", "1,5", "0,595", "1.234,56", "1,23,456", "1234,567", "1,,234", "1,"] {
            check(odd, None);
        }
        assert!(no_number("1,5").contains("LC_ALL=C"));
        assert_eq!((ungrouped("237.735"), ungrouped("a,b")), (Some(237.735), None));
        assert!(ungrouped("237,735").is_some_and(f64::is_nan));
        for other in ["a, 5", "", "12", "5,a"] {
            assert!(!has_odd_comma(other), "{other:?}");
        }
    }

    #[test]
    fn both_signs_for_micro() {
        for unit in ["us", "µs", "μs"] {
            assert_eq!(nanoseconds(unit), Some(1000.0));
        }
        assert_eq!(nanoseconds("ops"), None);
    }
}
