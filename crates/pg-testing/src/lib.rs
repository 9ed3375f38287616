//! A real PostgreSQL for tests and comparisons: the newest installed version, in a temporary folder, reached over a
//! Unix socket there, and removed when the process ends, even by `SIGKILL`.
//!
//! Tests call [`database`]: all tests of a process share one server, and each has its own database.

mod cluster;
mod installed;
mod keeper;
mod shared;

pub use self::{
    cluster::{Cluster, Settings, Stop},
    installed::{VERSION_OLDEST, is_installed},
    shared::{cluster, database},
};
