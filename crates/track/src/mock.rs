//! Made-up results to try things with, in Bencher Metric Format.

use serde_json::{Map, Value, json};
use wingbeat_stats::random::Random;

/// Which results to make up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mock {
    /// Seed: the same one gives the same results, to the byte.
    pub seed: u64,
    /// Benchmarks.
    pub count: usize,
    /// Measures of each.
    pub measures: Vec<String>,
    /// Power of ten of the values.
    pub pow: i32,
}

impl Mock {
    /// The results: value of benchmark `c` evenly between 10^pow · c and 10^pow · (c + 1), and 10 % below
    /// and above it as the spread, as `bencher mock` makes them.
    #[must_use]
    pub fn results(&self) -> Value {
        let mut random = Random::new(self.seed);
        let scale = 10_f64.powi(self.pow);
        let mut benchmark = |number: usize| {
            let measures = self.measures.iter().map(|measure| {
                let value = scale * (number as f64 + random.unit());
                let (lower, upper) = (value * 0.9, value * 1.1);
                (
                    measure.clone(),
                    json!({"value": value, "lower_value": lower, "upper_value": upper}),
                )
            });
            (format!("bencher::mock_{number}"), Value::Object(measures.collect::<Map<_, _>>()))
        };
        Value::Object((0..self.count).map(&mut benchmark).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::Adapter;

    #[test]
    fn the_same_seed_gives_the_same_results() {
        let mock = |seed| Mock { seed, count: 5, measures: vec!["latency".to_owned()], pow: 1 };
        assert_eq!(mock(1).results(), mock(1).results());
        assert_ne!(mock(1).results(), mock(2).results());
    }

    #[test]
    fn values_lie_where_they_should_and_can_be_read() {
        let mock = Mock {
            seed: 7,
            count: 4,
            measures: vec!["latency".to_owned(), "x".to_owned()],
            pow: 2,
        };
        let text = mock.results().to_string();
        let results = Adapter::Json.parse(text.as_bytes(), None).expect("results");
        assert_eq!(results.benchmarks.len(), 4);
        for (number, benchmark) in results.benchmarks.iter().enumerate() {
            assert_eq!(benchmark.metrics.len(), 2);
            for (_, metric) in &benchmark.metrics {
                let low = 100.0 * number as f64;
                assert!((low..low + 100.0).contains(&metric.value), "{number}: {}", metric.value);
            }
        }
    }
}
