//! Bencher Metric Format: `{"benchmark": {"measure": {"value", "lower_value", "upper_value"}}}`, or the list
//! of github-action-benchmark: `[{"name", "unit", "value", "range"}]`.
//!
//! Results of `wingbeat` may add `samples`, and any results `unit`, `direction` and `kind`, which Bencher ignores. An
//! invalid entry fails only its benchmark, so types are lenient, and the error describes the value found in place of a
//! number.

use std::fmt;

use rustc_hash::FxHashMap;
use serde::{
    Deserialize, Deserializer,
    de::{
        IgnoredAny, IntoDeserializer as _, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer, StrDeserializer},
    },
};

use crate::adapter::{
    documents::with_broken,
    prelude::*,
    shape::{Ordered, Shape, spread},
    unit::Measures,
};
use crate::model::{Description, MeasureName, name::strip_ignored};

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let text = &without_cargo(text);
    let documents = with_broken::<Document>(Adapter::Json, text, &["\"value\""]);
    let mut results = Results::default();
    for error in documents.broken {
        At { adapter: Adapter::Json, line: 0 }.lose(&mut results, "", error);
    }
    for (at, document) in documents.found {
        let mut part = Reader { at, results: Results::default() };
        match document {
            Document::Benchmarks(benchmarks) => part.benchmarks(benchmarks.0),
            Document::List(entries) => part.list(entries),
        }
        match results.is_empty() && results.remarks.is_empty() {
            true => results = part.results,
            // The same name in another document is a repetition.
            false => results.take(part.results, BenchmarkName::clone)?,
        }
    }
    Ok(results)
}

/// The possible documents. Any JSON matches one of them, mostly without any usable content.
enum Document {
    Benchmarks(Ordered<Measured>),
    List(Vec<Shape<Entry>>),
}

/// The measures of a benchmark.
type Measured = Shape<Ordered<Shape<Figures>>>;

/// Measures without a description, by label.
type Plain = FxHashMap<String, Measure>;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Figures {
    value: Shape<IgnoredAny>,
    lower_value: Shape<IgnoredAny>,
    upper_value: Shape<IgnoredAny>,
    samples: Vec<Option<f64>>,
    #[serde(alias = "unit")]
    units: Shape<IgnoredAny>,
    direction: Shape<IgnoredAny>,
    kind: Shape<IgnoredAny>,
}

impl Figures {
    /// The metric, in the units of the measure with that label.
    fn read(self, label: &str, plain: &mut Plain) -> Result<(Measure, Metric), String> {
        let description = self.description()?;
        let is_plain = description == Description::default();
        let (measure, factor) = match plain.get(label).filter(|_| is_plain) {
            Some(known) => (known.clone(), 1.0),
            None => description.of(label).map_err(|error| error.to_string())?,
        };
        if is_plain && !plain.contains_key(label) {
            plain.insert(label.to_owned(), measure.clone());
        }
        let value = self.value.number().map_err(|found| format!("its {label} is {found}"))?;
        let end = |end: Shape<IgnoredAny>| end.number().ok().map(|end| end * factor);
        let samples = self.samples.into_iter().flatten().collect();
        let metric = Metric::new(value).with_samples(samples).scaled(factor);
        let (lower_value, upper_value) = (end(self.lower_value), end(self.upper_value));
        Ok((measure, Metric { lower_value, upper_value, ..metric }))
    }

    /// The description of the measure next to its value.
    fn description(&self) -> Result<Description, String> {
        Ok(Description {
            units: match self.units.text() {
                "" => None,
                units => Some(MeasureName::new(units).map_err(|error| error.to_string())?),
            },
            direction: word("direction", self.direction.text())?,
            kind: word("kind", self.kind.text())?,
        })
    }
}

/// Parses an optional enumeration value.
fn word<'t, T: Deserialize<'t>>(key: &str, text: &'t str) -> Result<Option<T>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let word: StrDeserializer<'t, serde::de::value::Error> = text.into_deserializer();
    T::deserialize(word).map(Some).map_err(|error| format!("its {key} is invalid: {error}"))
}

/// Whether an entry looks like a value of a measure.
fn has_value((_, measures): &(String, Measured)) -> bool {
    let Shape::Object(measures) = measures else { return false };
    let mut figures = measures.0.iter().map(|(_, figures)| figures);
    figures.any(|it| matches!(it, Shape::Object(figures) if figures.value.is_there()))
}

