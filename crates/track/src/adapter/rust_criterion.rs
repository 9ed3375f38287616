//! Criterion: `NAME time: [LOW UNIT MID UNIT HIGH UNIT]`, and throughput in lines `thrpt: […]` below.
//!
//! A name of more than 23 bytes is on a separate line. Lines about changes begin with the same words, but their numbers
//! are percentages. Measurements other than times keep their units.

use crate::adapter::prelude::*;

const RATES: &[(&str, f64, &str)] = &[
    ("elem/s", 1.0, "throughput"),
    ("Kelem/s", 1e3, "throughput"),
    ("Melem/s", 1e6, "throughput"),
    ("Gelem/s", 1e9, "throughput"),
    ("B/s", 1.0, "bytes-per-second"),
    ("KB/s", 1e3, "bytes-per-second"),
    ("MB/s", 1e6, "bytes-per-second"),
    ("GB/s", 1e9, "bytes-per-second"),
    ("KiB/s", 1024.0, "bytes-per-second"),
    ("MiB/s", 1_048_576.0, "bytes-per-second"),
    ("GiB/s", 1_073_741_824.0, "bytes-per-second"),
    ("b/s", 1.0, "bits-per-second"),
    ("Kb/s", 1e3, "bits-per-second"),
    ("Mb/s", 1e6, "bits-per-second"),
    ("Gb/s", 1e9, "bits-per-second"),
];

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let mut results = Results::default();
    let mut running = Running::default();
    // The previous line, if it may be a name.
    let mut above = "";
    // The benchmark that throughput lines belong to.
    let mut current: Option<BenchmarkName> = None;
    for (at, content) in lines(Adapter::RustCriterion, text) {
        running.see(&mut results, at, content);
        if let Some((name, values)) = labelled(content, "time:") {
            let name = if name.is_empty() { above } else { name };
            let found = match time(at, values) {
                Ok(None) => continue,
                Ok(Some(found)) => at.name(name).map(|name| (found, name)),
                Err(error) => Err(error),
            };
            match found {
                Ok(((measure, metric), name)) => {
                    running.is_done(name.as_str());
                    current = Some(name.clone());
                    let added = results.add(name.clone(), measure, metric);
                    added.unwrap_or_else(|it| at.lose(&mut results, name.as_str(), it.into()));
                }
                Err(error) => {
                    running.is_done(name);
                    current = None;
                    at.lose(&mut results, name, error);
                }
            }
        } else if let (Some(("", values)), Some(name)) = (labelled(content, "thrpt:"), &current) {
            let add = |(measure, metric)| Ok(results.add(name.clone(), measure, metric)?);
            let added = rate(at, values).and_then(|found| found.map_or(Ok(()), add));
            added.unwrap_or_else(|error| at.lose(&mut results, name.as_str(), error));
        }
        above = if is_progress(content) { "" } else { content.trim() };
    }
    Ok(results)
}

/// Whether it is a progress line of Criterion: `Benchmarking NAME: Analyzing`. Names may begin like that, too.
fn is_progress(line: &str) -> bool {
    line.starts_with("Benchmarking ")
        && [": Warming up for ", ": Collecting ", ": Analyzing", ": Profiling", ": Complete "]
            .iter()
            .any(|step| line.contains(step))
}

/// The text before the label, and the contents of the brackets after it up to the end of the line.
fn labelled<'a>(line: &'a str, label: &str) -> Option<(&'a str, &'a str)> {
    let values = line.trim_end().strip_suffix(']')?;
    let (before, values) = values.rsplit_once('[')?;
    let name = before.trim_end().strip_suffix(label)?;
    // A label is preceded by a blank: padding of the name, or an indentation.
    (name.is_empty() || name.ends_with(' ')).then(|| (name.trim(), values))
}

/// Three numbers with their units. `None` for changes, which are percentages.
fn triple(at: At, values: &str) -> Parsed<Option<[(f64, &str); 3]>> {
    let tokens: Vec<_> = values.split_ascii_whitespace().collect();
    let broken = || at.malformed(format!("[{values}] is not three numbers, each with its unit"));
    match tokens.as_slice() {
        changes @ [_, _, _] if changes.iter().all(|change| change.ends_with('%')) => Ok(None),
        [low, low_unit, middle, middle_unit, high, high_unit] => {
            let with = |text, unit| match has_odd_comma(text) {
                true => Err(at.malformed(no_number(text))),
                false => number(text).map(|value| (value, unit)).ok_or_else(broken),
            };
            Ok(Some([with(low, *low_unit)?, with(middle, middle_unit)?, with(high, high_unit)?]))
        }
        _ => Err(broken()),
    }
}

