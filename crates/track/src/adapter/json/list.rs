//! The list format of github-action-benchmark: `[{"name", "unit", "value", "range"}]`.

use serde::{Deserialize, de::IgnoredAny};

use super::Reader;
use crate::adapter::{
    by_unit::{Measures, spread},
    prelude::*,
    shape::Shape,
};

/// An entry of `customSmallerIsBetter` or `customBiggerIsBetter`.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Entry {
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
    pub(super) fn list(&mut self, entries: Vec<Shape<Entry>>) {
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
    use crate::adapter::values;

    fn read(text: &str) -> Parsed {
        Adapter::Json.parse(text.as_bytes(), None)
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
