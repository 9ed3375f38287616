//! Results as text for comparison, one line per metric.

use std::fmt::Write as _;

use wingbeat_track::model::Results;

/// `NAME | measure = value [lower .. upper] (n samples) units` for metrics, `NAME ! reason` for failures.
pub(crate) fn outline(results: &Results) -> String {
    let mut text = String::new();
    for benchmark in &results.benchmarks {
        let name = &benchmark.name;
        for (measure, metric) in &benchmark.metrics {
            write!(text, "{name} | {} = {}", measure.slug, metric.value).expect("text");
            if let (Some(lower), Some(upper)) = (metric.lower_value, metric.upper_value) {
                write!(text, " [{lower} .. {upper}]").expect("text");
            }
            match metric.samples.len() {
                0 => {}
                1 => text += " (1 sample)",
                count => write!(text, " ({count} samples)").expect("text"),
            }
            let (direction, kind) = (measure.direction, measure.kind);
            writeln!(text, " {}, {direction:?}, {kind:?}", measure.units).expect("text");
        }
    }
    for failure in &results.failures {
        writeln!(text, "{} ! {}", failure.name, failure.reason).expect("text");
    }
    text
}
