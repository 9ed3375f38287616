//! Benchmark.js: `NAME x 1,234 ops/sec ±0.50% (90 runs sampled)`.

use crate::adapter::prelude::*;

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let mut results = Results::default();
    let throughput = Measure::throughput();
    let mut failures = Vec::new();
    for (at, text) in lines(Adapter::JsBenchmark, text) {
        if let Some((name, metric)) = result(text) {
            at.set_indented(&mut results, name)?;
            at.benchmark(&mut results, name)?.add(&throughput, metric)?;
        } else if let Some(name) = failure(text) {
            failures.push(at.name(name)?);
        }
    }
    // Without any benchmarks, such lines are not failures of benchmarks.
    if !results.is_empty() {
        for name in failures {
            results.fail(name, "it threw an error");
        }
    }
    Ok(results)
}

fn result(line: &str) -> Option<(&str, Metric)> {
    let line = line.trim_end().strip_suffix(" sampled)")?;
    let (rest, runs) = rsplit_once(line, " (")?;
    runs.strip_suffix(" runs").or_else(|| runs.strip_suffix(" run"))?.parse::<u64>().ok()?;
    let (rest, error) = rsplit_once(rest.strip_suffix('%')?, " ops/sec \u{b1}")?;
    let (name, rate) = rsplit_once(rest, " x ")?;
    let rate = number(rate)?;
    // A single run has no error.
    let error = number(error).map(|percent| rate * percent / 100.0);
    Some((name, Metric::new(rate).with_error(error)))
}

/// The output of a benchmark that threw an `Error`: only its name.
fn failure(line: &str) -> Option<&str> {
    line.strip_suffix(": ").filter(|name| !name.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let check = |line, expected: Option<(&str, f64, f64)>| {
            let found = result(line).map(|(name, m)| (name, m.value, m.upper_value.unwrap_or(0.0)));
            assert_eq!(found, expected, "{line:?}");
        };
        check("a x 1,000,000 ops/sec ±50.00% (2 runs sampled)", Some(("a", 1e6, 1.5e6)));
        check("a x 2 x 48.00 ops/sec ±0.00% (1 run sampled)", Some(("a x 2", 48.0, 48.0)));
        check("a x 48.00 ops/sec ±NaN% (1 run sampled)", Some(("a", 48.0, 0.0)));
        check("a x Infinity ops/sec ±0.00% (1 run sampled)", None);
        check("a x 48.00 ops/sec ±0.00% (no runs sampled)", None);
        check("a: ", None);
    }
}
