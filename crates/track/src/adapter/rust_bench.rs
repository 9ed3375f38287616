//! libtest: `test NAME ... bench: 1,234.56 ns/iter (+/- 78.90) = 451 MB/s`, or its JSON lines (`events`). Criterion's
//! `--output-format bencher` writes the first.
//!
//! The figure is a median, and the number after `+/-` is the range between the fastest and the slowest sample. A
//! benchmark that panics prints `FAILED`; the reason is further down, below `---- NAME stdout ----`.

use std::{borrow::Cow, collections::HashMap};

use serde::Deserialize;

use crate::adapter::prelude::*;

const RESULT: &str = " ... bench:";
const FAILED: &str = " ... FAILED";

/// Units that custom Criterion measurements print in place of a time.
const COUNTS: [&str; 2] = ["cycles", "instructions"];

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let mut results = Results::default();
    let measures = [Measure::latency(), Measure::named("bytes-per-second")];
    let mut failed = Vec::new();
    let mut once = Once::default();
    // Whether the output is from a libtest program, in which names are unique. Criterion does not mark where another
    // program begins.
    let mut is_in_program = false;
    for (at, content) in lines(Adapter::RustBench, text) {
        let Some(test) = content.strip_prefix("test ") else {
            let event = parsed_event(content).unwrap_or_else(|reason| {
                at.lose(&mut results, "", at.malformed(reason));
                None
            });
            match event {
                None if !content.starts_with("running ") => {}
                None | Some(Event::Begun) => {
                    is_in_program = true;
                    once.begin(at);
                }
                Some(Event::Ended) => is_in_program = false,
                Some(Event::Bench { name, figures }) => {
                    let added = add(&mut results, &mut once, &measures, at, &name, figures);
                    added.unwrap_or_else(|error| at.lose(&mut results, &name, error));
                }
                Some(Event::Failed { name, said }) => {
                    results.fail(at.name(&name)?, panic_in(said.lines()));
                }
            }
            continue;
        };
        if let Some((name, figures)) = rsplit_once(test, RESULT) {
            if !is_in_program {
                once.begin(at);
            }
            let added = figures_in(at, figures)
                .and_then(|figures| add(&mut results, &mut once, &measures, at, name, figures));
            added.unwrap_or_else(|error| at.lose(&mut results, name, error));
        } else if test.starts_with("result: ") {
            is_in_program = false;
        } else if let Some(name) = test.trim_end().strip_suffix(FAILED) {
            failed.push(at.name(name)?);
        }
    }
    if !failed.is_empty() {
        let mut reasons = reasons(text);
        for name in failed {
            let reason = reasons.remove(name.as_str());
            results.fail(name, reason.unwrap_or_else(|| "it panicked".to_owned()));
        }
    }
    Ok(results)
}

struct Figures {
    /// Time per iteration in nanoseconds, or another count.
    time: Metric,
    /// The measure, if it is not a time.
    counts: Option<Measure>,
    /// Whether the time has more than nanosecond precision.
    has_decimals: bool,
    /// In units of 1,000,000 bytes, if known.
    megabytes_per_second: Option<f64>,
}

fn figures_in(at: At, figures: &str) -> Parsed<Figures> {
    let broken = || at.malformed(format!("{:?} is not a time per iteration", figures.trim()));
    let (time, rest) = split_once(figures, "/iter").ok_or_else(broken)?;
    let (value, unit_name) = time.trim().split_once(' ').ok_or_else(broken)?;
    let unit_name = unit_name.trim();
    let counts = COUNTS.contains(&unit_name).then(|| naming::measurement(unit_name));
    let scale = nanoseconds(unit_name).or(counts.as_ref().map(|_| 1.0)).ok_or_else(broken)?;
    let has_decimals = value.contains('.');
    let value = number(value).ok_or_else(|| at.malformed(no_number(value)))?;
    let mut metric = Metric::new(value * scale);
    let rest = rest.trim();
    let rate = match rest.strip_prefix("(+/- ") {
        Some(rest) => {
            let (deviation, rest) = rest.split_once(')').ok_or_else(broken)?;
            let deviation = number(deviation).ok_or_else(|| at.malformed(no_number(deviation)))?;
            metric = metric.within((value - deviation) * scale, (value + deviation) * scale);
            rest
        }
        None => rest,
    };
    let rate = rate.trim().strip_prefix("= ").and_then(|rate| rate.strip_suffix(" MB/s"));
    Ok(Figures { time: metric, counts, has_decimals, megabytes_per_second: rate.and_then(number) })
}

