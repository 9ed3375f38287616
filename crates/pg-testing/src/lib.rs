//! A real PostgreSQL for tests and comparisons: the newest installed version, in a temporary folder, reached over a
//! Unix socket there, and removed when the process ends, even by `SIGKILL`.
//!
//! Tests call [`database`]: all tests of a process share one server, and each has its own database.

mod cluster;
mod installed;

use std::{env, sync::OnceLock};

pub use self::{
    cluster::{Cluster, Settings, Stop},
    installed::{VERSION_OLDEST, is_installed},
};

/// The server of this process, started on first use. None if PostgreSQL is not installed, so that the test is skipped;
/// in CI that is a failure.
///
/// # Panics
///
/// If it does not start, or none is installed and `CI` is set.
#[must_use]
pub fn cluster() -> Option<&'static Cluster> {
    // Statics are never dropped: the keeper notices the end of the process.
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    if !is_installed() && env::var_os("CI").is_none() {
        eprintln!("skipped: no PostgreSQL is installed; `cargo xtask setup` installs it");
        return None;
    }
    Some(CLUSTER.get_or_init(|| match Cluster::start(&Settings::default()) {
        Ok(cluster) => cluster,
        Err(error) => panic!("PostgreSQL does not start: {error:#}"),
    }))
}

/// URL of a new, empty database of [`cluster`].
///
/// # Panics
///
/// Like [`cluster`], or if the server does not create the database.
#[must_use]
pub fn database() -> Option<String> {
    match cluster()?.fresh() {
        Ok(url) => Some(url),
        Err(error) => panic!("cannot create a database: {error:#}"),
    }
}
