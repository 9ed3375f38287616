//! libtest: `test NAME ... bench: 1,234.56 ns/iter (+/- 78.90) = 451 MB/s`. Criterion's
//! `--output-format bencher` writes the same.
//!
//! The figure is a median, and what follows `+/-` is the distance of the slowest from the fastest
//! sample. A benchmark that panics says `FAILED`; why stands further down, below `---- NAME stdout ----`.

use std::collections::HashMap;

use super::{
    Adapter, AdapterError,
    line::{At, numbered},
    text::{rsplit_once, split_once, without_colors},
    unit,
};
use crate::{
    model::{Measure, Metric},
    results::{Average, Results},
};

/// Between name and figure.
const RESULT: &str = " ... bench:";
const FAILED: &str = " ... FAILED";

pub(super) fn parse(text: &str, _: Option<Average>) -> Result<Results, AdapterError> {
    let text = without_colors(text);
    let mut results = Results::default();
    let measures = [Measure::latency(), Measure::named("bytes-per-second")];
    let mut failed = Vec::new();
    for (line, content) in numbered(&text) {
        let Some(test) = content.strip_prefix("test ") else { continue };
        let at = At { adapter: Adapter::RustBench, line };
        if let Some((name, figures)) = rsplit_once(test, RESULT) {
            add(&mut results, &measures, at, name, figures)?;
        } else if let Some(name) = test.trim_end().strip_suffix(FAILED) {
            failed.push(at.name(name)?);
        }
    }
    if !failed.is_empty() {
        let mut reasons = reasons(&text);
        for name in failed {
            let reason = reasons.remove(name.as_str());
            results.fail(name, reason.unwrap_or_else(|| "it panicked".to_owned()));
        }
    }
    Ok(results)
}

fn add(
    results: &mut Results,
    [latency, bytes_per_second]: &[Measure; 2],
    at: At,
    name: &str,
    figures: &str,
) -> Result<(), AdapterError> {
    let broken = || at.malformed(format!("{:?} is no time per iteration", figures.trim()));
    let (time, rest) = split_once(figures, "/iter").ok_or_else(broken)?;
    let (value, unit_name) = time.trim().split_once(' ').ok_or_else(broken)?;
    let scale = unit::nanoseconds(unit_name.trim()).ok_or_else(broken)?;
    // libtest has printed two decimals since 1.77, and no loop takes none of them.
    let has_decimals = value.contains('.');
    let value = unit::number(value).ok_or_else(broken)?;
    let mut metric = Metric::new(value * scale);
    let rest = rest.trim();
    let rate = match rest.strip_prefix("(+/- ") {
        Some(rest) => {
            let (deviation, rest) = rest.split_once(')').ok_or_else(broken)?;
            let deviation = unit::number(deviation).ok_or_else(broken)?;
            metric = metric.within((value - deviation) * scale, (value + deviation) * scale);
            rest
        }
        None => rest,
    };
    let is_all_zero = (metric.value, metric.upper_value) == (0.0, Some(0.0));
    if has_decimals && is_all_zero {
        results.fail(at.name(name)?, "it took no time at all: it never called Bencher::iter");
        return Ok(());
    }
    let benchmark = at.benchmark(results, name)?;
    benchmark.add(latency, metric)?;
    // In whole megabytes: 0 is a rounded figure, and says nothing.
    let rate = rate.trim().strip_prefix("= ").and_then(|rate| rate.strip_suffix(" MB/s"));
    if let Some(rate) = rate.and_then(unit::number).filter(|rate| *rate > 0.0) {
        benchmark.add(bytes_per_second, Metric::new(rate * 1e6))?;
    }
    Ok(())
}

/// The message of each panic, by the name of the test.
fn reasons(text: &str) -> HashMap<&str, String> {
    let mut reasons = HashMap::new();
    let mut test = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let heading = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----"));
        if let Some(name) = heading {
            test = Some(name);
        } else if line.starts_with("thread '")
            && line.contains(" panicked at ")
            && let Some(name) = test.take()
        {
            let message = lines.next().unwrap_or_default().trim();
            reasons.insert(name, format!("it panicked: {message}"));
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_a_result() {
        let check = |line: &str, name: &str, value, ends| {
            let results = parse(line, None).expect(line);
            assert_eq!(results.benchmarks[0].name.as_str(), name);
            let metric = &results.benchmarks[0].metrics[0].1;
            assert_eq!(metric.value, value);
            assert_eq!(metric.lower_value.zip(metric.upper_value), ends);
        };
        check("test a ... bench:  1,234 ns/iter (+/- 34)", "a", 1234.0, Some((1200.0, 1268.0)));
        check("test a::b  ... bench:   0.50 ns/iter (+/- 0.25)", "a::b", 0.5, Some((0.25, 0.75)));
        check("test a ... bench:  12 ns/iter", "a", 12.0, None);
        check(
            "test 1/2 [x] ... y ... bench: 2 us/iter (+/- 1)\r\n",
            "1/2 [x] ... y",
            2e3,
            Some((1e3, 3e3)),
        );
        check("\u{1b}[32mtest\u{1b}[0m a ... bench: 1 ns/iter (+/- 0)", "a", 1.0, Some((1.0, 1.0)));
    }

    #[test]
    fn rates() {
        let check = |rate: &str, expected| {
            let results =
                parse(&format!("test a ... bench: 9 ns/iter (+/- 1){rate}"), None).expect(rate);
            let found = results.benchmarks[0].metrics.get(1).map(|(_, metric)| metric.value);
            assert_eq!(found, expected, "{rate}");
        };
        check(" = 451 MB/s", Some(451e6));
        check(" = 0 MB/s", None);
        check("", None);
    }

    #[test]
    fn what_is_no_result() {
        for text in
            ["test a ... ok", "test a ... ignored", "running 0 tests", "a ... bench: 1 ns/iter"]
        {
            assert!(parse(text, None).expect(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn what_is_broken() {
        for text in [
            "",
            " x ns/iter (+/- 1)",
            " 1 eons/iter (+/- 1)",
            " 1 ns/iter (+/- x)",
            " 1 ns/iter (+/- 1",
        ] {
            let error =
                parse(&format!("\ntest a ... bench:{text}"), None).expect_err(text).to_string();
            assert!(error.contains("line 2"), "{error}");
        }
    }

    #[test]
    fn a_loop_that_never_ran_is_a_failure() {
        let check = |time: &str, has_failed| {
            let results = parse(&format!("test a ... bench: {time}"), None).expect(time);
            assert_eq!(!results.failures.is_empty(), has_failed, "{time}");
            assert_eq!(results.benchmarks.is_empty(), has_failed, "{time}");
        };
        check("0.00 ns/iter (+/- 0.00)", true);
        check("0.00 ns/iter (+/- 0.01)", false);
        check("0 ns/iter (+/- 0)", false);
    }

    #[test]
    fn a_failure_with_its_reason() {
        let text = "test a ... FAILED\ntest b ... FAILED\n\n---- a stdout ----\nchatter\n\
                    thread 'main' (1) panicked at src/a.rs:5:9:\nno luck\n";
        let results = parse(text, None).expect("failures");
        let found: Vec<_> =
            results.failures.iter().map(|f| (f.name.as_str(), f.reason.as_str())).collect();
        assert_eq!(found, [("a", "it panicked: no luck"), ("b", "it panicked")]);
    }
}
