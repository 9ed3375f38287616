//! Names that a tool uses once: a second occurrence is another benchmark, not a repetition.

use std::{fmt, hash::Hash};

use rustc_hash::FxHashMap;

use super::{AdapterError, Parsed, line::At};
use crate::model::{BenchmarkResults, Results};

/// The lines at which benchmarks were read.
#[derive(Default)]
pub(super) struct Once {
    /// By the place of the benchmark in the results; 0 for one that has no line yet.
    lines: Vec<usize>,
    /// Line at which the tool began its run.
    begin: usize,
}

impl Once {
    /// Another run of the tool begins here: recurring names are repetitions.
    pub(super) fn begin(&mut self, at: At) {
        self.begin = at.line;
    }

    /// The benchmark of that name, to add metrics to, as [`At::benchmark`].
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

/// Refuses a document with two entries of one identity. Each comes with its name.
pub(super) fn in_document<K: Hash + Eq, N: fmt::Debug>(
    at: At,
    entries: impl Iterator<Item = (K, N)>,
) -> Parsed<()> {
    let mut known = FxHashMap::default();
    for (entry, (key, name)) in (1..).zip(entries) {
        if let Some(first) = known.insert(key, entry) {
            return Err(both(at, first, entry, name));
        }
    }
    Ok(())
}

/// The error that a name of line `first` recurs.
pub(super) fn again(at: At, first: usize, name: &str) -> AdapterError {
    twice(at, &format!("{name:?} has a result in line {first} already"))
}

/// The error that two entries of a document share a name.
pub(super) fn both(at: At, first: usize, second: usize, name: impl fmt::Debug) -> AdapterError {
    twice(at, &format!("entries {first} and {second} are both called {name:?}"))
}

fn twice(at: At, found: &str) -> AdapterError {
    at.malformed(format!(
        "{found}, and the tool measures each name once, so two benchmarks would become one; rename one of \
         them, or repeat the whole run with --iter"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        adapter::Adapter,
        model::{Measure, Metric},
    };

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
        let check = |names: &[&str]| in_document(at, names.iter().map(|name| (*name, *name)));
        assert_eq!(check(&["a", "b"]), Ok(()));
        let error = check(&["a", "b", "a"]).expect_err("twice").to_string();
        assert!(error.contains("entries 1 and 3 are both called \"a\""), "{error}");
    }
}