/// Accumulates the contents of documents.
struct Reader {
    at: At,
    results: Results,
}

impl Reader {
    fn benchmarks(&mut self, benchmarks: Vec<(String, Measured)>) {
        // A different kind of document, such as a log line.
        if !benchmarks.iter().any(has_value) {
            return;
        }
        let mut plain = Plain::default();
        for (name, measures) in benchmarks {
            let Shape::Object(Ordered(measures)) = measures else {
                self.lose(&name, r#"it is not an object such as {"latency": {"value": 12.5}}"#);
                continue;
            };
            let count = measures.len();
            for (label, figures) in measures {
                let Shape::Object(figures) = figures else {
                    self.lose(
                        &name,
                        &format!(r#"its {label} is not an object such as {{"value": 12.5}}"#),
                    );
                    continue;
                };
                let is_undirected = figures.direction.text() == "unknown";
                match figures.read(&label, &mut plain) {
                    Ok((measure, metric)) => {
                        if is_undirected {
                            self.results.set_undirected(&measure);
                        }
                        self.add(&name, &measure, metric, count);
                    }
                    Err(reason) => self.lose(&name, &reason),
                }
            }
        }
    }

    /// `count` is the number of metrics of the benchmark.
    fn add(&mut self, name: &str, measure: &Measure, metric: Metric, count: usize) {
        let reason = match self.results.benchmark(name) {
            Err(error) => error.to_string(),
            Ok(benchmark) if benchmark.metrics.iter().any(|it| it.0.is(measure)) => {
                format!(
                    "it has the measure {} twice, and a benchmark has one value of a measure; give one of both \
                     another name",
                    measure.slug
                )
            }
            Ok(benchmark) => {
                benchmark.expect_metrics(count);
                match benchmark.add(measure, metric) {
                    Ok(()) => return,
                    Err(error) => error.to_string(),
                }
            }
        };
        self.lose(name, &reason);
    }

    fn lose(&mut self, name: &str, reason: &str) {
        let at = self.at;
        let judged = strip_ignored(name).unwrap_or(name);
        at.lose(&mut self.results, judged, at.malformed(reason));
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Document;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object or a list")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Document, A::Error> {
                Ordered::deserialize(MapAccessDeserializer::new(map)).map(Document::Benchmarks)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Document, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Document::List)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// An entry of `customSmallerIsBetter` or `customBiggerIsBetter`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    name: Shape<IgnoredAny>,
    unit: Shape<IgnoredAny>,
    value: Shape<IgnoredAny>,
    /// `± 3`, in the unit or with a percent sign.
    range: Shape<IgnoredAny>,
}

/// Whether an entry has a value, unlike other named entries such as variables.
fn is_entry(entry: &Shape<Entry>) -> bool {
    let Shape::Object(Entry { unit, value, .. }) = entry else { return false };
    value.is_there() && (unit.is_there() || !matches!(value, Shape::Text(_)))
}

impl Reader {
    fn list(&mut self, entries: Vec<Shape<Entry>>) {
        if !entries.iter().any(is_entry) {
            return;
        }
        let mut measures = Measures::default();
        for entry in entries {
            let Shape::Object(Entry { name: Shape::Text(name), unit, value, range }) = entry else {
                continue;
            };
            let (measure, factor) = measures.of(unit.text());
            match value.number() {
                // A different kind of list.
                Err(_) if !value.is_there() => {}
                Err(found) => self.lose(&name, &format!("its value is {found}")),
                Ok(value) => {
                    let metric = Metric::new(value).with_error(spread(value, &range));
                    self.add(&name, measure, metric.scaled(factor), 1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{benchmarks, check_error, values};

    fn read(text: &str) -> Parsed {
        Adapter::Json.parse(text.as_bytes(), None)
    }

    #[test]
    fn a_document() {
        let text = r#"{
            "b": {"latency": {"value": 88, "lower_value": 87.5, "upper_value": 88.5}},
            "a": {"latency": {"value": 1.5, "lower_value": null}, "my score": {"value": 2}}
        }"#;
        let results = parse(text, None).expect("results");
        assert_eq!(benchmarks(&results), ["b", "a"], "in the order of the text");
        let expected = Metric::new(88.0).within(87.5, 88.5);
        assert_eq!(results.benchmarks[0].metrics, [(Measure::latency(), expected)]);
        assert_eq!(results.benchmarks[1].metrics[1].0.slug.as_str(), "my-score");
    }

    #[test]
    fn what_stands_around_documents_makes_no_difference() {
        let (a, b) = (r#"{"a": {"latency": {"value": 1}}}"#, r#"{"b": {"latency": {"value": 2}}}"#);
        let check = |text: String, expected: &[&str]| {
            let results = read(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(benchmarks(&results), expected, "{text}");
            assert!(results.failures.is_empty() && results.remarks.is_empty(), "{text}");
        };
        check(format!("starting\n{a}\ndone\n"), &["a"]);
        check(format!("\u{feff}{a}\r\n{b}"), &["a", "b"]);
        check(format!("{a} {b}\n[1, 2]\n{{\n  s = (module)\n}}\n"), &["a", "b"]);
        check(
            format!(
                "{{\"level\": \"info\", \"value\": 3}}\n{a}\n[{{\"name\": \"PATH\", \"value\": \"/\"}}]"
            ),
            &["a"],
        );
        let twice = read(&format!("{a}\n{a}")).expect("results");
        assert_eq!(twice.benchmarks[0].metrics[0].1.samples, [1.0, 1.0], "measured again");
    }

    #[test]
    fn what_is_wrong_costs_its_benchmark() {
        let check = |text: &str, expected: &str| {
            check_error(read(&format!("\n{text}")), &format!("line 2: {expected}"));
            let good = r#""good": {"latency": {"value": 1}}"#;
            let results = read(&text.replacen('{', &format!("{{{good}, "), 1)).expect(text);
            assert_eq!(benchmarks(&results), ["good"], "{text}");
            let told: Vec<_> =
                results.failures.iter().map(|it| &it.reason).chain(&results.remarks).collect();
            assert!(told.len() == 1 && told[0].contains(expected), "{told:?}");
        };
        check(
            r#"{"a": {"p50": {"value": 1}, "p99": {"value": NaN}}}"#,
            "its p99 is NaN, Infinity or null",
        );
        check(
            r#"{"a": {"latency": {"value": -Infinity}}}"#,
            "its latency is NaN, Infinity or null",
        );
        check(r#"{"a": {"latency": {"value": "1"}}}"#, "its latency is the text \"1\"");
        check(
            r#"{"a": {"latency": 5, "p50": {"value": 1}}}"#,
            "its latency is not an object such as",
        );
        check(r#"{"": {"latency": {"value": 1}}}"#, "\"\" cannot be the name of a benchmark");
        check(
            r#"{"a": {"latency": {"value": 1}, "Latency": {"value": 1}}}"#,
            "it has the measure latency twice",
        );
        let twice =
            r#"{"a": {"latency": {"value": 1}}, "a_bencher_ignore": {"latency": {"value": 1}}}"#;
        check(twice, "it has the measure latency twice");
        let ends = r#"{"a": {"latency": {"value": 2, "lower_value": 3, "upper_value": 1}}}"#;
        check(ends, "benchmark \"a\" has a latency whose lower value 3 is above its upper value 1");
        let broken = "{\"a\": {\"latency\": {\"value\": 1";
        check_error(read(broken), "line 1: EOF");
        let results =
            read(&format!("{{\"b\": {{\"latency\": {{\"value\": 1}}}}}}\n{broken}")).expect("b");
        assert_eq!(results.remarks, ["line 2 was passed over: EOF while parsing an object"]);
        check_error(
            read("{\"a\": {\"latency\": 1}}"),
            "{\"NAME\": {\"latency\": {\"value\": 12.5}}}",
        );
        let apart = r#"{"a": {"latency": {"value": 1}}, "a": {"throughput": {"value": 1}}}"#;
        assert_eq!(read(apart).expect("results").benchmarks[0].metrics.len(), 2);
    }

    #[test]
    fn measures_are_what_their_names_say() {
        let one = |name: &str| format!("{name:?}: {{\"value\": 1}}");
        let both = |first: &str, second: &str| {
            let results = read(&format!("{{\"b\": {{{}, {}}}}}", one(first), one(second)));
            let metrics = results.expect("results").benchmarks.swap_remove(0).metrics;
            assert!(metrics.len() == 2 && metrics[0].0.slug != metrics[1].0.slug, "{metrics:?}");
        };
        both("延迟", "内存");
        both("время", "память");
        both("read_bytes", "read-bytes");
        both("p99.9", "p99-9");
        let long = "x".repeat(70);
        both(&format!("{long}-read"), &format!("{long}-write"));
        let odd = |name: &str, expected: &str| {
            let good = "\"good\": {\"latency\": {\"value\": 1}}";
            let results = read(&format!("{{\"b\": {{{}}}, {good}}}", one(name))).expect("results");
            assert_eq!(benchmarks(&results), ["good"], "{name}");
            assert!(results.failures[0].reason.contains(expected), "{:?}", results.failures);
        };
        odd("", "it is empty");
        odd(" a", "begins or ends with space");
        odd("a\nb", "control character");
        odd(&"x".repeat(100_000), "100000 bytes, and 256 are the limit");
    }

    #[test]
    fn measures_are_described_beside_their_values() {
        let text = r#"{"b": {"p99": {"value": 2, "unit": "ms", "direction": "smaller"},
                             "latency": {"value": 2, "lower_value": 1, "unit": "ms", "samples": [2]}}}"#;
        let results = read(text).expect("results");
        let [(p99, _), (_, latency)] = &results.benchmarks[0].metrics[..] else { panic!("two") };
        assert_eq!((&*p99.units, p99.direction), ("ms", Direction::LowerIsBetter));
        let expected =
            Metric { lower_value: Some(1e6), ..Metric::new(2e6).with_samples(vec![2e6]) };
        assert_eq!(*latency, expected);
        let wrong = |said: &str, expected: &str| {
            check_error(
                read(&format!("{{\"b\": {{\"latency\": {{\"value\": 1, {said}}}}}}}")),
                expected,
            );
        };
        wrong(r#""unit": "MB""#, "is in nanoseconds (ns), which \"MB\"");
        wrong(r#""unit": "m\ns""#, "control character");
        wrong(r#""direction": "up""#, "its direction is invalid: unknown variant `up`");
        wrong(r#""kind": "odd""#, "its kind is invalid");
    }

    #[test]
    fn messages_of_cargo_stand_around_it() {
        let cargo = "{\"reason\":\"build-finished\",\"success\":true}";
        let text = format!("{cargo}\n{{\"a\": {{\"latency\": {{\"value\": 1}}}}}}\n{cargo}\n");
        assert_eq!(parse(&text, None).expect("results").benchmarks[0].name.as_str(), "a");
        check_error(read(&format!("{cargo}\n{{\"a\": {{\"value\": 1}}}}")), "found no result");
    }

    #[test]
    fn lists_of_names_units_and_values() {
        let check = |entry: &str, slug: &str, units: &str, metric: Metric| {
            let results = read(&format!("[{{\"name\": \"a\", {entry}}}]")).expect(entry);
            let (measure, found) = &results.benchmarks[0].metrics[0];
            assert_eq!((measure.slug.as_str(), &*measure.units, found), (slug, units, &metric));
        };
        let ns = "nanoseconds (ns)";
        check(r#""unit": "Percent", "value": 50"#, "percent", "Percent", Metric::new(50.0));
        check(
            r#""unit": "ms", "value": 2, "range": "± 0.5""#,
            "latency",
            ns,
            Metric::new(2e6).within(1.5e6, 2.5e6),
        );
        check(r#""unit": "Seconds", "value": 2"#, "latency", ns, Metric::new(2e9));
        let rate = "operations / second (ops/s)";
        check(
            r#""unit": "ops/sec", "value": 8, "range": "±25%""#,
            "throughput",
            rate,
            Metric::new(8.0).within(6.0, 10.0),
        );
        check(r#""value": 3"#, "value", "value (units)", Metric::new(3.0));
        let text = r#"[{"name": "a", "unit": "ms", "value": NaN}, {"name": "b", "unit": "ms", "value": 1},
                       {"name": "b", "unit": "Megabytes", "value": 7}]"#;
        let results = read(text).expect("results");
        assert_eq!(values(&results.benchmarks[0]), [("latency", 1e6), ("megabytes", 7.0)]);
        assert_eq!(
            results.failures[0].reason,
            "its value is NaN, Infinity or null, which is not a number"
        );
    }
}
