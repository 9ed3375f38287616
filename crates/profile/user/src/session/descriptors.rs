//! How many files may be open at once.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Allows as many open files as this process may have: each binary that is seen stays open until its
/// symbols are read; with `--all` these are hundreds. To be called after a command was launched, which
/// inherits the limit and may count on the usual one (`select(2)` takes 1,024).
pub(super) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Without success fewer files are held open, and the others found by their paths at the end.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
