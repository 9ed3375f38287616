//! Selects series: matches a query's names and globs against the project's.

use std::collections::HashSet;

use uuid::Uuid;
use wingbeat_track::{
    model::{BenchmarkName, BranchName, Slug, TestbedName, threshold::matches_glob},
    store::{Known, ReportFilter},
};

use crate::{
    ApiError,
    console::{
        components::shortened,
        links::{Params, is_glob},
    },
    database::{Database, Kind, Project},
    names::Names,
};

/// Common main branches, in order of preference.
const MAIN_BRANCHES: [&str; 3] = ["main", "master", "trunk"];

/// Parameter names in the client's addresses, and ours.
const PLURALS: [(&str, Kind); 4] = [
    ("branches", Kind::Branch),
    ("testbeds", Kind::Testbed),
    ("benchmarks", Kind::Benchmark),
    ("measures", Kind::Measure),
];

/// The selection of a query.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) known: Known,
    /// The requested branches, or the main one.
    pub(crate) branches: Vec<BranchName>,
    /// Empty for all; also below.
    pub(crate) testbeds: Vec<TestbedName>,
    pub(crate) measures: Vec<Slug>,
    /// Globs as given.
    pub(crate) globs: Vec<String>,
    pub(crate) benchmarks: Vec<BenchmarkName>,
    /// A requested name that does not exist, so that nothing is shown.
    pub(crate) missing: Option<(Kind, String)>,
}

impl Choice {
    pub(crate) fn of(
        database: &Database,
        project: &Project,
        params: &Params,
        names: &Names,
    ) -> Result<Self, ApiError> {
        let known = database.results.known(&project.stored)?;
        let asked = |name: &str| params.all(name).map(str::to_owned).collect::<Vec<_>>();
        let (branches, globs) = (asked("branch"), asked("benchmark"));
        let (testbeds, measures) = (asked("testbed"), asked("measure"));
        let mut choice = Self {
            branches: of(&known.branches, &branches, BranchName::as_str, names, Kind::Branch),
            testbeds: of(&known.testbeds, &testbeds, TestbedName::as_str, names, Kind::Testbed),
            measures: of(&known.measures, &measures, Slug::as_str, names, Kind::Measure),
            benchmarks: of(
                &known.benchmarks,
                &globs,
                BenchmarkName::as_str,
                names,
                Kind::Benchmark,
            ),
            globs,
            missing: None,
            known,
        };
        let found = [
            (Kind::Branch, &branches, choice.branches.is_empty()),
            (Kind::Testbed, &testbeds, choice.testbeds.is_empty()),
            (Kind::Measure, &measures, choice.measures.is_empty()),
            (Kind::Benchmark, &choice.globs, choice.benchmarks.is_empty()),
        ];
        choice.missing = found.into_iter().find_map(|(kind, asked, is_absent)| {
            let asked = asked.first().filter(|_| is_absent)?;
            Some((kind, asked.clone()))
        });
        // Measures differ between projects.
        let measures = database.series_measures(project.id)?;
        choice.known.measures.retain(|slug| measures.is_empty() || measures.contains(slug));
        if branches.is_empty() {
            choice.branches = main_branch(database, project, &choice.known)?.into_iter().collect();
        }
        Ok(choice)
    }

    /// Placeholder in a list of branches if the requested branch does not exist.
    pub(crate) fn no_branch(&self) -> Option<&'static str> {
        self.branches.is_empty().then_some("choose one")
    }

    /// Message for an empty result.
    pub(crate) fn nothing(&self) -> String {
        match &self.missing {
            Some((kind, asked)) => {
                let asked = shortened(asked);
                format!("This project has no {} “{asked}”.", kind.word())
            }
            None => "No series fits that.".to_owned(),
        }
    }
}

/// The default branch.
pub(crate) fn main_branch(
    database: &Database,
    project: &Project,
    known: &Known,
) -> Result<Option<BranchName>, ApiError> {
    for name in MAIN_BRANCHES {
        if let Some(branch) = known.branches.iter().find(|branch| branch.as_str() == name) {
            return Ok(Some(branch.clone()));
        }
    }
    let filter = ReportFilter::of(&project.stored);
    let newest = database.results.reports(&filter, 1)?.pop();
    Ok(newest.map(|report| report.branch))
}

