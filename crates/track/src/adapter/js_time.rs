//! `console.time`: `NAME: 12.3ms`, with or without ` - timer ended`, as printed by Node, Deno, Firefox and Chrome.

use crate::adapter::prelude::*;

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let mut results = Results::default();
    let latency = Measure::latency();
    for (at, text) in lines(Adapter::JsTime, text) {
        if let Some((name, time_ns)) = timer(text) {
            if time_ns.is_nan() {
                at.lose(&mut results, name, at.malformed(no_number(text.trim())));
                continue;
            }
            at.set_indented(&mut results, name)?;
            at.benchmark(&mut results, name)?.add(&latency, Metric::new(time_ns))?;
        }
    }
    Ok(results)
}

/// Name and nanoseconds. NaN if the time has a decimal comma.
fn timer(line: &str) -> Option<(&str, f64)> {
    let line = line.trim_end();
    let line =
        line.strip_suffix("timer ended").map_or(line, |line| line.trim_end_matches([' ', '-']));
    let (name, time) = rsplit_once(line, ": ")?;
    if name.trim().is_empty() {
        return None;
    }
    // From a minute on Node writes `1:02.345 (m:ss.mmm)`, from an hour on `1:00:02.345 (h:mm:ss.mmm)`.
    let time_ns = match split_once(time, " (") {
        Some((clock, "m:ss.mmm)" | "h:mm:ss.mmm)")) => by_clock(clock)?,
        _ => by_unit(time)?,
    };
    Some((name, time_ns))
}

fn by_unit(time: &str) -> Option<f64> {
    let end = time.rfind(|c: char| c.is_ascii_digit())? + 1;
    let (value, unit) = time.split_at(end);
    let factor = nanoseconds(unit.trim())?;
    if has_odd_comma(value) {
        return Some(f64::NAN);
    }
    let value = number(value)?;
    (value >= 0.0).then_some(value * factor)
}

fn by_clock(clock: &str) -> Option<f64> {
    let seconds =
        clock.split(':').try_fold(0.0, |total, part| Some(total * 60.0 + number(part)?))?;
    Some(seconds * 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers() {
        let check = |line, expected| assert_eq!(timer(line), expected, "{line:?}");
        check("default: 7617ms - timer ended", Some(("default", 7_617e6)));
        check("a name: with 3ms: 0.25ms", Some(("a name: with 3ms", 0.25e6)));
        check("a: 0.25 ms", Some(("a", 0.25e6)));
        check("a: 1.5s", Some(("a", 1.5e9)));
        check("a: 1:02.500 (m:ss.mmm)", Some(("a", 62.5e9)));
        check("a: 1:01:02.500 (h:mm:ss.mmm)", Some(("a", 3662.5e9)));
        check("a: 12 bees", None);
        check("  a: 5ms", Some(("  a", 5e6)));
        check("a: 12", None);
        check("a: 0.094ms on the way { a: 1 }", None);
        check(": 1ms", None);
        check("12:30", None);
        check("a: 1,234ms", Some(("a", 1234e6)));
        check("hello, 5ms", None);
        assert!(timer("a: 1,5ms").is_some_and(|(name, time_ns)| name == "a" && time_ns.is_nan()));
    }
}
