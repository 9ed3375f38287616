//! Shared by all verbs that read a store: selection of the store and reports, and short UUIDs.

pub(crate) mod id;
#[cfg(feature = "server")]
pub(crate) mod verb;

use std::{env, path::PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use wingbeat_track::{
    git::History,
    model::{BranchName, ProjectName, Report, TestbedName},
    store::{ReportFilter, ReportSummary, Store, default_path},
};

use self::id::Part;
use crate::values::moment;

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Store to use: a file, or the URL of a PostgreSQL database [env: WINGBEAT_STORE] [default:
    /// .wingbeat/results.db in the repository]
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

impl StoreArgs {
    /// Opens an existing store.
    pub(crate) fn open(&self) -> anyhow::Result<Store> {
        Ok(Store::open_existing(self.path()?)?)
    }

    /// Opens or creates the store.
    pub(crate) fn open_or_make(&self) -> anyhow::Result<Store> {
        Ok(Store::open(self.path()?)?)
    }

    /// Path of the store, existing or not.
    pub(crate) fn path(&self) -> anyhow::Result<PathBuf> {
        let named = || env::var_os("WINGBEAT_STORE").filter(|path| !path.is_empty());
        if let Some(path) = self.store.clone().or_else(|| named().map(PathBuf::from)) {
            return Ok(path);
        }
        let directory = env::current_dir().context("cannot determine the current folder")?;
        Ok(default_path(&directory))
    }
}

/// Which reports.
#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Only this project [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) project: Option<ProjectName>,
    /// Only this branch [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) branch: Option<BranchName>,
    /// Only this testbed [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) testbed: Option<TestbedName>,
    /// Only reports started since TIME: 2026-11-21, 2026-11-21T14:05 (UTC), or with a time zone
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) since: Option<OffsetDateTime>,
}

impl FilterArgs {
    /// The filter. Unknown names are an error, since they are typos.
    pub(crate) fn filter(&self, store: &Store) -> anyhow::Result<ReportFilter> {
        let mut projects = store.projects()?;
        if let Some(project) = &self.project {
            check("project", project, &projects, store)?;
            projects = vec![project.clone()];
        }
        let mut branches = Vec::new();
        let mut testbeds = Vec::new();
        for project in &projects {
            let known = store.known(project)?;
            branches.extend(known.branches);
            testbeds.extend(known.testbeds);
        }
        if let Some(branch) = &self.branch {
            check("branch", branch, &branches, store)?;
        }
        if let Some(testbed) = &self.testbed {
            check("testbed", testbed, &testbeds, store)?;
        }
        Ok(ReportFilter {
            project: self.project.clone(),
            branch: self.branch.clone(),
            testbed: self.testbed.clone(),
            since: self.since,
            ..ReportFilter::default()
        })
    }
}

/// The report with this UUID, or part of one.
pub(crate) fn report(store: &Store, part: &Part) -> anyhow::Result<Report> {
    let uuid = match part.whole() {
        Some(uuid) => uuid,
        None => {
            let all = store.reports(&ReportFilter::default(), usize::MAX)?;
            let describe =
                |one: &ReportSummary| format!("{} {}", minute(one.start_time), one.branch);
            part.find(&all, |one| one.uuid, describe, ("report", "wingbeat log"))?
        }
    };
    store.report(uuid)?.with_context(|| {
        let path = store.path().display();
        format!("there is no report {uuid} in the store {path}; `wingbeat log` lists them")
    })
}

/// Source files of measured commits, if the current folder is in their repository.
pub(crate) fn sources() -> anyhow::Result<History> {
    Ok(History::new(env::current_dir().context("cannot determine the current folder")?))
}

/// Maximum names listed in an error.
const NAMES_MAX: usize = 12;

/// Fails with a list of known names if a name is unknown.
pub(crate) fn check<T: PartialEq + ToString>(
    what: &str,
    name: &T,
    known: &[T],
    store: &Store,
) -> anyhow::Result<()> {
    if known.contains(name) {
        return Ok(());
    }
    let path = store.path().display();
    let known = listed(known);
    bail!("there is no {what} {} in the store {path}; it has {known}", name.to_string())
}

/// Joins names for a message.
pub(crate) fn listed<T: ToString>(names: &[T]) -> String {
    let mut texts: Vec<String> = names.iter().take(NAMES_MAX).map(ToString::to_string).collect();
    if names.len() > NAMES_MAX {
        texts.push(format!("{} more", names.len() - NAMES_MAX));
    }
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

/// The project: from the flag, the environment, or the only one.
pub(crate) fn project(named: Option<&ProjectName>, store: &Store) -> anyhow::Result<ProjectName> {
    let projects = store.projects()?;
    let path = store.path().display();
    let named = match (named, env::var("WINGBEAT_PROJECT")) {
        (Some(project), _) => Some(project.clone()),
        (None, Ok(name)) if !name.is_empty() => {
            Some(ProjectName::new(name).context("WINGBEAT_PROJECT")?)
        }
        _ => None,
    };
    if let Some(project) = named {
        check("project", &project, &projects, store)?;
        return Ok(project);
    }
    match &projects[..] {
        [only] => Ok(only.clone()),
        [] => bail!("the store {path} has no reports yet; `wingbeat run` adds them"),
        several => {
            let several = listed(several);
            bail!("the store {path} has several projects, {several}; --project NAME chooses one")
        }
    }
}

/// A time in tables, in UTC.
pub(crate) fn minute(time: OffsetDateTime) -> String {
    let (date, clock) = (time.date(), time.time());
    let (month, day) = (u8::from(date.month()), date.day());
    format!("{:04}-{month:02}-{day:02} {:02}:{:02}", date.year(), clock.hour(), clock.minute())
}

/// A time in machine-readable form.
pub(crate) fn rfc3339(time: OffsetDateTime) -> String {
    // Stored years are always representable.
    time.format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_a_sentence() {
        let check = |count: usize, expected: &str| {
            assert_eq!(listed(&(0..count).collect::<Vec<_>>()), expected);
        };
        check(0, "none");
        check(2, "0, 1");
        check(14, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 2 more");
    }
}