type Found = Parsed<Option<(Measure, Metric)>>;

fn time(at: At, values: &str) -> Found {
    let Some(triple) = triple(at, values)? else { return Ok(None) };
    let in_ns = triple.map(|(value, name)| nanoseconds(name).map(|scale| value * scale));
    if let [Some(low), Some(middle), Some(high)] = in_ns {
        return Ok(Some((Measure::latency(), Metric::new(middle).within(low, high))));
    }
    // A measurement of something else, such as cycles.
    let [(low, _), (middle, units), (high, _)] = triple;
    if triple.iter().any(|(_, other)| *other != units) {
        return Err(at.malformed(format!("[{values}] has units that cannot be converted")));
    }
    Ok(Some((naming::measurement(units), Metric::new(middle).within(low, high))))
}

fn rate(at: At, values: &str) -> Found {
    let Some(triple) = triple(at, values)? else { return Ok(None) };
    let known = |(value, name)| RATES.iter().find(|it| it.0 == name).map(|it| (value * it.1, it.2));
    let [Some((low, _)), Some((middle, measure)), Some((high, _))] = triple.map(known) else {
        // From a measurement other than time.
        return Ok(None);
    };
    let measure = match measure {
        "bits-per-second" => {
            let units = "bits / second (b/s)";
            Measure::custom("Bits per Second", units, Direction::HigherIsBetter, MeasureKind::Noisy)
        }
        known => Measure::named(known),
    };
    Ok(Some((measure, Metric::new(middle).within(low, high))))
}

/// The running benchmark, from Criterion's stderr: one that panics never ends.
#[derive(Default)]
struct Running(Option<String>);

impl Running {
    fn see(&mut self, results: &mut Results, at: At, line: &str) {
        if let Some(rest) = line.strip_prefix("Benchmarking ") {
            let name = rest.split_once(": Warming up for ").map(|(name, _)| name.to_owned());
            self.0 = name.or(self.0.take());
        } else if line.starts_with("thread '")
            && line.contains(" panicked at ")
            && let Some(name) = self.0.take()
        {
            match at.name(&name) {
                Ok(name) => results.fail(name, "it panicked"),
                Err(error) => at.lose(results, &name, error),
            }
        }
    }

