//! Limit of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files to the maximum: each binary stays open until its symbols are read, hundreds with
/// `--all`. Call it after launching a command, which inherits the limit and may rely on the usual one (`select(2)`
/// takes 1,024).
pub(super) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // On failure, fewer files are kept open, and the others are found by path at the end.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
