//! `perf stat -j`: a JSON object for each event. The events are the measures.
//!
//! perf does not name the command it ran, so the benchmark is called `perf stat`, followed by the CPU or socket with
//! `-A`, `--per-socket` and the like. Times are converted to nanoseconds. Events that the machine cannot count are
//! ignored; repetitions (`-r`) are a mean and its standard error.
//!
//! perf writes the locale's decimal comma into its JSON, but never a thousands separator.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::adapter::{documents::end_of_string, prelude::*};

const NAME: &str = "perf stat";

#[derive(Deserialize)]
struct Counter {
    event: Option<String>,
    #[serde(rename = "counter-value")]
    value: Option<String>,
    #[serde(default)]
    unit: String,
    /// Standard error of the mean of repetitions, in percent of the mean.
    variance: Option<f64>,
    /// The CPU or socket, and perf's other fields.
    #[serde(flatten)]
    more: HashMap<String, Value>,
}

const PLACES: [&str; 9] =
    ["cpu", "core", "cluster", "cache", "die", "socket", "node", "thread", "cgroup"];

impl Counter {
    fn name(&self) -> String {
        let place = |kind: &&str| Some(format!("/{kind} {}", self.more.get(*kind)?.as_str()?));
        NAME.to_owned() + &PLACES.iter().filter_map(place).collect::<String>()
    }
}

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let mut results = Results::default();
    for object in objects::<Counter>(Adapter::PerfStat, text) {
        let at = object.at;
        let line = object.head.lines().next().unwrap_or_default();
        let added = match object.content {
            Ok(counter) => add(&mut results, at, &counter),
            Err(error) if line.contains("\"counter-value\"") => {
                match serde_json::from_str(&with_points(line)) {
                    Ok(counter) => add(&mut results, at, &counter),
                    Err(_) => Err(at.malformed(error)),
                }
            }
            Err(_) => Ok(()),
        };
        // The benchmark's other events remain.
        added.unwrap_or_else(|error| at.lose(&mut results, "", error));
    }
    Ok(results)
}

/// Replaces decimal commas in a line of JSON by points. A separating comma is never followed by a digit.
fn with_points(line: &str) -> String {
    let bytes = line.as_bytes();
    let mut mended = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = end_of_string(bytes, at + 1),
            b',' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                mended[at] = b'.';
                at += 1;
            }
            _ => at += 1,
        }
    }
    String::from_utf8(mended).unwrap_or_default()
}

/// Decimals of a value: perf prints it with `%f`.
const DECIMALS: usize = 6;

/// A value, with a decimal point or comma.
fn value(text: &str) -> Option<f64> {
    match text.split_once(',') {
        None => number(text),
        Some((whole, decimals)) if decimals.len() == DECIMALS => {
            number(&format!("{whole}.{decimals}"))
        }
        Some(_) => None,
    }
}

