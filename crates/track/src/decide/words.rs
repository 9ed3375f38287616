//! Number formats specific to the reasons of verdicts.

use wingbeat_text::{exponential, fixed};

/// Larger distances, in spreads, are given as "more than".
const SPREADS_MAX: f64 = 1000.0;

/// Smaller p-values are given as "less than": the assumptions are not that accurate.
const CHANCE_MIN: f64 = 1e-9;

/// A p-value: `p = 0.002`, `p = 3e−7`, `p < 1e−9`.
pub(super) fn chance(p: f64) -> String {
    match p {
        _ if p >= 0.001 => format!("p = {p:.3}"),
        _ if p >= CHANCE_MIN => format!("p = {}", exponential(p, 0)),
        _ => format!("p < {}", exponential(CHANCE_MIN, 0)),
    }
}

/// A distance in spreads, without the word: `4.2`, `less than 0.1`, `more than 1,000`.
pub(super) fn in_spreads(spreads: f64) -> String {
    match spreads {
        0.0 => "0".to_owned(),
        _ if spreads < 0.05 => "less than 0.1".to_owned(),
        _ if spreads > SPREADS_MAX => format!("more than {}", fixed(SPREADS_MAX, 0)),
        _ => fixed(spreads, 1),
    }
}

pub(super) fn with_news(reason: String, news: &[String]) -> String {
    if news.is_empty() { reason } else { format!("{reason}; new since then: {}", news.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances() {
        let check = |p, expected| assert_eq!(chance(p), expected);
        check(1.0, "p = 1.000");
        check(0.0021, "p = 0.002");
        check(3e-7, "p = 3e−7");
        check(1e-12, "p < 1e−9");
        check(0.0, "p < 1e−9");
    }

    #[test]
    fn distances() {
        let check = |spreads, expected| assert_eq!(in_spreads(spreads), expected);
        check(0.0, "0");
        check(0.01, "less than 0.1");
        check(4.23, "4.2");
        check(1000.0, "1,000.0");
        check(1000.1, "more than 1,000");
        check(f64::INFINITY, "more than 1,000");
    }
}
