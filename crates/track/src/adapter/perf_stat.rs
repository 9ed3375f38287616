//! `perf stat -j`: a JSON object for each event. The events are the measures.
//!
//! perf does not name what it ran, so the benchmark is called `perf stat`; with `-A`,
//! `--per-socket` and the like, the place follows. Times are converted to nanoseconds. Events that
//! the machine cannot count are ignored; repetitions (`-r`) are a mean and its standard error.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::adapter::prelude::*;

const NAME: &str = "perf stat";

#[derive(Deserialize)]
struct Counter {
    event: Option<String>,
    #[serde(rename = "counter-value")]
    value: Option<String>,
    #[serde(default)]
    unit: String,
    /// Standard error of the mean of repetitions, in percent of it.
    variance: Option<f64>,
    /// Where it was counted, and what else perf tells.
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
        let is_ours =
            object.head.lines().next().is_some_and(|line| line.contains("\"counter-value\""));
        match object.content {
            Ok(counter) => add(&mut results, at, &counter)?,
            Err(error) if is_ours => {
                return Err(at.malformed(format!(
                    "{error}; if perf wrote decimal commas, run it with LC_ALL=C"
                )));
            }
            Err(_) => {}
        }
    }
    Ok(results)
}

fn add(results: &mut Results, at: At, counter: &Counter) -> Parsed<()> {
    let (Some(event), Some(text)) = (&counter.event, &counter.value) else { return Ok(()) };
    if text.starts_with('<') {
        // <not supported>, <not counted>
        return Ok(());
    }
    // A comma would be taken for one between thousands.
    let value = Some(text).filter(|text| !text.contains(',')).and_then(|text| number(text));
    let value = value.ok_or_else(|| {
        at.malformed(format!("{event} is {text:?}, which is not a number; run perf with LC_ALL=C"))
    })?;
    let scale = if counter.unit == "msec" { Some(1e6) } else { nanoseconds(&counter.unit) };
    let units = match (scale, counter.unit.as_str()) {
        (Some(_), _) => "nanoseconds (ns)".to_owned(),
        (None, "") => "events".to_owned(),
        (None, own) => own.to_owned(),
    };
    // Cycles, misses, faults, time, energy: each is cost. What comes as a ratio may be anything.
    let direction = match counter.unit.as_str() {
        unit if unit.contains('%') || unit.contains('/') => Direction::Unknown,
        _ => Direction::LowerIsBetter,
    };
    let value = value * scale.unwrap_or(1.0);
    let percent = counter.variance.filter(|percent| *percent > 0.0);
    let metric = Metric::new(value).with_error(percent.map(|percent| value * percent / 100.0));
    let name = at.name(&counter.name())?;
    // Also instructions: an interrupt is counted, too.
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
    fn decimal_commas_are_no_thousands() {
        for line in [
            r#"{"counter-value" : "0,595194", "unit" : "msec", "event" : "task-clock"}"#,
            r#"{"counter-value" : "0,5", "event" : "task-clock", "pcnt-running" : 100,00}"#,
        ] {
            let error = parse(&format!("hello\n{line}"), None).expect_err(line).to_string();
            assert!(error.contains("line 2") && error.contains("LC_ALL=C"), "{error}");
        }
    }
}
