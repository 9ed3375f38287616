//! Results of one output of a benchmark tool: metrics by benchmark and measure, and failures.

mod benchmark;

use std::{
    collections::BTreeSet,
    hash::{Hash, Hasher},
};

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use serde::{Deserialize, Serialize};

use super::{
    Description, DescriptionError, Slugs,
    adapter::Adapter,
    measure::{Direction, Measure, Metric},
    name::{BenchmarkName, InvalidName, MeasureName, strip_ignored},
};

pub use self::benchmark::{AddError, BenchmarkResults};
use self::benchmark::{check, check_name};

/// Maximum length of a name in Bencher, in bytes (`MAX_BENCHMARK_NAME_LEN`).
const BENCHER_NAME_MAX: usize = 1024;

/// Maximum number of remarks about skipped lines, of which an output may be full.
const REMARKS_MAX: usize = 5;

/// Which figure to use if a tool offers both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Average {
    Mean,
    Median,
}

/// The results of one iteration: one run of the command, or one file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Results {
    /// In the order of the output; each name once.
    pub benchmarks: Vec<BenchmarkResults>,
    /// Benchmarks that the tool failed to measure. They have no metrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailedBenchmark>,
    /// Remarks for the user about how the output was parsed. They are added to those of the run.
    #[serde(skip)]
    pub remarks: Vec<String>,
    /// The adapter chosen by [`Adapter::Magic`]. `None` if the user named one.
    #[serde(skip)]
    chosen: Aside<Option<Adapter>>,
    #[serde(skip)]
    lost: Aside<Option<Lost>>,
    #[serde(skip)]
    index: Aside<Index>,
    /// Names that Bencher's client uses, if they differ from ours. Only needed for `--host`.
    #[serde(skip)]
    bencher_names: Aside<FxHashMap<BenchmarkName, Box<str>>>,
    /// Names of measures that the user declared undirected. They are not stored.
    #[serde(default, skip_serializing_if = "Aside::is_empty")]
    undirected: Aside<BTreeSet<String>>,
}

