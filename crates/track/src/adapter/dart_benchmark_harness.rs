//! Dart's `benchmark_harness`: `NAME(RunTime): 123.4 us.`, and the additional lines of its `perf` emitter.

use crate::adapter::prelude::*;

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let mut results = Results::default();
    let measures = measures();
    for (at, text) in lines(Adapter::DartBenchmarkHarness, text) {
        let Some(score) = score(text, &measures) else { continue };
        match score.value {
            Some((measure, value)) => {
                at.benchmark(&mut results, score.name)?.add(measure, Metric::new(value))?;
            }
            None => results.fail(at.name(score.name)?, "its time is not a finite number"),
        }
    }
    Ok(results)
}

/// The measure of each metric.
type Measures = [(&'static str, Measure); 3];

fn measures() -> Measures {
    let counter = |title, units| naming::counter(title, units, Direction::LowerIsBetter);
    [
        ("RunTime", Measure::latency()),
        ("CpuCycles", counter("CPU Cycles", "cycles")),
        ("MajorPageFaults", counter("Major Page Faults", "page faults")),
    ]
}

struct Score<'a> {
    name: &'a str,
    /// `None` for a time that is not a number.
    value: Option<(&'a Measure, f64)>,
}

fn score<'a>(line: &'a str, measures: &'a Measures) -> Option<Score<'a>> {
    let (name, value) = rsplit_once(line.trim_end(), "): ")?;
    let (name, metric) = rsplit_once(name, "(")?;
    let mut words = value.split_whitespace();
    let (value, unit) = (words.next()?, words.next().unwrap_or(""));
    if words.next().is_some() || name.trim().is_empty() {
        return None;
    }
    let (_, measure) = measures.iter().find(|known| known.0 == metric)?;
    let factor = if metric == "RunTime" { nanoseconds(unit.strip_suffix('.')?)? } else { 1.0 };
    let is_none = metric == "RunTime" && matches!(value, "NaN" | "Infinity" | "-Infinity");
    let value = if is_none { None } else { Some((measure, number(value)? * factor)) };
    Some(Score { name, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let check = |line, expected: Option<(&str, &str, f64)>| {
            let measures = measures();
            let found = score(line, &measures).and_then(|score| {
                let (measure, value) = score.value?;
                Some((score.name, measure.slug.as_str().to_owned(), value))
            });
            let expected = expected.map(|(name, slug, value)| (name, slug.to_owned(), value));
            assert_eq!(found, expected, "{line:?}");
        };
        check("Template(RunTime): 0.25 us.", Some(("Template", "latency", 250.0)));
        check("a (b)(RunTime): 1e-3 us.", Some(("a (b)", "latency", 1.0)));
        check("Template(CpuCycles): 12.5", Some(("Template", "cpu-cycles", 12.5)));
        check("Template.totalIterations(Count): 12.0", None);
        check("Template(RunTime): 0.25 bees", None);
        check("(RunTime): 0.25 us.", None);
        check("f(x): 3", None);
    }

    #[test]
    fn a_time_that_is_none() {
        let results = parse("a(RunTime): 1.0 us.\nb(RunTime): NaN us.\n", None).expect("results");
        assert_eq!(results.failures[0].name.as_str(), "b");
    }
}
