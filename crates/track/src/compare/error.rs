//! Why a comparison cannot be made.

use std::{io, path::PathBuf};

use wingbeat_stats::paired::PAIRS_MIN;

use super::result::SideName;
use crate::adapter::AdapterError;

#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error("there is no command to run in both revisions")]
    NoCommand,
    #[error("cannot start git, which makes the copies of both revisions: {0}")]
    GitMissing(io::Error),
    #[error(
        "{directory:?} is not in a git working tree, so there are no revisions to compare; change to one \
         ({said})"
    )]
    NoWorkingTree { directory: PathBuf, said: String },
    #[error(
        "there is no commit {revision:?} in this repository; is it spelt right, and was it fetched \
         (a shallow clone lacks older ones: git fetch --unshallow)?"
    )]
    UnknownRevision { revision: String },
    #[error("git could not {what}: {said}")]
    Git { what: String, said: String },
    #[error("cannot {what} {path}: {source}", path = path.display())]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "another `wingbeat compare` is running in this repository, and two would disturb each other; \
         wait until it ends"
    )]
    Locked,
    #[error(
        "{path} belongs to another user or is not a folder, so nothing is built there; set TMPDIR to a \
         folder of your own",
        path = path.display()
    )]
    NotOurs { path: PathBuf },
    #[error(
        "{revision} has no folder {folder:?}, where the command would run; change to one that both have"
    )]
    NoFolder { folder: String, revision: String },
    #[error("cannot start {command:?}: {source}; a single argument would go through the shell")]
    Start { command: String, source: io::Error },
    #[error("{command:?} {ended} in {side}{last}", side = side.name(), last = last_lines(last))]
    Failed {
        command: String,
        /// `exited with 1`, `was killed by signal 9`.
        ended: String,
        side: SideName,
        last: String,
    },
    #[error("the output of {side}: {source}{last}", side = side.name(), last = last_lines(last))]
    Output { side: SideName, source: AdapterError, last: String },
    #[error(
        "a pair of runs takes {pair_s:.0} s, and there is no time for the {PAIRS_MIN} pairs that a verdict \
         takes"
    )]
    TooSlow { pair_s: f64 },
    #[error(
        "the revisions have no benchmark in common, so there is nothing to compare; were all of them \
         renamed?"
    )]
    NothingInCommon,
    #[error("stopped before both revisions were run; nothing was compared")]
    Interrupted,
}

fn last_lines(last: &str) -> String {
    if last.is_empty() {
        " and printed nothing".to_owned()
    } else {
        format!("; its last lines were:\n{last}")
    }
}