/// The first result that could not be read.
#[derive(Debug, Clone)]
pub(crate) struct Lost {
    /// Line number in the output, from 1.
    pub(crate) line: usize,
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// Data ignored when results are compared.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Aside<T>(T);

impl<T> Aside<BTreeSet<T>> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> PartialEq for Aside<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Index of benchmarks by the hash of their names, so that no name is stored twice. On a collision, the second name is
/// stored under the next number.
type Index = FxHashMap<u64, usize>;

impl Aside<Index> {
    /// The index of that name, or the number to insert it under.
    fn find(&self, benchmarks: &[BenchmarkResults], name: &str) -> Result<usize, u64> {
        let mut hasher = FxHasher::default();
        name.hash(&mut hasher);
        let mut number = hasher.finish();
        loop {
            match self.0.get(&number) {
                None => return Err(number),
                Some(&at) if benchmarks[at].name.as_str() == name => return Ok(at),
                Some(_) => number = number.wrapping_add(1),
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedBenchmark {
    pub name: BenchmarkName,
    pub reason: String,
}

impl Results {
    pub fn is_empty(&self) -> bool {
        self.benchmarks.is_empty() && self.failures.is_empty()
    }

    /// Adds a metric. If the tool prints the same measure of the same benchmark again (`go test -count`), it is a
    /// repetition: the values become samples, and their mean is the value.
    pub fn add(
        &mut self,
        name: BenchmarkName,
        measure: Measure,
        metric: Metric,
    ) -> Result<(), AddError> {
        let (name, is_ignored) = name.strip_ignored();
        // Checked before the benchmark is added: one without a metric is not a result.
        check_name(&name, &measure)?;
        check(&name, &measure, &metric)?;
        let at = match self.find(name.as_str()) {
            Ok(at) => at,
            Err(number) => self.push(number, name, is_ignored),
        };
        self.benchmarks[at].add(&measure, metric)
    }

    /// The benchmark of that name, for adding metrics. Creates it, so call this only with a metric to add.
    pub(crate) fn benchmark(&mut self, name: &str) -> Result<&mut BenchmarkResults, InvalidName> {
        let at = self.place(name)?;
        Ok(&mut self.benchmarks[at])
    }

    /// The index in [`Results::benchmarks`] of the benchmark of that name, like [`Results::benchmark`].
    pub(crate) fn place(&mut self, name: &str) -> Result<usize, InvalidName> {
        let judged = strip_ignored(name);
        let own = judged.unwrap_or(name);
        Ok(match self.find(own) {
            Ok(at) => at,
            Err(number) => self.push(number, BenchmarkName::new(own)?, judged.is_some()),
        })
    }

    /// The name that Bencher's client gives to this benchmark for the same output. Defaults to our name.
    pub fn bencher_name<'r>(&'r self, name: &'r BenchmarkName) -> &'r str {
        self.bencher_names.0.get(name).map_or(name.as_str(), |theirs| theirs)
    }

    /// Sets the name that Bencher's client uses for a benchmark. Ignores names that are invalid in Bencher.
    pub(crate) fn set_bencher_name(&mut self, name: &BenchmarkName, theirs: &str) {
        if theirs != name.as_str() && (1..=BENCHER_NAME_MAX).contains(&theirs.len()) {
            let (judged, _) = name.clone().strip_ignored();
            self.bencher_names.0.insert(judged, theirs.into());
        }
    }

    /// Takes over the metadata of other results.
    pub(crate) fn add_asides(&mut self, others: &Self) {
        let theirs = others.bencher_names.0.iter();
        self.bencher_names.0.extend(theirs.map(|(name, theirs)| (name.clone(), theirs.clone())));
        self.undirected.0.extend(others.undirected.0.iter().cloned());
        self.chosen.0 = self.chosen.0.or(others.chosen.0);
    }

    /// Notes that the user declared a measure undirected.
    pub(crate) fn set_undirected(&mut self, measure: &Measure) {
        if !self.undirected.0.contains(&*measure.name) {
            self.undirected.0.insert(measure.name.to_string());
        }
    }

    /// Whether the user declared the measure undirected.
    pub(crate) fn is_undirected(&self, measure: &Measure) -> bool {
        self.undirected.0.contains(&*measure.name)
    }

    /// Applies descriptions to the measures of these names or slugs.
    pub fn describe(
        &mut self,
        described: &[(MeasureName, Description)],
    ) -> Result<(), DescriptionError> {
        if described.is_empty() {
            return Ok(());
        }
        let slugs: Vec<_> =
            described.iter().map(|(name, _)| Measure::named(name.as_str()).slug).collect();
        let metrics = self.benchmarks.iter_mut().flat_map(|benchmark| &mut benchmark.metrics);
        for (measure, _) in metrics {
            let by_name = described.iter().position(|(name, _)| name.as_str() == measure.name);
            let by_slug = || slugs.iter().position(|slug| *slug == measure.slug);
            if let Some(at) = by_name.or_else(by_slug) {
                let description = &described[at].1;
                // Values are already in the units of a known measure.
                description.describe(measure)?;
                if description.direction == Some(Direction::Unknown) {
                    self.undirected.0.insert(measure.name.to_string());
                }
            }
        }
        Ok(())
    }

    /// Assigns different slugs to measures with different names.
    pub fn tell_apart(&mut self, slugs: &mut Slugs) {
        let metrics = self.benchmarks.iter_mut().flat_map(|benchmark| &mut benchmark.metrics);
        metrics.for_each(|(measure, _)| measure.slug = slugs.of(measure));
    }

    pub fn fail(&mut self, name: BenchmarkName, reason: impl Into<String>) {
        self.failures.push(FailedBenchmark { name, reason: reason.into() });
    }

    /// Notes that a result of that name could not be read: a failure of its benchmark, or a remark if the name is
    /// invalid.
    pub(crate) fn lose(&mut self, line: usize, name: &str, reason: String) {
        match BenchmarkName::new(name.trim()) {
            Ok(name) => self.fail(name, reason.clone()),
            Err(_) => match self.remarks.len() {
                REMARKS_MAX => self.remarks.push("so were more lines".to_owned()),
                count if count > REMARKS_MAX => {}
                _ => self.remarks.push(format!("line {line} was passed over: {reason}")),
            },
        }
        self.lost.0.get_or_insert(Lost { line, name: name.to_owned(), reason });
    }

    /// The first result that could not be read, if no result could.
    pub(crate) fn all_lost(&mut self) -> Option<Lost> {
        self.lost.0.take().filter(|_| self.benchmarks.is_empty())
    }

    /// Keeps each failed benchmark once, with its first reason and without metrics: one of several repetitions may have
    /// succeeded.
    pub(crate) fn settle_failures(&mut self) {
        if self.failures.is_empty() {
            return;
        }
        let mut failed = FxHashSet::default();
        self.failures.retain(|failure| failed.insert(failure.name.clone().strip_ignored().0));
        self.benchmarks.retain(|benchmark| !failed.contains(&benchmark.name));
        self.index.0.clear();
    }

    /// Merges a part of the output that was parsed separately, with its benchmarks renamed by `named`.
    pub(crate) fn take(
        &mut self,
        part: Self,
        named: impl Fn(&BenchmarkName) -> BenchmarkName,
    ) -> Result<(), AddError> {
        let theirs = part.bencher_names.0;
        for benchmark in part.benchmarks {
            let name = named(&benchmark.name);
            let theirs =
                theirs.get(&benchmark.name).map_or(benchmark.name.as_str(), |theirs| theirs);
            self.set_bencher_name(&name, theirs);
            let at = match self.find(name.as_str()) {
                Ok(at) => at,
                Err(number) => self.push(number, name, benchmark.is_ignored),
            };
            for (measure, metric) in benchmark.metrics {
                self.benchmarks[at].add(&measure, metric)?;
            }
        }
        for failure in part.failures {
            self.fail(named(&failure.name), failure.reason);
        }
        self.remarks.extend(part.remarks);
        self.undirected.0.extend(part.undirected.0);
        self.lost.0 = self.lost.0.take().or(part.lost.0);
        Ok(())
    }

    /// The adapter chosen by [`Adapter::Magic`]. `None` if the user named one.
    pub fn chosen(&self) -> Option<Adapter> {
        self.chosen.0
    }

    pub(crate) fn set_chosen(&mut self, adapter: Adapter) {
        self.chosen.0 = Some(adapter);
    }

    /// The index of the benchmark of that name, or the number to insert it under.
    fn find(&mut self, name: &str) -> Result<usize, u64> {
        // Deserialized results have no index yet.
        if self.index.0.len() != self.benchmarks.len() {
            self.index.0.clear();
            for (at, benchmark) in self.benchmarks.iter().enumerate() {
                if let Err(number) = self.index.find(&self.benchmarks, benchmark.name.as_str()) {
                    self.index.0.insert(number, at);
                }
            }
        }
        self.index.find(&self.benchmarks, name)
    }

    /// Adds a new benchmark, and returns its index.
    fn push(&mut self, number: u64, name: BenchmarkName, is_ignored: bool) -> usize {
        let at = self.benchmarks.len();
        self.index.0.insert(number, at);
        self.benchmarks.push(BenchmarkResults { name, is_ignored, metrics: Vec::new() });
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> BenchmarkName {
        BenchmarkName::new(text).expect("a name")
    }

    #[test]
    fn repetitions_become_samples() {
        let mut results = Results::default();
        for value in [10.0, 20.0, 60.0] {
            results.add(name("a"), Measure::latency(), Metric::new(value)).expect("added");
        }
        let expected = Metric::new(30.0).within(10.0, 60.0).with_samples(vec![10.0, 20.0, 60.0]);
        assert_eq!(results.benchmarks[0].metrics, [(Measure::latency(), expected)]);
    }

    #[test]
    fn results_that_were_read_back_go_on() {
        let mut results = Results::default();
        results.add(name("a"), Measure::latency(), Metric::new(1.0)).expect("added");
        let json = serde_json::to_string(&results).expect("JSON");
        let mut results: Results = serde_json::from_str(&json).expect("results");
        results.add(name("a"), Measure::throughput(), Metric::new(2.0)).expect("added");
        assert_eq!(results.benchmarks.len(), 1);
        assert_eq!(results.benchmarks[0].metrics.len(), 2);
    }

    #[test]
    fn names_are_told_apart_and_found_again() {
        let mut results = Results::default();
        for round in 0..2 {
            for i in 0..1000 {
                let (name, metric) = (format!("b{i}"), Metric::new(f64::from(round)));
                let benchmark = results.benchmark(&name).expect("a name");
                benchmark.add(&Measure::latency(), metric).expect("added");
            }
        }
        assert_eq!(results.benchmarks.len(), 1000);
        for (i, benchmark) in results.benchmarks.iter().enumerate() {
            assert_eq!(benchmark.name.as_str(), format!("b{i}"));
            assert_eq!(benchmark.metrics[0].1.samples, [0.0, 1.0]);
        }
    }

    #[test]
    fn names_of_the_same_hash() {
        let mut results = Results::default();
        results.add(name("a"), Measure::latency(), Metric::new(1.0)).expect("added");
        let number = results.find("b").expect_err("it is not there");
        // Simulates a hash collision with the other name.
        results.index.0 = FxHashMap::from_iter([(number, 0)]);
        for value in [2.0, 3.0] {
            results.add(name("b"), Measure::latency(), Metric::new(value)).expect("added");
        }
        assert_eq!(results.find("b"), Ok(1));
        assert_eq!(results.benchmarks[0].metrics[0].1.value, 1.0);
        assert_eq!(results.benchmarks[1].metrics[0].1.samples, [2.0, 3.0]);
    }

    #[test]
    fn units_never_mix() {
        let mut results = Results::default();
        results.add(name("a"), Measure::latency(), Metric::new(1.0)).expect("added");
        let seconds = Measure { units: "seconds (s)".into(), ..Measure::latency() };
        let error = results.add(name("a"), seconds, Metric::new(1.0)).expect_err("other units");
        assert!(error.to_string().contains("once in nanoseconds (ns) and once in seconds (s)"));
    }

    #[test]
    fn numbers_are_finite() {
        let mut results = Results::default();
        for metric in [Metric::new(f64::NAN), Metric::new(1.0).within(0.0, f64::INFINITY)] {
            assert!(results.add(name("a"), Measure::latency(), metric).is_err());
        }
        assert!(results.is_empty());
    }

    #[test]
    fn spreads_end_where_they_begin_or_above() {
        let check = |lower, upper, expected| {
            let metric = Metric::new(2.0).within(lower, upper);
            let added = Results::default().add(name("a"), Measure::latency(), metric);
            assert_eq!(added.is_ok(), expected, "{lower} {upper}: {added:?}");
        };
        check(1.0, 3.0, true);
        check(2.0, 2.0, true);
        check(3.0, 1.0, false);
    }

    #[test]
    fn the_ending_that_asks_not_to_be_judged_is_cut_off() {
        let mut results = Results::default();
        let ignored = name("a_bencher_ignore");
        results.add(ignored, Measure::latency(), Metric::new(1.0)).expect("added");
        assert_eq!(results.benchmarks[0].name.as_str(), "a");
        assert!(results.benchmarks[0].is_ignored);
    }
}
