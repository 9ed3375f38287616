//! Measures of values for which only the unit is known, as in custom lists and tables.

use rustc_hash::FxHashMap;

use super::{
    naming,
    shape::Shape,
    unit::{nanoseconds, number},
};
use crate::model::{Direction, Measure};

/// Half the spread from `± 3`, `+/- 3`, `1.5%` or `3`.
pub(crate) fn spread<T>(value: f64, range: &Shape<T>) -> Option<f64> {
    let text = match range {
        Shape::Number(range) => return Some(range.abs()),
        other => other.text().trim_start_matches(['\u{b1}', '+', '/', '-', ' ']).trim(),
    };
    match text.strip_suffix('%') {
        Some(percent) => Some(value.abs() * number(percent.trim())? / 100.0),
        None => number(text),
    }
}

/// Measures for user-defined units, each with the factor of its values.
#[derive(Default)]
pub(crate) struct Measures(FxHashMap<String, (Measure, f64)>);

impl Measures {
    /// The measure of a unit. A time is a latency, operations per second are a throughput. Any other unit has its own
    /// measure, as in `go_bench`.
    pub(crate) fn of(&mut self, unit: &str) -> (&Measure, f64) {
        let make = |unit: &String| {
            let plain =
                ["/iter", "/op"].iter().find_map(|per| unit.strip_suffix(per)).unwrap_or(unit);
            let time = match plain.to_lowercase().as_str() {
                "nanosecond" | "nanoseconds" => Some(1.0),
                "microsecond" | "microseconds" => Some(1e3),
                "millisecond" | "milliseconds" => Some(1e6),
                "second" | "seconds" => Some(1e9),
                // A single letter is ambiguous.
                "m" | "h" => None,
                _ => nanoseconds(plain),
            };
            match (time, unit.as_str()) {
                (Some(factor), _) => (Measure::latency(), factor),
                (_, "ops/sec" | "ops/s" | "op/s") => (Measure::throughput(), 1.0),
                (_, "") => (Measure::named("value"), 1.0),
                (_, own) => (naming::counter(own, own, Direction::Unknown), 1.0),
            }
        };
        let found = self.0.entry(naming::in_one_line(unit).into_owned()).or_insert_with_key(make);
        (&found.0, found.1)
    }
}
