//! What a server knows besides results, in one SQLite file: users, keys, sessions, projects and their things,
//! kept thresholds, pinned plots.
//!
//! Results name their project, branch, testbed, benchmarks and measures by text, and never change. Here each
//! of them is a *thing* with a UUID, and a name and a slug that may change.

mod columns;
mod invites;
mod keys;
mod migrations;
mod plots;
mod projects;
mod renamed;
mod reports;
mod series;
mod sessions;
mod starts;
mod things;
mod thresholds;
mod users;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

pub use self::{
    invites::Invite,
    keys::{Key, KeyHolder, KeyOwner, NO_END, NewKey, key_name_fault},
    plots::{PinnedPlot, PlotFilter, PlotSettings},
    projects::{NewProject, Project, ProjectChange, Visibility},
    reports::{MetricUuids, ReportRow, Sender},
    series::{LastChange, Newest, SeriesRow},
    sessions::Session,
    starts::Start,
    things::{Conflict, Kind, NewThing, Thing, ThingChange, ThingFilter},
    thresholds::{Model, Threshold, ThresholdFilter},
    users::{NewUser, Role, User, UserRefusal, user_fault},
};

/// How long a connection waits for another process that writes, as a backup tool may.
const PATIENCE: Duration = Duration::from_secs(30);

/// SHA-256 of a secret: all that is kept of it.
pub type Digest = [u8; 32];

/// What a server knows besides results.
#[derive(Debug)]
pub struct Registry {
    connection: Connection,
    path: PathBuf,
}

/// Why the registry cannot be opened, read or written. Nothing has been changed then.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error(
        "the server's database {} has version {found}, and this wingbeat knows versions up to {known}; a newer \
         wingbeat has written it and can read it", .path.display()
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("{} is no database of a wingbeat server; it was left as it is", .path.display())]
    Foreign { path: PathBuf },
    #[error(
        "the disk is full: {doing} in the server's database {} was abandoned, and its earlier contents are \
         unchanged; make room and try again", .path.display()
    )]
    Full { path: PathBuf, doing: &'static str },
    #[error("the server's database {} cannot be written while {doing}: it, its folder or the file system is \
             read-only", .path.display())]
    ReadOnly { path: PathBuf, doing: &'static str },
    #[error("the server's database {} stayed locked by another process while {doing}; try again when that is \
             done", .path.display())]
    Busy { path: PathBuf, doing: &'static str },
    #[error("the server's database {} is damaged, seen while {doing}: {source}; restore a backup", .path.display())]
    Corrupt { path: PathBuf, doing: &'static str, source: rusqlite::Error },
    #[error("{doing} failed in the server's database {}: {source}", .path.display())]
    Sqlite { path: PathBuf, doing: &'static str, source: rusqlite::Error },
}

impl Registry {
    /// Opens the registry at `path`, or makes it, and brings it to the present version.
    pub fn open(path: &Path) -> Result<Self, RegistryError> {
        let opened = Connection::open(path).and_then(|connection| {
            connection.busy_timeout(PATIENCE)?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "foreign_keys", true)?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            Ok(connection)
        });
        let failed = |source| RegistryError::of(path, "opening it", source);
        let mut connection = opened.map_err(failed)?;
        migrations::migrate(&mut connection, path)?;
        Ok(Self { connection, path: path.to_owned() })
    }

    /// Runs several changes as one transaction: all are made, or none.
    pub fn together<T, E: From<RegistryError>>(
        &self,
        changes: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let failed = self.error("beginning or ending a transaction");
        let transaction = self.writing().map_err(&failed)?;
        let done = changes(self)?;
        transaction.commit().map_err(&failed)?;
        Ok(done)
    }

    /// Says what failed.
    fn error(&self, doing: &'static str) -> impl Fn(rusqlite::Error) -> RegistryError {
        move |source| RegistryError::of(&self.path, doing, source)
    }

    /// A transaction that writes.
    fn writing(&self) -> rusqlite::Result<Transaction<'_>> {
        Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
    }
}

#[cfg(test)]
impl Registry {
    /// A registry for a test, in a folder that lasts as long as the test keeps it.
    fn temporary() -> (tempfile::TempDir, Self) {
        let folder = tempfile::tempdir().expect("a folder");
        let registry = Self::open(&folder.path().join("server.db")).expect("a registry");
        (folder, registry)
    }
}

impl RegistryError {
    fn of(path: &Path, doing: &'static str, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full { path, doing },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path, doing },
            Some(ErrorCode::ReadOnly) => Self::ReadOnly { path, doing },
            Some(ErrorCode::NotADatabase) => Self::Foreign { path },
            Some(ErrorCode::DatabaseCorrupt) => Self::Corrupt { path, doing, source },
            _ => Self::Sqlite { path, doing, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use wingbeat_track::model::ProjectName;

    use super::*;

    pub(super) fn now() -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + time::Duration::days(20_000)
    }

    /// A registry with the row of a project.
    pub(super) fn registry_with_project() -> (tempfile::TempDir, Registry, i64) {
        let folder = tempfile::tempdir().expect("a folder");
        let registry = Registry::open(&folder.path().join("server.db")).expect("a registry");
        let name = ProjectName::new("project").expect("a name");
        let new = NewProject { name, slug: None, url: None, visibility: Visibility::Public };
        let project = registry.create_project(&new, now()).expect("made").id;
        (folder, registry, project)
    }

    #[test]
    fn a_database_that_others_write_is_waited_for() {
        let (_folder, registry) = Registry::temporary();
        let other = Connection::open(&registry.path).expect("opened");
        other.execute_batch("BEGIN IMMEDIATE").expect("locked");
        registry.connection.busy_timeout(Duration::from_millis(20)).expect("set");
        let note = || registry.note("a", "b", OffsetDateTime::UNIX_EPOCH);
        let error = note().expect_err("locked");
        assert!(matches!(error, RegistryError::Busy { .. }), "{error}");
        assert!(!registry.has_users().expect("read meanwhile"));
        other.execute_batch("ROLLBACK").expect("unlocked");
        note().expect("written");
    }
}