fn add(
    results: &mut Results,
    once: &mut Once,
    [latency, bytes_per_second]: &[Measure; 2],
    at: At,
    name: &str,
    figures: Figures,
) -> Parsed<()> {
    let Figures { time, counts, has_decimals, megabytes_per_second } = figures;
    // libtest has printed two decimals since 1.77, and every loop takes longer than 0.00 ns.
    if has_decimals && (time.value, time.upper_value) == (0.0, Some(0.0)) {
        results.fail(at.name(name)?, "it took no time at all: it never called Bencher::iter");
        return Ok(());
    }
    let benchmark = once.benchmark(at, results, name)?;
    benchmark.add(counts.as_ref().unwrap_or(latency), time)?;
    // In whole megabytes, so 0 is a rounded figure without information.
    if let Some(rate) = megabytes_per_second.filter(|rate| *rate > 0.0) {
        benchmark.add(bytes_per_second, Metric::new(rate * 1e6))?;
    }
    Ok(())
}

fn reasons(text: &str) -> HashMap<&str, String> {
    let mut reasons = HashMap::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let heading = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----"));
        if let Some(name) = heading {
            let below = lines.clone().take_while(|line| !line.starts_with("---- "));
            reasons.insert(name, panic_in(below));
        }
    }
    reasons
}

fn panic_in<'t>(lines: impl Iterator<Item = &'t str>) -> String {
    let is_place = |line: &&str| line.starts_with("thread '") && line.contains(" panicked at ");
    match lines.skip_while(|line| !is_place(line)).nth(1) {
        Some(message) => format!("it panicked: {}", message.trim()),
        None => "it panicked".to_owned(),
    }
}

enum Event<'t> {
    Begun,
    Ended,
    Bench {
        name: Cow<'t, str>,
        figures: Figures,
    },
    Failed {
        name: Cow<'t, str>,
        /// The captured output, or another reason of the failure.
        said: Cow<'t, str>,
    },
}

#[derive(Deserialize)]
struct Line<'t> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'t, str>,
    #[serde(borrow)]
    event: Option<Cow<'t, str>>,
    #[serde(borrow)]
    name: Option<Cow<'t, str>>,
    median: Option<f64>,
    #[serde(default)]
    deviation: f64,
    mib_per_second: Option<f64>,
    #[serde(borrow)]
    stdout: Option<Cow<'t, str>>,
    #[serde(borrow)]
    reason: Option<Cow<'t, str>>,
}

fn around(median: f64, deviation: f64) -> Metric {
    Metric::new(median).within(median - deviation, median + deviation)
}

