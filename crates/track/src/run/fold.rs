//! Merges several iterations into one.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::model::{BenchmarkName, BenchmarkResults, Measure, Metric, Results};

/// How to merge several iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fold {
    Min,
    Max,
    /// The mean of all parts over the iterations that have the metric.
    Mean,
    /// The median metric, or the mean of the two in the middle.
    Median,
}

/// A benchmark with the data of all iterations.
struct Column {
    name: BenchmarkName,
    is_ignored: bool,
    metrics: Vec<(Measure, Vec<Metric>)>,
}

impl Fold {
    /// Merges all iterations into one. Keeps the samples of all of them. A benchmark that failed in one iteration is
    /// listed as failed.
    pub fn fold(self, iterations: Vec<Results>) -> Results {
        let mut folded = Results::default();
        let mut columns: Vec<Column> = Vec::new();
        let mut places: HashMap<BenchmarkName, usize> = HashMap::new();
        for results in iterations {
            folded.add_asides(&results);
            for failure in results.failures {
                if !folded.failures.contains(&failure) {
                    folded.failures.push(failure);
                }
            }
            for benchmark in results.benchmarks {
                let at = *places.entry(benchmark.name.clone()).or_insert_with(|| {
                    let (name, is_ignored) = (benchmark.name, benchmark.is_ignored);
                    columns.push(Column { name, is_ignored, metrics: Vec::new() });
                    columns.len() - 1
                });
                for (measure, metric) in benchmark.metrics {
                    let column = &mut columns[at].metrics;
                    let same = |known: &&mut (Measure, Vec<Metric>)| {
                        known.0.slug == measure.slug && known.0.units == measure.units
                    };
                    match column.iter_mut().find(same) {
                        Some((_, metrics)) => metrics.push(metric),
                        None => column.push((measure, vec![metric])),
                    }
                }
            }
        }
        for Column { name, is_ignored, metrics } in columns {
            let metrics = metrics
                .into_iter()
                .filter_map(|(measure, metrics)| Some((measure, self.one_of(metrics)?)))
                .collect();
            folded.benchmarks.push(BenchmarkResults { name, is_ignored, metrics });
        }
        folded
    }

    fn one_of(self, mut metrics: Vec<Metric>) -> Option<Metric> {
        let samples = metrics.iter().flat_map(|metric| metric.samples.iter().copied()).collect();
        metrics.sort_by(|a, b| {
            a.value
                .total_cmp(&b.value)
                .then_with(|| compare(a.upper_value, b.upper_value))
                .then_with(|| compare(a.lower_value, b.lower_value))
        });
        let middle = metrics.len() / 2;
        let one = match self {
            Self::Min => metrics.first()?.clone(),
            Self::Max => metrics.last()?.clone(),
            Self::Mean => mean(&metrics)?,
            Self::Median if metrics.len() % 2 == 1 => metrics[middle].clone(),
            Self::Median => mean(metrics.get(middle.checked_sub(1)?..=middle)?)?,
        };
        Some(Metric { samples, ..one })
    }
}

fn compare(a: Option<f64>, b: Option<f64>) -> std::cmp::Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// The mean of each part. An end of the spread missing in one of them is omitted.
fn mean(metrics: &[Metric]) -> Option<Metric> {
    let count = metrics.len() as f64;
    let of = |part: fn(&Metric) -> Option<f64>| {
        let parts: Option<Vec<f64>> = metrics.iter().map(part).collect();
        parts.map(|parts| parts.iter().map(|part| part / count).sum::<f64>())
    };
    Some(Metric {
        value: of(|metric| Some(metric.value))?,
        lower_value: of(|metric| metric.lower_value),
        upper_value: of(|metric| metric.upper_value),
        samples: Vec::new(),
    })
    .filter(|_| !metrics.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iteration(metrics: &[(&str, Metric)]) -> Results {
        let mut results = Results::default();
        for (name, metric) in metrics {
            let name = BenchmarkName::new(*name).expect("a name");
            results.add(name, Measure::latency(), metric.clone()).expect("added");
        }
        results
    }

    #[test]
    fn folds() {
        let iterations = vec![
            iteration(&[("a", Metric::new(3.0).within(2.0, 4.0)), ("b", Metric::new(7.0))]),
            iteration(&[("a", Metric::new(1.0).within(0.0, 9.0))]),
        ];
        let check = |fold: Fold, expected: Metric| {
            let folded = fold.fold(iterations.clone());
            assert_eq!(folded.benchmarks[0].metrics[0].1, expected, "{fold:?}");
            assert_eq!(folded.benchmarks[1].metrics[0].1.value, 7.0, "only one iteration has it");
        };
        check(Fold::Min, Metric::new(1.0).within(0.0, 9.0));
        check(Fold::Max, Metric::new(3.0).within(2.0, 4.0));
        check(Fold::Mean, Metric::new(2.0).within(1.0, 6.5));
        check(Fold::Median, Metric::new(2.0).within(1.0, 6.5));
    }

    #[test]
    fn the_middle_one() {
        let metrics = [5.0, 1.0, 2.0].map(|value| iteration(&[("a", Metric::new(value))]));
        let folded = Fold::Median.fold(metrics.to_vec());
        assert_eq!(folded.benchmarks[0].metrics[0].1.value, 2.0);
        assert_eq!(Fold::Mean.fold(Vec::new()), Results::default());
    }
}
