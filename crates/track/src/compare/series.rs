//! Values of the runs, by benchmark and measure. Pure.

use std::{borrow::Cow, collections::HashMap};

use super::SideName;
use crate::model::{BenchmarkName, Measure, Results, Slug, Slugs};

#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub benchmark: BenchmarkName,
    /// Whether it opted out of being judged.
    pub is_ignored: bool,
    pub measure: Measure,
    /// Values of pairs of adjacent runs, base and head, where both have one.
    pub pairs: Vec<[f64; 2]>,
    pub seen: [usize; 2],
}

/// The series of all runs, in order of first appearance.
#[derive(Debug, Clone, Default)]
pub(super) struct Collector {
    series: Vec<Series>,
    index: HashMap<(BenchmarkName, Slug, Cow<'static, str>), usize>,
    /// An output may list its measures in any order.
    slugs: Slugs,
}

impl Collector {
    pub(super) fn add(&mut self, base: &Results, head: &Results) {
        let mut values: HashMap<usize, [Option<f64>; 2]> = HashMap::new();
        for (side, results) in [base, head].into_iter().enumerate() {
            for benchmark in &results.benchmarks {
                for (measure, metric) in &benchmark.metrics {
                    let at = self.place(&benchmark.name, benchmark.is_ignored, measure);
                    self.series[at].seen[side] += 1;
                    values.entry(at).or_default()[side] = Some(metric.value);
                }
            }
        }
        for (at, pair) in values {
            if let [Some(base), Some(head)] = pair {
                self.series[at].pairs.push([base, head]);
            }
        }
    }

    pub(super) fn series(&self) -> &[Series] {
        &self.series
    }

    pub(super) fn into_series(self) -> Vec<Series> {
        self.series
    }

    fn place(&mut self, benchmark: &BenchmarkName, is_ignored: bool, measure: &Measure) -> usize {
        let next = self.series.len();
        // Values in other units are another series, so that they never form a pair.
        let key = (benchmark.clone(), self.slugs.of(measure), measure.units.clone());
        let at = *self.index.entry(key).or_insert(next);
        if at == next {
            let series = Series::new(benchmark.clone(), measure.clone(), Vec::new());
            self.series.push(Series { is_ignored, ..series });
        }
        at
    }
}

impl Series {
    /// A series of both sides with these pairs.
    pub fn new(benchmark: BenchmarkName, measure: Measure, pairs: Vec<[f64; 2]>) -> Self {
        let seen = [pairs.len(); 2];
        Self { benchmark, is_ignored: false, measure, pairs, seen }
    }

    /// The only side that has it, if the other never had.
    pub(super) fn only_side(&self) -> Option<SideName> {
        match self.seen {
            [_, 0] => Some(SideName::Base),
            [0, _] => Some(SideName::Head),
            _ => None,
        }
    }

    /// The values of each side if each is constant, and there are any.
    pub(super) fn exact_values(&self) -> Option<[f64; 2]> {
        let &first = self.pairs.first()?;
        self.pairs.iter().all(|pair| *pair == first).then_some(first)
    }

    /// Logarithms of `head / base`; `None` if a value is not above 0.
    pub(super) fn log_ratios(&self) -> Option<Vec<f64>> {
        let is_positive = |pair: &[f64; 2]| pair[0] > 0.0 && pair[1] > 0.0;
        let ratio = |pair: &[f64; 2]| pair[1].ln() - pair[0].ln();
        self.pairs.iter().all(is_positive).then(|| self.pairs.iter().map(ratio).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Metric, Results};

    fn results(values: &[(&str, &str, f64)]) -> Results {
        let mut results = Results::default();
        for &(name, units, value) in values {
            let name = BenchmarkName::new(name).expect("a name");
            let measure = Measure { units: units.to_owned().into(), ..Measure::latency() };
            results.add(name, measure, Metric::new(value)).expect("added");
        }
        results
    }

    #[test]
    fn pairs_are_made_of_what_both_sides_have() {
        let mut collector = Collector::default();
        collector
            .add(&results(&[("a", "ns", 1.0), ("b", "ns", 2.0)]), &results(&[("a", "ns", 3.0)]));
        collector.add(&results(&[("a", "ns", 4.0)]), &results(&[("a", "s", 5.0)]));
        let found = collector.into_series();
        let check = |at: usize, name: &str, units: &str, pairs: &[[f64; 2]], seen| {
            let series = &found[at];
            assert_eq!((series.benchmark.as_str(), &*series.measure.units), (name, units));
            assert_eq!((&*series.pairs, series.seen), (pairs, seen));
        };
        check(0, "a", "ns", &[[1.0, 3.0]], [2, 1]);
        check(1, "b", "ns", &[], [1, 0]);
        check(2, "a", "s", &[], [0, 1]);
        assert_eq!(found[1].only_side(), Some(SideName::Base));
        assert_eq!(found[2].only_side(), Some(SideName::Head));
    }

    #[test]
    fn ratios_need_values_above_0() {
        let check = |pairs: &[[f64; 2]], expected: Option<&[f64]>| {
            let name = BenchmarkName::new("a").expect("a name");
            let series = Series::new(name, Measure::latency(), pairs.to_vec());
            assert_eq!(series.log_ratios().as_deref(), expected, "{pairs:?}");
        };
        check(&[[1.0, 1.0], [2.0, 4.0]], Some(&[0.0, 2.0_f64.ln()]));
        check(&[[1.0, 0.0]], None);
        check(&[[-1.0, -1.0]], None);
    }
}
