//! Current names. Results, and so addresses, keep their original names.

use std::{borrow::Cow, cmp::Ordering, collections::HashMap};

use wingbeat_track::{
    model::{BenchmarkName, BranchName, Measure, TestbedName},
    store::Plot,
};

use crate::{
    ApiError,
    database::{Database, Kind, Project},
};

/// Current names of renamed entities, by kind and name in the results.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names([HashMap<String, String>; 4]);

impl Names {
    pub(crate) fn read(database: &Database, project: &Project) -> Result<Self, ApiError> {
        let mut names = Self::default();
        let renamed = database.renamed(project.id)?;
        for (kind, stored, name) in renamed {
            names.0[kind as usize].insert(stored, name);
        }
        Ok(names)
    }

    /// Current name for a name in the results.
    pub(crate) fn shown<'a>(&'a self, kind: Kind, stored: &'a str) -> Cow<'a, str> {
        match self.0[kind as usize].get(stored) {
            Some(name) => Cow::Borrowed(name),
            // Results identify measures by slug.
            None if kind == Kind::Measure => Measure::named(stored).name,
            None => Cow::Borrowed(stored),
        }
    }

    /// Compares two entities of a kind by current name.
    pub(crate) fn order(&self, kind: Kind, a: &str, b: &str) -> Ordering {
        self.shown(kind, a).cmp(&self.shown(kind, b))
    }

    /// Name in the results for a current name, if it differs.
    pub(crate) fn stored(&self, kind: Kind, shown: &str) -> Option<&str> {
        let all = self.0[kind as usize].iter();
        all.into_iter().find(|(_, name)| *name == shown).map(|(stored, _)| stored.as_str())
    }

    pub(crate) fn measure<'a>(&'a self, measure: &'a Measure) -> &'a str {
        self.0[Kind::Measure as usize].get(measure.slug.as_str()).map_or(&*measure.name, |it| it)
    }

    /// Replaces the names in a plot with the current ones.
    pub(crate) fn put_into(&self, plot: &mut Plot) {
        for report in &mut plot.reports {
            self.branch(&mut report.branch);
        }
        for series in &mut plot.series {
            self.branch(&mut series.branch);
            self.benchmark(&mut series.benchmark);
            let testbed = self.0[Kind::Testbed as usize].get(series.testbed.as_str());
            if let Some(name) = testbed.and_then(|name| TestbedName::new(name).ok()) {
                series.testbed = name;
            }
            series.measure.name = Cow::Owned(self.measure(&series.measure).to_owned());
        }
    }

    fn branch(&self, branch: &mut BranchName) {
        let renamed = self.0[Kind::Branch as usize].get(branch.as_str());
        if let Some(name) = renamed.and_then(|name| BranchName::new(name).ok()) {
            *branch = name;
        }
    }

    fn benchmark(&self, benchmark: &mut BenchmarkName) {
        let renamed = self.0[Kind::Benchmark as usize].get(benchmark.as_str());
        if let Some(name) = renamed.and_then(|name| BenchmarkName::new(name).ok()) {
            *benchmark = name;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Names {
        /// Adds current names of a kind.
        pub(crate) fn with(mut self, kind: Kind, all: &[(&str, &str)]) -> Self {
            let all = all.iter().map(|(stored, name)| ((*stored).to_owned(), (*name).to_owned()));
            self.0[kind as usize].extend(all);
            self
        }
    }

    fn names() -> Names {
        Names::default()
            .with(Kind::Branch, &[("old", "new")])
            .with(Kind::Benchmark, &[("parse", "parser/json")])
            .with(
                Kind::Measure,
                &[("latency", "Time per packet"), ("instructions", "Instructions")],
            )
    }

    #[test]
    fn entities_have_their_present_names() {
        let names = names();
        let check = |kind, stored, expected| assert_eq!(names.shown(kind, stored), expected);
        check(Kind::Branch, "old", "new");
        check(Kind::Branch, "main", "main");
        check(Kind::Measure, "latency", "Time per packet");
        // Not renamed, and slugs are not display names.
        check(Kind::Measure, "throughput", "Throughput");
        assert_eq!(names.stored(Kind::Branch, "new"), Some("old"));
        assert_eq!(names.stored(Kind::Branch, "old"), None);
    }
}
