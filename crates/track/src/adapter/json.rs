//! Bencher Metric Format: `{"benchmark": {"measure": {"value", "lower_value", "upper_value"}}}`.
//!
//! Results of `wingbeat` may add `samples`, which Bencher ignores.

use std::fmt;

use rustc_hash::FxHashMap;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};

use super::documents::end_of_string;
use crate::adapter::prelude::*;
use crate::model::{InvalidName, name::strip_ignored};

/// A JSON object in the order of its text.
pub(super) struct Ordered<T>(pub(super) Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Pairs<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered<T>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Ordered(pairs))
            }
        }

        deserializer.deserialize_map(Pairs(std::marker::PhantomData))
    }
}

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let malformed = |line, reason| AdapterError::Malformed { adapter: Adapter::Json, line, reason };
    let text = &without_cargo(text);
    let benchmarks: Ordered<Ordered<Metric>> = serde_json::from_str(text)
        .map_err(|error| malformed(error.line().max(1), error.to_string()))?;
    let mut results = Results::default();
    let mut known = FxHashMap::default();
    for (name, measures) in benchmarks.0 {
        let wrong = |error: InvalidName| malformed(1, error.to_string());
        if measures.0.is_empty() {
            BenchmarkName::new(name).map_err(wrong)?;
            continue;
        }
        let benchmark = results.benchmark(&name).map_err(wrong)?;
        benchmark.expect_metrics(measures.0.len());
        for (label, metric) in measures.0 {
            let measure = known.entry(label).or_insert_with_key(|label| Measure::named(label));
            if benchmark.metrics.iter().any(|(known, _)| known.slug == measure.slug) {
                return Err(twice(text, benchmark.name.as_str(), measure));
            }
            benchmark.add(measure, metric)?;
        }
    }
    Ok(results)
}

/// The error that a JSON document has a measure of a benchmark twice.
fn twice(text: &str, benchmark: &str, measure: &Measure) -> AdapterError {
    let mut is_of_benchmark = false;
    let mut lines = Vec::new();
    for (line, depth, key) in keys(text) {
        match depth {
            1 => is_of_benchmark = strip_ignored(&key).unwrap_or(&key) == benchmark,
            2 if is_of_benchmark && Measure::named(&key).slug == measure.slug => lines.push(line),
            _ => {}
        }
    }
    let (first, line) = (lines.first().copied().unwrap_or(1), lines.get(1).copied().unwrap_or(1));
    let slug = &measure.slug;
    let reason = format!(
        "{benchmark:?} has the measure {slug} in line {first} already; a benchmark has one value of a \
         measure, so give one of both another name"
    );
    AdapterError::Malformed { adapter: Adapter::Json, line, reason }
}

/// The keys of a document with their lines and how many objects they are in.
fn keys(text: &str) -> Vec<(usize, usize, String)> {
    let bytes = text.as_bytes();
    let (mut line, mut depth, mut at) = (1, 0, 0);
    let mut keys = Vec::new();
    while at < bytes.len() {
        match bytes[at] {
            b'\n' => line += 1,
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b'"' => {
                let end = end_of_string(bytes, at + 1);
                if text[end..].trim_start().starts_with(':') {
                    let key = serde_json::from_str(&text[at..end]).unwrap_or_default();
                    keys.push((line, depth, key));
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{benchmarks, check_error};

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
    fn what_is_wrong_and_where() {
        let check = |text: &str, expected: &str| check_error(parse(text, None), expected);
        check("{\n\"a\": {\"latency\": {}}}", "line 2: missing field `value`");
        check("{\"a\": {\"latency\": {\"value\": \"1\"}}}", "invalid type: string");
        check("{\"\": {\"latency\": {\"value\": 1}}}", "it is empty");
        check("{} {}", "trailing characters");
    }

    #[test]
    fn a_measure_twice_is_refused() {
        let check = |text: &str, expected: &str| check_error(parse(text, None), expected);
        let one = r#"{"value": 1}"#;
        let first = "has the measure latency in line 2 already";
        check(&format!("{{\"a\": {{\n\"latency\": {one},\n\"Latency\": {one}}}}}"), first);
        let of = |name: &str| format!("\n\"{name}\": {{\"latency\": {one}}}");
        check(&format!("{{{},{}}}", of("a"), of("a")), "line 3: \"a\"");
        check(&format!("{{{},{}}}", of("a"), of("a_bencher_ignore")), first);
        let apart = format!("{{\"a\": {{\"latency\": {one}}}, \"a\": {{\"throughput\": {one}}}}}");
        assert_eq!(parse(&apart, None).expect("results").benchmarks[0].metrics.len(), 2);
    }

    #[test]
    fn messages_of_cargo_stand_around_it() {
        let cargo = "{\"reason\":\"build-finished\",\"success\":true}";
        let text = format!("{cargo}\n{{\"a\": {{\"latency\": {{\"value\": 1}}}}}}\n{cargo}\n");
        assert_eq!(parse(&text, None).expect("results").benchmarks[0].name.as_str(), "a");
        check_error(parse(&format!("{cargo}\n{{\"a\": 1}}"), None), "line 2");
    }
}
