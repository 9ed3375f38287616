//! Fake results for trying things out, in Bencher Metric Format.

use serde_json::{Map, Value, json};
use wingbeat_stats::random::Random;

#[derive(Debug, Clone, PartialEq)]
pub struct Mock {
    /// Seed: the same one gives the same results, byte for byte.
    pub seed: u64,
    pub count: usize,
    pub measures: Vec<String>,
    pub pow: i32,
    /// Maximum deviation from the middle of the range, as a share of the middle. `None`: anywhere in the range, as in
    /// `bencher mock`.
    pub noise: Option<f64>,
    /// Increase of the last benchmark, as a share: 0.2 is 20 %.
    pub slower: f64,
}

impl Mock {
    /// The results: the value of benchmark `c` is uniform between 10^pow · c and 10^pow · (c + 1), with a spread of 10
    /// % below and above, as in `bencher mock`; with `noise` uniform around the middle.
    pub fn results(&self) -> Value {
        let mut random = Random::new(self.seed);
        let scale = 10_f64.powi(self.pow);
        let mut benchmark = |number: usize| {
            let slower = if number + 1 == self.count { 1.0 + self.slower } else { 1.0 };
            let measures = self.measures.iter().map(|measure| {
                let place = random.unit();
                let value = match self.noise {
                    None => number as f64 + place,
                    Some(noise) => (number as f64 + 0.5) * (1.0 + noise * (2.0 * place - 1.0)),
                };
                let value = scale * slower * value;
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

    fn plain(count: usize) -> Mock {
        let measures = vec!["latency".to_owned()];
        Mock { seed: 7, count, measures, pow: 1, noise: None, slower: 0.0 }
    }

    #[test]
    fn noise_and_a_slower_one() {
        let values = |seed, slower| -> Vec<f64> {
            let results = Mock { seed, noise: Some(0.02), slower, ..plain(3) }.results();
            let names = ["bencher::mock_0", "bencher::mock_1", "bencher::mock_2"];
            names.iter().filter_map(|name| results[name]["latency"]["value"].as_f64()).collect()
        };
        for seed in 0..20 {
            let (even, slower) = (values(seed, 0.0), values(seed, 0.5));
            for (value, middle) in even.iter().zip([5.0, 15.0, 25.0]) {
                assert!((value / middle - 1.0).abs() <= 0.02, "{value} beside {middle}");
            }
            assert_eq!(even[..2], slower[..2], "only the last one becomes slower");
            assert!((slower[2] / even[2] - 1.5).abs() < 1e-9, "{} from {}", slower[2], even[2]);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_results() {
        let mock = |seed| Mock { seed, ..plain(5) };
        assert_eq!(mock(1).results(), mock(1).results());
        assert_ne!(mock(1).results(), mock(2).results());
    }

    #[test]
    fn values_lie_where_they_should_and_can_be_read() {
        let measures = vec!["latency".to_owned(), "x".to_owned()];
        let mock = Mock { measures, pow: 2, ..plain(4) };
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
