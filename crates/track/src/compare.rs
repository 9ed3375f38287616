//! Compares two revisions of a repository by running the same benchmarks in both alternately: no history, no other
//! host, no other time.
//!
//! ```text
//! revisions → worktrees → builds → runs in random ABBA order → pairs → verdicts → text
//! ```
//!
//! - `git` and `worktree` check both sides out, below a temporary folder.
//! - `measure` runs the command until the intervals are narrow enough or time is up.
//! - [`judge`] computes verdicts from pairs of runs. Pure. It implements the part "Comparing two revisions" of
//!   `docs/judging-appendix.md`.
//! - [`output`] formats a [`Comparison`]. Pure.

mod command;
mod git;
pub mod judge;
mod measure;
pub mod output;
mod place;
mod result;
pub mod series;
mod worktree;

use std::{
    ffi::OsString,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use self::{
    command::Runner,
    git::Git,
    judge::Settings,
    measure::Measured,
    place::{Lock, Places},
    worktree::Worktree,
};
pub use self::{
    measure::Order,
    result::{
        ChangeInterval, ComparedRow, Comparison, End, Failed, PairedVerdict, Revision, SideName,
        Unmatched,
    },
};
use crate::{adapter::Adapter, model::Average};

#[derive(Debug, Clone)]
pub struct Plan {
    /// Working directory of the command, mapped to each side's checkout. Any folder of a git working tree.
    pub directory: PathBuf,
    pub base: String,
    /// The revision under test. `None` for the working tree.
    pub head: Option<String>,
    /// The command and its arguments. A single one is a shell command line.
    pub command: Vec<OsString>,
    /// A shell command line that builds the command.
    pub build: Option<String>,
    pub adapter: Adapter,
    /// The average to use where a tool offers two.
    pub average: Option<Average>,
    /// Time limit for the runs of both sides together. Building does not count.
    pub time: Duration,
    /// Deadline. If the pairs needed for a verdict cannot complete by then, it is an error after the first ones. To
    /// stop a build or a run at the deadline is up to the caller, with `stop`.
    pub until: Option<Instant>,
    pub settings: Settings,
    pub seed: u64,
}

/// Why a comparison cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error("stopped before both revisions were run; nothing was compared")]
    Interrupted,
    #[error("{0}")]
    Failed(String),
}

#[derive(Debug)]
pub enum Event<'a> {
    /// A side is checked out and built, or run for the first time.
    Building(SideName, &'a str),
    /// The command succeeded with this stdout and stderr.
    Output(SideName, &'a [u8], &'a [u8]),
    /// The number of pairs of runs so far, and their total duration.
    Pairs(usize, Duration),
    /// A message to show at once.
    Notice(&'a str),
}

/// Compares. Raising `stop` ends it quickly, with the pairs that exist by then.
pub fn compare(
    plan: &Plan,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Comparison, CompareError> {
    if plan.command.is_empty() {
        let reason = "there is no command to run in both revisions";
        return Err(CompareError::Failed(reason.to_owned()));
    }
    let git = Git::find(&plan.directory)?;
    let places = Places::new(&git)?;
    let _lock = Lock::take(&places)?;
    worktree::remove_stale(&git, &places);
    let base = git.revision(&plan.base)?;
    let head = match &plan.head {
        Some(revision) => git.revision(revision)?,
        None => git.working_tree()?,
    };
    let names = place::slots(&base, &head);
    let sides = [(SideName::Base, &base), (SideName::Head, &head)];
    let mut runners = Vec::with_capacity(2);
    // Dropped, and thereby removed, on every exit path.
    let mut worktrees = Vec::with_capacity(2);
    for ((side, snapshot), slot) in sides.into_iter().zip(names) {
        if stop.load(Ordering::Relaxed) {
            return Err(CompareError::Interrupted);
        }
        let worktree = Worktree::create(&git, &places, &slot, snapshot)?;
        let directory = worktree.directory(&git.prefix);
        if !directory.is_dir() {
            let (folder, revision) = (&git.prefix, &snapshot.revision.asked);
            return Err(CompareError::Failed(format!(
                "{revision} has no folder {folder:?}, where the command would run; change to one that both have"
            )));
        }
        let target = places.cache(&slot)?;
        runners.push(Runner::new(side, plan, directory, target));
        worktrees.push(worktree);
    }
    let measured = measure::measure(plan, &runners, stop, observe);
    drop(worktrees);
    places.forget_old_caches();
    let Measured { series, pairs, elapsed, end, failures } = measured?;
    let (rows, unmatched) = judge::judge(&series, &plan.settings);
    if rows.is_empty() {
        let reason = "the revisions have no benchmark in common, so there is nothing to compare; were all of them \
                      renamed?";
        return Err(CompareError::Failed(reason.to_owned()));
    }
    let text = |part: &OsString| part.to_string_lossy().into_owned();
    Ok(Comparison {
        base: base.revision,
        head: head.revision,
        command: plan.command.iter().map(text).collect(),
        rows,
        unmatched,
        failures,
        pairs,
        elapsed_s: elapsed.as_secs_f64(),
        end,
        precision: plan.settings.precision,
        threshold: plan.settings.threshold,
        threshold_exact: plan.settings.threshold_exact,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_stop_that_comes_early_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let git = |arguments: &[&str]| crate::git::by_somebody(folder.path(), arguments);
        git(&["init", "--quiet"]);
        fs::write(folder.path().join("file"), "content").expect("written");
        git(&["add", "--all"]);
        git(&["commit", "--quiet", "--message", "a commit"]);
        let plan = Plan {
            directory: folder.path().to_owned(),
            base: "HEAD".to_owned(),
            head: None,
            command: vec!["sleep".into(), "600".into()],
            build: None,
            adapter: Adapter::Magic,
            average: None,
            time: Duration::from_secs(1),
            until: None,
            settings: Settings::default(),
            seed: 1,
        };
        let check = |stop: &AtomicBool, observe: &mut dyn FnMut(Event<'_>)| {
            let found = compare(&plan, stop, observe);
            assert!(matches!(found, Err(CompareError::Interrupted)), "{found:?}");
            assert_eq!(git(&["worktree", "list"]).lines().count(), 1);
        };
        check(&AtomicBool::new(true), &mut |_| {});
        let stop = AtomicBool::new(false);
        check(&stop, &mut |_| stop.store(true, Ordering::Relaxed));
    }
}