    fn is_done(&mut self, name: &str) {
        self.0.take_if(|running| running == name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::check_error;

    type Row = (String, String, [f64; 3]);

    fn rows(text: &str) -> Vec<Row> {
        let results = Adapter::RustCriterion.parse(text.as_bytes(), None).expect(text);
        let row = |name: &BenchmarkName, (measure, metric): &(Measure, Metric)| {
            let ends = metric.lower_value.zip(metric.upper_value).expect("ends");
            // Rounded to ten digits, because units are multiplied.
            let values = [ends.0, metric.value, ends.1].map(|value| (value * 1e10).round() / 1e10);
            (name.to_string(), measure.slug.to_string(), values)
        };
        let rows = |benchmark: &crate::model::BenchmarkResults| {
            let metrics = benchmark.metrics.iter();
            metrics.map(|metric| row(&benchmark.name, metric)).collect::<Vec<_>>()
        };
        results.benchmarks.iter().flat_map(rows).collect()
    }

    #[test]
    fn times() {
        let check = |text: &str, name: &str, values: [f64; 3]| {
            assert_eq!(rows(text), [(name.to_owned(), "latency".to_owned(), values)]);
        };
        let ns = [1.0, 2.0, 3.0];
        check("a                       time:   [1.0000 ns 2.0000 ns 3.0000 ns]", "a", ns);
        check("long name\n             time:   [1 ns 2 ns 3 ns]\n", "long name", ns);
        check("a time: [9 ns 9 ns 9 ns] time:   [1 ns 2 ns 3 ns]", "a time: [9 ns 9 ns 9 ns]", ns);
        check(
            "a time: [x]/1\r\n                        time:   [1 ns 2 ns 3 ns]\r\n",
            "a time: [x]/1",
            ns,
        );
        check("\rBenchmarking a\r\u{1b}[Ka    time:   [1 ns 2 ns 3 ns]", "a", ns);
        check("a  time:   [999.50 ps 1.0010 ns 1.1000 µs]", "a", [0.9995, 1.001, 1100.0]);
        check("a  time:   [1.5 ms 2 s 2.5 s]", "a", [1.5e6, 2e9, 2.5e9]);
    }

    #[test]
    fn throughput() {
        let check = |line: &str, slug: &str, values: [f64; 3]| {
            let text = format!("a  time:   [1 ns 1 ns 1 ns]\n                  thrpt:  [{line}]");
            assert_eq!(rows(&text)[1..], [("a".to_owned(), slug.to_owned(), values)]);
        };
        check("460.99  elem/s 1 Kelem/s 2 Melem/s", "throughput", [460.99, 1e3, 2e6]);
        check("512   B/s 1 KiB/s 1 MiB/s", "bytes-per-second", [512.0, 1024.0, 1_048_576.0]);
        check("1 MB/s 2 MB/s 1 GiB/s", "bytes-per-second", [1e6, 2e6, 1_073_741_824.0]);
        check("1 Kb/s 2 Mb/s 3 Gb/s", "bits-per-second", [1e3, 2e6, 3e9]);
    }

    #[test]
    fn two_kinds_of_throughput() {
        let text = "a  time:   [1 ns 1 ns 1 ns]\n  thrpt:  [1 elem/s 2 elem/s 3 elem/s]\n  thrpt:  [4 B/s 5 B/s 6 B/s]\n";
        let slugs: Vec<_> = rows(text).into_iter().map(|row| row.1).collect();
        assert_eq!(slugs, ["latency", "throughput", "bytes-per-second"]);
    }

    #[test]
    fn changes_are_passed_over() {
        let text = "a                       time:   [1 ns 2 ns 3 ns]\n\
                    \x20                change:\n\
                    \x20                       time:   [+1.0% +2.0% +3.0%] (p = 0.00 < 0.05)\n\
                    \x20                       thrpt:  [−3.0% −2.0% −1.0%]\n\
                    \x20                       change: [+1.0% +2.0% +3.0%] (p = 0.00 < 0.05)\n\
                    \x20                       Performance has regressed.\n";
        assert_eq!(rows(text).len(), 1);
    }

    #[test]
    fn units_of_another_measurement() {
        let found = rows("a  time:   [10.000 cycles 11.000 cycles 12.000 cycles]");
        assert_eq!(found, [("a".to_owned(), "cycles".to_owned(), [10.0, 11.0, 12.0])]);
    }

    #[test]
    fn what_cannot_be_read_costs_its_benchmark_alone() {
        let long = "Benchmarking a very long name that has a line of its own";
        let text = format!(
            "Benchmarking {long}: Analyzing\n{long}\n               time:   [1 ns 2 ns 3 ns]\n\
             a  time:   [1,5 ns 2,5 ns 3,5 ns]\n               thrpt:  [1 elem/s 2 elem/s 3 elem/s]\n\
             {}\n               time:   [1 ns 2 ns 3 ns]\nc  time:   [1 ns 1 ns 1 ns]\n",
            "b".repeat(1025)
        );
        let names: Vec<_> = rows(&text).into_iter().map(|row| row.0).collect();
        assert_eq!(names, [long, "c"]);
        let results = parse(&text, None).expect("results");
        assert!(results.failures[0].reason.contains("LC_ALL=C"), "{:?}", results.failures);
        let passed_over = "line 7 was passed over: \"bbb";
        assert!(results.remarks[0].starts_with(passed_over), "{:?}", results.remarks);
    }

    #[test]
    fn what_is_broken() {
        let check = |text: &str, expected: &str| check_error(parse(text, None), expected);
        check("a  time:   [1 ns 2 ns]", "line 1: [1 ns 2 ns] is not three numbers");
        check("a  time:   [x ns 2 ns 3 ns]", "is not three numbers");
        check("a  time:   [1 ns 2 eons 3 ns]", "units that cannot be converted");
        check("\n         time:   [1 ns 2 ns 3 ns]", "line 2");
    }
}
