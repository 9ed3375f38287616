//! Benchmark names of tools: conversion to valid names, and names that a tool uses once, where a second occurrence is
//! another benchmark, not a repetition.

use std::{collections::hash_map::Entry, hash::Hash};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    AdapterError, Parsed,
    line::{At, in_one_line},
};
use crate::model::{BenchmarkResults, Direction, Measure, MeasureKind, Results};

/// A measure specific to a benchmark or tool. Its slug never collides with a known one.
pub(super) fn counter(label: &str, units: &str, direction: Direction) -> Measure {
    let label = in_one_line(label);
    let units = match units.trim() {
        "" => format!("{label} (units)"),
        units => units.to_owned(),
    };
    let measure = Measure::custom(label.to_string(), units.clone(), direction, MeasureKind::Noisy);
    let by_slug = Measure::from_slug(measure.slug.clone());
    // An unknown slug is its own name.
    if by_slug.name == by_slug.slug.as_str() {
        return measure;
    }
    Measure::custom(format!("{label} counter"), units, direction, MeasureKind::Noisy)
}

/// The measure of a harness that counts something other than time. Lower is better for cycles. The rest is unknown.
pub(super) fn measurement(units: &str) -> Measure {
    let direction = match units {
        "cycles" | "instructions" => Direction::LowerIsBetter,
        _ => Direction::Unknown,
    };
    Measure::custom(units.to_owned(), units.to_owned(), direction, MeasureKind::Noisy)
}

/// Keys with several qualifiers, which are several benchmarks and need the qualifier in their names.
pub(super) fn ambiguous<K: Hash + Eq + Clone, Q: PartialEq>(
    pairs: impl Iterator<Item = (K, Q)>,
) -> FxHashSet<K> {
    let mut first = FxHashMap::default();
    let mut several = FxHashSet::default();
    for (key, qualifier) in pairs {
        match first.entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(qualifier);
            }
            Entry::Occupied(known) if *known.get() == qualifier => {}
            Entry::Occupied(known) => {
                several.insert(known.key().clone());
            }
        }
    }
    several
}

/// Line numbers of the benchmarks read.
#[derive(Default)]
pub(super) struct Once {
    /// By index of the benchmark in the results. 0 if it has no line yet.
    lines: Vec<usize>,
    /// Line at which the tool began its run.
    begin: usize,
}

impl Once {
    /// Starts another run of the tool, in which recurring names are repetitions.
    pub(super) fn begin(&mut self, at: At) {
        self.begin = at.line;
    }

    /// The benchmark of that name, for adding metrics, like [`At::benchmark`].
    pub(super) fn benchmark<'r>(
        &mut self,
        at: At,
        results: &'r mut Results,
        name: &str,
    ) -> Parsed<&'r mut BenchmarkResults> {
        let name = name.trim();
        let place = results.place(name).map_err(|error| at.malformed(error.to_string()))?;
        if place >= self.lines.len() {
            self.lines.resize(place + 1, 0);
        }
        let first = std::mem::replace(&mut self.lines[place], at.line);
        if first != 0 && first >= self.begin {
            return Err(again(at, first, name));
        }
        Ok(&mut results.benchmarks[place])
    }
}

/// The entries of a document, each with a unique identity.
pub(super) struct Entries<K> {
    /// The first entry of each identity.
    first: FxHashMap<K, usize>,
    count: usize,
}

impl<K> Default for Entries<K> {
    fn default() -> Self {
        Self { first: FxHashMap::default(), count: 0 }
    }
}

impl<K: Hash + Eq> Entries<K> {
    /// Counts the next entry. Fails if an earlier one has the same identity.
    pub(super) fn add(&mut self, at: At, key: K, name: &str) -> Parsed<()> {
        self.count += 1;
        match self.first.entry(key) {
            Entry::Occupied(first) => Err(both(at, *first.get(), self.count, name)),
            Entry::Vacant(new) => {
                new.insert(self.count);
                Ok(())
            }
        }
    }
}

/// The error for a name that recurs after line `first`.
fn again(at: At, first: usize, name: &str) -> AdapterError {
    at.malformed(recurs(first, name))
}

/// Why a name with a result in line `first` is rejected.
pub(super) fn recurs(first: usize, name: &str) -> String {
    twice(&format!("{name:?} has a result in line {first} already"))
}

/// The error for two entries of a document that share a name.
pub(super) fn both(at: At, first: usize, second: usize, name: &str) -> AdapterError {
    at.malformed(twice(&format!("entries {first} and {second} are both called {name:?}")))
}

fn twice(found: &str) -> String {
    format!(
        "{found}, and the tool measures each name once, so two benchmarks would become one; rename one of \
         them, or repeat the whole run with --iter"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        adapter::Adapter,
        model::{Measure, Metric},
    };

    #[test]
    fn counters_keep_out_of_the_way() {
        let check = |label, units, slug: &str, expected: &str| {
            let measure = counter(label, units, Direction::Unknown);
            assert_eq!((measure.slug.as_str(), &*measure.units), (slug, expected), "{label}");
        };
        check("Foo", "", "foo", "Foo (units)");
        check("p99-ns", "ns", "p99-ns", "ns");
        check("latency", "", "latency-counter", "latency (units)");
        check("CPU Time", "s", "cpu-time-counter", "s");
    }

    #[test]
    fn what_one_name_does_not_tell_apart() {
        let found = ambiguous([("a", 1), ("b", 1), ("a", 1), ("b", 2)].into_iter());
        assert_eq!(found, FxHashSet::from_iter(["b"]));
    }

    fn add(once: &mut Once, results: &mut Results, line: usize, name: &str) -> Result<(), String> {
        let at = At { adapter: Adapter::RustIai, line };
        let benchmark = once.benchmark(at, results, name).map_err(|error| error.to_string())?;
        benchmark.add(&Measure::latency(), Metric::new(1.0)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_comes_once_in_a_run() {
        let (mut once, mut results) = (Once::default(), Results::default());
        for (line, name) in [(1, "a"), (2, "b")] {
            assert_eq!(add(&mut once, &mut results, line, name), Ok(()));
        }
        let error = add(&mut once, &mut results, 3, "a").expect_err("twice");
        assert!(error.contains("line 3: \"a\" has a result in line 1 already"), "{error}");
        once.begin(At { adapter: Adapter::RustIai, line: 4 });
        assert_eq!(add(&mut once, &mut results, 5, "a"), Ok(()));
        assert_eq!(results.benchmarks[0].metrics[0].1.samples.len(), 2);
    }

    #[test]
    fn entries_of_a_document() {
        let at = At { adapter: Adapter::JavaJmh, line: 7 };
        let mut entries = Entries::default();
        assert_eq!(entries.add(at, "a", "a"), Ok(()));
        assert_eq!(entries.add(at, "b", "b"), Ok(()));
        for second in [3, 4] {
            let error = entries.add(at, "a", "a").expect_err("twice").to_string();
            assert!(
                error.contains(&format!("entries 1 and {second} are both called \"a\"")),
                "{error}"
            );
        }
    }
}