/// The event in a line. A malformed result line is an error.
fn parsed_event(line: &str) -> Result<Option<Event<'_>>, String> {
    if !line.starts_with('{') {
        return Ok(None);
    }
    let is_bench = line.contains("\"type\": \"bench\"") || line.contains("\"type\":\"bench\"");
    let line: Line<'_> = match serde_json::from_str(line.trim()) {
        Ok(line) => line,
        Err(error) if is_bench => return Err(error.to_string()),
        Err(_) => return Ok(None),
    };
    Ok(match (&*line.kind, line.event.as_deref(), line.name) {
        ("suite", Some("started"), _) => Some(Event::Begun),
        ("suite", Some("ok" | "failed"), _) => Some(Event::Ended),
        ("bench", None, Some(name)) => Some(Event::Bench {
            name,
            figures: Figures {
                time: around(line.median.ok_or("it has no median")?, line.deviation),
                counts: None,
                // Assumed: integers in JSON show no decimals.
                has_decimals: true,
                // In units of 1,000,000 bytes, despite the name.
                megabytes_per_second: line.mib_per_second,
            },
        }),
        ("test" | "bench", Some("failed"), Some(name)) => {
            let said = line.stdout.or(line.reason).unwrap_or_default();
            Some(Event::Failed { name, said })
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::check_error;

    #[test]
    fn lines_with_a_result() {
        let check = |line: &str, name: &str, value, ends| {
            let results = Adapter::RustBench.parse(line.as_bytes(), None).expect(line);
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
    fn what_cannot_be_read_costs_its_benchmark_alone() {
        let lines = [
            "test cmov ... bench: 2835 cycles/iter (+/- 14)",
            "test a ... bench: 1.234,56 ns/iter (+/- 3)",
            "test b ... bench: 12,345.5 ns/iter (+/- 1)",
            "test a ... bench: 7 ns/iter (+/- 3)",
            "test c ... bench: 7 eons/iter (+/- 3)",
        ];
        let results = Adapter::RustBench.parse(lines.join("\n").as_bytes(), None).expect("results");
        let values: Vec<_> = results.benchmarks.iter().flat_map(crate::adapter::values).collect();
        assert_eq!(values, [("cycles", 2835.0), ("latency", 12_345.5)]);
        let failures: Vec<_> =
            results.failures.iter().map(|it| (it.name.as_str(), &*it.reason)).collect();
        assert!(failures[0].1.contains("\"1.234,56\" has a comma"), "{failures:?}");
        assert!(matches!(failures[..], [("a", _), ("c", _)]), "{failures:?}");
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
            check_error(parse(&format!("\ntest a ... bench:{text}"), None), "line 2");
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
    fn names_come_once_in_a_program_of_libtest() {
        let run = "running 1 test\ntest a ... bench: 1 ns/iter (+/- 0)\n\ntest result: ok.\n";
        let of_criterion = "test a ... bench: 3 ns/iter (+/- 0)\n";
        let results =
            parse(&[run, run, of_criterion, of_criterion].concat(), None).expect("results");
        assert_eq!(results.benchmarks[0].metrics[0].1.samples, [1.0, 1.0, 3.0, 3.0]);
        let twice = run.replace("\n\n", "\ntest a ... bench: 2 ns/iter (+/- 0)\n\n");
        check_error(parse(&twice, None), "line 3: \"a\" has a result in line 2 already");
    }

    #[test]
    fn events() {
        let suite = |event| format!("{{ \"type\": \"suite\", \"event\": \"{event}\" }}\n");
        let good = "{ \"type\": \"bench\", \"name\": \"a\", \"median\": 12.5, \"deviation\": 2, \"mib_per_second\": 451 }\n";
        let bad = "{ \"type\": \"test\", \"name\": \"b\\\"\", \"event\": \"failed\", \
                   \"stdout\": \"thread 'main' panicked at a.rs:5:9:\\nno luck\\nnote\" }\n";
        let never = "{\"type\":\"bench\",\"name\":\"c\",\"median\":0.0,\"deviation\":0.0}\n";
        let started = "{ \"type\": \"test\", \"event\": \"started\", \"name\": \"a\" }\n";
        let cargo = "{\"reason\":\"build-finished\",\"success\":true}\n";
        let text = [&suite("started"), cargo, started, good, bad, never, &suite("failed")].concat();
        let results = parse(&text, None).expect("results");
        let metrics = &results.benchmarks[0].metrics;
        assert_eq!(metrics[0].1, Metric::new(12.5).within(10.5, 14.5));
        assert_eq!(metrics[1].1.value, 451e6);
        let failures = results.failures.iter().map(|f| (f.name.as_str(), f.reason.as_str()));
        let never = "it took no time at all: it never called Bencher::iter";
        let expected = [("b\"", "it panicked: no luck"), ("c", never)];
        assert_eq!(failures.collect::<Vec<_>>(), expected);
        assert_eq!(results.benchmarks.len(), 1);

        check_error(
            parse(&format!("{}{good}{good}", suite("started")), None),
            "line 3: \"a\" has a result in line 2",
        );
        for broken in [good.replace("12.5", "x"), good.replace("\"median\": 12.5, ", "")] {
            check_error(parse(&broken, None), "line 1");
        }
    }
}
