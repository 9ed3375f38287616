//! Numbers in sentences.

/// A share as a signed percentage: `+4.2 %`.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        size if size >= 1000.0 => format!("{percent:+.0} %"),
        size if size >= 0.095 => format!("{percent:+.1} %"),
        0.0 => "0 %".to_owned(),
        size if size >= 1e-4 => format!("{percent:+.4} %"),
        _ => format!("{percent:+.1e} %"),
    }
}

/// A chance: `0.002`, `3e-7`.
pub(super) fn chance(p: f64) -> String {
    if p >= 0.001 { format!("{p:.3}") } else { format!("{p:.0e}") }
}

/// Appends what is new about the environment.
pub(super) fn with_news(reason: String, news: &[String]) -> String {
    if news.is_empty() { reason } else { format!("{reason}; new since then: {}", news.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_as_percentages() {
        let check = |share, expected: &str| assert_eq!(percent(share), expected);
        check(0.0421, "+4.2 %");
        check(-0.5, "-50.0 %");
        check(8.0, "+800.0 %");
        check(80.0, "+8000 %");
        check(0.000_012, "+0.0012 %");
        check(1e-9, "+1.0e-7 %");
        check(0.0, "0 %");
    }
}
