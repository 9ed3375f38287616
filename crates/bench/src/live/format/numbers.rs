//! Numbers and foreign text as people are to see them.

/// `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of so many decimals, with commas: `1,234.5`. What is above zero does not look like zero:
/// `<0.01`.
pub fn decimal(number: f64, decimals: usize) -> String {
    if !number.is_finite() {
        return "–".to_owned();
    }
    let least = 10_f64.powi(-i32::try_from(decimals).unwrap_or(0));
    if number > 0.0 && number < least / 2.0 {
        return format!("<{least:.decimals$}");
    }
    let text = format!("{number:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    // Larger ones have no digit to spare for grouping.
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), grouped);
    if fraction.is_empty() { whole } else { format!("{whole}.{fraction}") }
}

/// `12.3 s`, `1.23 s`, `45 ms`.
pub fn seconds(duration_ns: u64) -> String {
    match duration_ns {
        0..1_000_000_000 => format!("{} ms", duration_ns / 1_000_000),
        1_000_000_000..10_000_000_000 => format!("{:.2} s", duration_ns as f64 / 1e9),
        _ => format!("{:.1} s", duration_ns as f64 / 1e9),
    }
}

/// Text that a terminal does not obey: control characters become question marks. Names of processes
/// are theirs to choose.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups() {
        let check = |number, expected: &str| assert_eq!(grouped(number), expected);
        check(0, "0");
        check(999, "999");
        check(1_000, "1,000");
        check(1_234_567, "1,234,567");
        check(u64::MAX, "18,446,744,073,709,551,615");
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
        check(f64::NAN, 1, "–");
        check(f64::INFINITY, 1, "–");
        check(1e30, 0, "1000000000000000019884624838656");
    }

    #[test]
    fn durations() {
        let check = |duration_ns, expected: &str| assert_eq!(seconds(duration_ns), expected);
        check(0, "0 ms");
        check(45_600_000, "45 ms");
        check(1_234_000_000, "1.23 s");
        check(12_345_000_000, "12.3 s");
    }

    #[test]
    fn terminals_are_not_at_the_mercy_of_names() {
        assert_eq!(printable("a\u{1b}[31m\nb\u{7f}é"), "a?[31m?b?é");
    }
}