fn add(results: &mut Results, at: At, counter: &Counter) -> Parsed<()> {
    let (Some(event), Some(text)) = (&counter.event, &counter.value) else { return Ok(()) };
    if text.starts_with('<') {
        // <not supported>, <not counted>
        return Ok(());
    }
    let value = value(text).ok_or_else(|| {
        at.malformed(format!("{event} is {text:?}, which is not a number; run perf with LC_ALL=C"))
    })?;
    let scale = if counter.unit == "msec" { Some(1e6) } else { nanoseconds(&counter.unit) };
    let units = match (scale, counter.unit.as_str()) {
        (Some(_), _) => "nanoseconds (ns)".to_owned(),
        (None, "") => "events".to_owned(),
        (None, own) => own.to_owned(),
    };
    // Lower is better for cycles, misses, faults, time and energy. Ratios are unknown.
    let direction = match counter.unit.as_str() {
        unit if unit.contains('%') || unit.contains('/') => Direction::Unknown,
        _ => Direction::LowerIsBetter,
    };
    let value = value * scale.unwrap_or(1.0);
    let percent = counter.variance.filter(|percent| *percent > 0.0);
    let metric = Metric::new(value).with_error(percent.map(|percent| value * percent / 100.0));
    let name = at.name(&counter.name())?;
    // Also instructions, because interrupts are counted, too.
    let measure = Measure::custom(event.to_owned(), units, direction, MeasureKind::Noisy);
    Ok(results.add(name, measure, metric)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Option<(String, String, String, Metric)> {
        let mut results = parse(line, None).expect(line);
        let mut benchmark = results.benchmarks.pop()?;
        let (measure, metric) = benchmark.metrics.pop()?;
        let (name, slug) = (benchmark.name.to_string(), measure.slug.to_string());
        Some((name, slug, measure.units.into_owned(), metric))
    }

    #[test]
    fn counters() {
        let check = |fields: &str, slug: &str, units: &str, metric: Metric| {
            let (_, found, found_units, found_metric) =
                one(&format!("{{{fields}}}")).expect(fields);
            assert_eq!((found.as_str(), found_units.as_str(), found_metric), (slug, units, metric));
        };
        let repeated =
            r#""counter-value" : "200.0", "unit" : "", "event" : "page-faults", "variance" : 1.50"#;
        check(repeated, "page-faults", "events", Metric::new(200.0).within(197.0, 203.0));
        let energy = r#""counter-value" : "1.5", "unit" : "Joules", "event" : "power/energy-pkg/""#;
        check(energy, "power-energy-pkg", "Joules", Metric::new(1.5));
    }

    #[test]
    fn places() {
        let check = |place: &str, name: &str| {
            let line = format!("{{{place}, \"counter-value\" : \"1.0\", \"event\" : \"cycles\"}}");
            assert_eq!(one(&line).expect("a counter").0, name);
        };
        check("\"socket\" : \"S0\", \"aggregate-number\" : 2", "perf stat/socket S0");
        check("\"interval\" : 0.1", "perf stat");
    }

    #[test]
    fn what_was_not_counted() {
        for value in ["<not supported>", "<not counted>"] {
            let line = format!("{{\"counter-value\" : \"{value}\", \"event\" : \"cycles\"}}");
            assert!(one(&line).is_none());
        }
        assert!(one("{\"metric-value\" : 1.0, \"metric-unit\" : \"insn per cycle\"}").is_none());
    }

    #[test]
    fn decimal_commas_of_the_locale() {
        let check = |line: &str, slug: &str, expected: f64| {
            let (_, found, _, metric) = one(&format!("hello\n{line}")).expect(line);
            assert_eq!((found.as_str(), metric.value), (slug, expected), "{line}");
        };
        check(
            r#"{"counter-value" : "0,595194", "unit" : "msec", "event" : "task-clock"}"#,
            "task-clock",
            595_194.0,
        );
        check(
            r#"{"counter-value" : "1234567,000000", "event" : "a,1", "pcnt-running" : 100,00, "metric-value" : "0,5"}"#,
            "a-1",
            1_234_567.0,
        );
        let (.., metric) =
            one(r#"{"counter-value" : "2,000000", "event" : "a", "variance" : 1,50}"#)
                .expect("a counter");
        assert_eq!(metric, Metric::new(2.0).within(1.97, 2.03));
    }

    #[test]
    fn what_cannot_be_read_costs_its_event() {
        let good = r#"{"counter-value" : "1.0", "event" : "cycles"}"#;
        for line in [
            r#"{"counter-value" : "1,234", "event" : "faults"}"#,
            r#"{"counter-value" : "1,234.500000", "event" : "faults"}"#,
            r#"{"counter-value" : "1.0", "event" : 5}"#,
        ] {
            let results = Adapter::PerfStat.parse(format!("{line}\n{good}").as_bytes(), None);
            let results = results.expect(line);
            assert_eq!(crate::adapter::values(&results.benchmarks[0]), [("cycles", 1.0)]);
            assert!(results.remarks[0].contains("line 1 was passed over"), "{:?}", results.remarks);
            let error = Adapter::PerfStat.parse(line.as_bytes(), None).expect_err(line);
            assert!(error.to_string().contains("cannot read line 1"), "{error}");
        }
    }
}
