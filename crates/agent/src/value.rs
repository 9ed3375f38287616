//! Label values in the form that backends accept.

/// Maximum characters of a value.
const VALUE_CHARS_MAX: usize = 200;

/// Sanitizes arbitrary text, such as a program's name.
pub(crate) fn label_value(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(VALUE_CHARS_MAX).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_plain_and_short() {
        let check = |text: &str, expected: &str| assert_eq!(label_value(text), expected);
        check("nginx", "nginx");
        check("a\nb\u{1b}[0m", "a b [0m");
        check(&"ä".repeat(300), &"ä".repeat(200));
    }
}
