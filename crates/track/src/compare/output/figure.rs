//! Shares as people read them.

/// A share without its sign: `1.2 %`.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let size = percent.abs();
    match () {
        () if size >= 1000.0 => format!("{percent:.0} %"),
        () if (99.0..100.0).contains(&size) => {
            let text = format!("{percent:.4}");
            format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
        }
        () if size >= 10.0 => format!("{percent:.1} %").replace(".0 %", " %"),
        () if size >= 0.995 => format!("{percent:.1} %"),
        () if size >= 0.01 => format!("{percent:.2} %"),
        () if size == 0.0 => "0 %".to_owned(),
        () => format!("{percent:.0e} %"),
    }
}

/// A change: `+1.2 %`, `−0.3 %`.
pub(super) fn signed_percent(share: f64) -> String {
    let percent = share * 100.0;
    let text = match percent.abs() {
        size if size >= 1000.0 => format!("{percent:+.0} %"),
        size if size >= 9.995 => format!("{percent:+.1} %"),
        size if size >= 0.005 => format!("{percent:+.2} %"),
        0.0 => "0 %".to_owned(),
        _ => format!("{percent:+.0e} %"),
    };
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        let check = |share, expected: &str, signed: &str| {
            assert_eq!(
                (percent(share).as_str(), signed_percent(share).as_str()),
                (expected, signed)
            );
        };
        check(0.01, "1.0 %", "+1.00 %");
        check(0.0123, "1.2 %", "+1.23 %");
        check(0.002, "0.20 %", "+0.20 %");
        check(0.25, "25 %", "+25.0 %");
        check(-0.5, "-50 %", "−50.0 %");
        check(0.0, "0 %", "0 %");
        check(20.0, "2000 %", "+2000 %");
        check(1e-6, "1e-4 %", "+1e−4 %");
        check(0.9996, "99.96 %", "+100.0 %");
    }
}
