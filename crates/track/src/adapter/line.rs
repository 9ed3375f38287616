//! Where in an output an adapter is: what is wrong there can be told with its line.

use std::iter;

use memchr::{memchr, memchr_iter, memrchr};

use super::{Adapter, AdapterError};
use crate::{
    model::BenchmarkName,
    results::{BenchmarkResults, Results},
};

/// A line of the output that an adapter reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    /// Whose output it is.
    pub(super) adapter: Adapter,
    /// Line, from 1.
    pub(super) line: usize,
}

impl At {
    /// What is wrong there.
    pub(super) fn malformed(self, reason: impl Into<String>) -> AdapterError {
        AdapterError::Malformed { adapter: self.adapter, line: self.line, reason: reason.into() }
    }

    /// The text as the name of a benchmark.
    pub(super) fn name(self, text: &str) -> Result<BenchmarkName, AdapterError> {
        BenchmarkName::new(text.trim()).map_err(|error| self.malformed(error.to_string()))
    }

    /// The benchmark of that name, to add metrics to.
    pub(super) fn benchmark<'r>(
        self,
        results: &'r mut Results,
        name: &str,
    ) -> Result<&'r mut BenchmarkResults, AdapterError> {
        results.benchmark(name.trim()).map_err(|error| self.malformed(error.to_string()))
    }
}

/// The lines with their numbers from 1. Of a line that a terminal writes over again, the last version.
pub(super) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = text.as_bytes();
    let has_returns = memchr(b'\r', bytes).is_some();
    let mut ends = memchr_iter(b'\n', bytes);
    let (mut start, mut number) = (0, 0);
    iter::from_fn(move || {
        if start == text.len() {
            return None;
        }
        let end = ends.next().unwrap_or(text.len());
        let line = &text[start..end];
        start = text.len().min(end + 1);
        number += 1;
        Some((number, if has_returns { last_version(line) } else { line }))
    })
}

fn last_version(line: &str) -> &str {
    let line = line.trim_end_matches('\r');
    memrchr(b'\r', line.as_bytes()).map_or(line, |at| &line[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_shows_at_the_end() {
        let check = |text, expected: &[(usize, &str)]| {
            assert_eq!(numbered(text).collect::<Vec<_>>(), expected, "{text:?}");
        };
        check("a\nb", &[(1, "a"), (2, "b")]);
        check("a\r\n\nb\r\r\n", &[(1, "a"), (2, ""), (3, "b")]);
        check("", &[]);
        check("\n", &[(1, "")]);
        check("a\n\n", &[(1, "a"), (2, "")]);
        check("1 %\r50 %\rdone\nb", &[(1, "done"), (2, "b")]);
    }

    #[test]
    fn names_that_cannot_be() {
        let at = At { adapter: Adapter::RustBench, line: 7 };
        assert_eq!(at.name(" a b ").expect("a name").as_str(), "a b");
        let error = at.name("").expect_err("none").to_string();
        assert!(error.contains("rust_bench cannot read line 7"), "{error}");
    }
}
