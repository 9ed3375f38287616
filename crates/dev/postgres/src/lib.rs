//! A real PostgreSQL for tests and comparisons: the newest that the distribution installed, in a temporary
//! folder, reached by a socket there, and gone when the process is gone, even by `SIGKILL`.
//!
//! Tests ask for [`database`]: all tests of a process share one server, and each has a database of its own.

mod cluster;
mod installed;
mod keeper;
mod shared;

pub use self::{
    cluster::{Cluster, Settings, Stop},
    installed::{VERSION_OLDEST, is_installed},
    shared::{cluster, database},
};
