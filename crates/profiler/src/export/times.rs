//! Times in the tooltips of a flame graph.
//!
//! inferno writes integers: `(20,123,456 ns, 4.20%)`. This makes it `(20.1 ms, 4.20%)`.

use wingbeat_text::duration;

/// The unit passed to inferno.
pub(super) const UNIT: &str = "ns";

/// Converts each tooltip of a flame graph in nanoseconds to a suitable unit.
pub(super) fn in_fitting_units(svg: &str) -> String {
    let mut text = String::with_capacity(svg.len());
    let mut tooltips = svg.split("</title>").peekable();
    while let Some(part) = tooltips.next() {
        let is_last = tooltips.peek().is_none();
        match (is_last, fitting(part)) {
            (false, Some((before, time, after))) => {
                text.push_str(before);
                text.push_str(&time);
                text.push_str(after);
            }
            _ => text.push_str(part),
        }
        if !is_last {
            text.push_str("</title>");
        }
    }
    text
}

/// Parses text ending in `(1,234 ns, 5.67%)`: returns the text before the number, the formatted time, and the rest.
fn fitting(part: &str) -> Option<(&str, String, &str)> {
    // Names may contain parentheses too, but come before.
    let open = part.rfind('(')? + 1;
    let (before, values) = part.split_at(open);
    let end = values.find(' ')?;
    let (number, after) = values.split_at(end);
    let after = after.strip_prefix(' ')?.strip_prefix(UNIT)?;
    if !after.starts_with(',') {
        return None;
    }
    let time_ns: u64 = number.replace(',', "").parse().ok()?;
    Some((before, duration(time_ns), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_tooltips_become_times() {
        let check = |svg: &str, expected: &str| assert_eq!(in_fitting_units(svg), expected);
        check("", "");
        check(
            "<g><title>f(int) (20,123,456 ns, 4.20%)</title><rect/></g>",
            "<g><title>f(int) (20.1 ms, 4.20%)</title><rect/></g>",
        );
        check(
            "<title>all (999 ns, 100%)</title><title>(7 ns) (1 ns, 0.10%)</title> (1,000 ns, 2%)",
            "<title>all (999 ns, 100%)</title><title>(7 ns) (1 ns, 0.10%)</title> (1,000 ns, 2%)",
        );
        check("<title>(1,000 nsx, 1%)</title>", "<title>(1,000 nsx, 1%)</title>");
        check("<title>é (1,0x0 ns, 1%)</title>", "<title>é (1,0x0 ns, 1%)</title>");
    }
}