/// Names that match a requested name or glob: by their names in the results, which addresses use, or else by their
/// current names.
fn of<T: Clone>(
    all: &[T],
    asked: &[String],
    text: impl Fn(&T) -> &str,
    names: &Names,
    kind: Kind,
) -> Vec<T> {
    if asked.is_empty() {
        return Vec::new();
    }
    let known: HashSet<&str> = all.iter().map(&text).collect();
    let asked: HashSet<&str> = asked.iter().map(String::as_str).collect();
    let globs: Vec<&str> =
        asked.iter().copied().filter(|it| is_glob(it) && !known.contains(it)).collect();
    let is_chosen = |one: &&T| {
        let stored = text(one);
        let shown = names.shown(kind, stored);
        // A current name that is also one in the results means the latter.
        let is_named =
            asked.contains(stored) || asked.contains(&*shown) && !known.contains(&*shown);
        is_named || globs.iter().any(|it| matches_glob(it, stored) || matches_glob(it, &shown))
    };
    all.iter().filter(is_chosen).cloned().collect()
}

/// The query with readable names, if it is a client's query with lists of UUIDs.
pub(crate) fn readable(
    database: &Database,
    project: &Project,
    params: &Params,
) -> Result<Option<Params>, ApiError> {
    let is_clients = PLURALS.iter().any(|(plural, _)| params.get(plural).is_some());
    if !is_clients {
        return Ok(None);
    }
    let mut readable = params.only(&["report"]);
    for (plural, kind) in PLURALS {
        let ids = params.all(plural).flat_map(|list| list.split(',')).map(str::trim);
        for id in ids.filter(|id| !id.is_empty()) {
            let stored = match Uuid::try_parse(id) {
                Ok(uuid) => stored_name(database, project, kind, uuid)?,
                Err(_) => None,
            };
            readable = readable.and(kind.word(), stored.unwrap_or_else(|| id.to_owned()));
        }
    }
    for (theirs, ours) in [("start_time", "from"), ("end_time", "to")] {
        let time = params.get(theirs).and_then(|time| time.parse::<i128>().ok());
        let time = time.and_then(|ms| {
            time::OffsetDateTime::from_unix_timestamp_nanos(ms.checked_mul(1_000_000)?).ok()
        });
        if let Some(time) = time {
            readable = readable.with(ours, crate::console::components::day(time));
        }
    }
    for (theirs, ours) in [("x_axis", "x"), ("y_axis", "y")] {
        let axis = params.get(theirs).filter(|axis| ["version", "linear", "log"].contains(axis));
        readable = readable.with(ours, axis.unwrap_or_default());
    }
    Ok(Some(readable))
}

/// Name in the results of the entity with this UUID.
fn stored_name(
    database: &Database,
    project: &Project,
    kind: Kind,
    uuid: Uuid,
) -> Result<Option<String>, ApiError> {
    let found = database.entity(project.id, kind, &uuid.to_string());
    Ok(found?.map(|entity| entity.stored))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_asked_for_as_they_are_or_by_globs() {
        let check = |asked: &str, name: &str, expected: bool| {
            let all = [BenchmarkName::new(name).expect("a name")];
            let (asked, names) = ([asked.to_owned()], Names::default());
            let found = of(&all, &asked, BenchmarkName::as_str, &names, Kind::Benchmark);
            assert_eq!(!found.is_empty(), expected, "{asked:?}");
        };
        check("parse/json", "parse/json", true);
        check("parse/*", "parse/json", true);
        check("parse", "parse/json", false);
        check("what?", "what?", true);
        check("what?", "whats", true);
    }

    #[test]
    fn what_results_call_something_counts_more_than_what_people_do() {
        let branch = |name| BranchName::new(name).expect("a name");
        let all = [branch("a"), branch("b"), branch("c")];
        let names = Names::default().with(Kind::Branch, &[("a", "first"), ("b", "c")]);
        let check = |asked: &str, expected: &[&str]| {
            let asked = [asked.to_owned()];
            let found = of(&all, &asked, BranchName::as_str, &names, Kind::Branch);
            let found: Vec<_> = found.iter().map(BranchName::as_str).collect();
            assert_eq!(found, expected, "{asked:?}");
        };
        check("a", &["a"]);
        check("first", &["a"]);
        check("f*", &["a"]);
        check("c", &["c"]);
        check("none", &[]);
    }
}
