//! A store of results that also has the tables of a server: users, keys, sessions, projects and their entities,
//! thresholds, pinned plots.
//!
//! Results identify their project, branch, testbed, benchmarks and measures by names that never change. For the server,
//! each is an *entity* with a UUID, and a name and slug that may change.

mod copy;
mod entities;
mod keys;
mod plots;
mod projects;
mod reports;
mod series;
mod sessions;
mod shared;
mod thresholds;
mod users;

use std::cell::Cell;

use wingbeat_sql::{
    Connection, Error, OptionalExtension as _, Parameters, Result as SqlResult, Row, as_text,
    versions,
};
use wingbeat_track::store::{Store, StoreError};

use crate::storage::StorageError;

pub use self::{
    copy::Content,
    entities::{Conflict, Entity, EntityChange, EntityFilter, Kind, NewEntity, Start},
    keys::{Key, KeyHolder, KeyOwner, NO_END, NewKey, key_name_fault},
    plots::{PinnedPlot, PlotFilter, PlotSettings, XAxis, YAxis},
    projects::{NewProject, Project, ProjectChange, Visibility},
    reports::{Counts, ReportRow, ReportTimes, Sender, metric_uuid},
    series::{LastChange, Newest, SeriesRow},
    sessions::{Invite, Session},
    thresholds::{Model, Threshold, ThresholdFilter},
    users::{EMAIL_BYTES_MAX, NewUser, Role, User, UserRefusal, user_fault},
};

/// Statements that create the server's tables of version 1, and then those to each later version. Never edit released
/// ones.
const MIGRATIONS: [&str; 1] = [include_str!("database/schema.sql")];

const VERSION: i64 = MIGRATIONS.len() as i64;

/// The table with the version of the server's tables.
pub(crate) const VERSIONS: &str = "server_schema";

as_text!(Kind, Role, Visibility, XAxis, YAxis);

/// SHA-256 of a secret; the secret itself is not stored.
pub type Digest = [u8; 32];

/// A store of results that also has the server's tables: in an SQLite file or a PostgreSQL schema.
#[derive(Debug)]
pub struct Database {
    pub results: Store,
    /// Whether changes are refused, see [`Self::peek`].
    is_peek: Cell<bool>,
}

impl Database {
    /// Adds the server's tables to a store, or migrates them to the current version.
    pub fn create_in(results: Store) -> Result<Self, StorageError> {
        let database = Self { results, is_peek: Cell::new(false) };
        // Read connections are opened while others write.
        let mut version = database.version()?;
        if version != VERSION {
            version = database.doing("creating the server's tables", || {
                versions::extend(database.db(), VERSIONS, &MIGRATIONS)
            })?;
        }
        database.of_version(version)
    }

    /// Uses a store that has the server's tables of the current version, without writing.
    pub fn open_in(results: Store) -> Result<Self, StorageError> {
        let database = Self { results, is_peek: Cell::new(false) };
        match database.version()? {
            0 => Err(StorageError::NoServer(database.results.path().to_owned())),
            version => database.of_version(version),
        }
    }

    fn version(&self) -> Result<i64, StoreError> {
        self.doing("opening it", || versions::extension(self.db(), VERSIONS))
    }

    fn of_version(self, found: i64) -> Result<Self, StorageError> {
        match found {
            VERSION => Ok(self),
            found => {
                let path = self.results.path().to_owned();
                Err(StoreError::OtherVersion { path, found, known: VERSION }.into())
            }
        }
    }

    fn db(&self) -> &Connection {
        self.results.connection()
    }

    /// Runs several changes in one transaction.
    pub fn together<T, E: From<StoreError>>(
        &self,
        changes: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let failed = self.error("beginning or ending a transaction");
        let transaction = match self.is_peek.get() {
            true => self.db().view(),
            false => self.db().writing(),
        };
        let transaction = transaction.map_err(&failed)?;
        let done = changes(self)?;
        transaction.commit().map_err(&failed)?;
        Ok(done)
    }

    /// Does work that has nothing to change. `None` if it has, or fails.
    pub(crate) fn peek<T, E>(&self, work: impl FnOnce(&Self) -> Result<T, E>) -> Option<T> {
        self.is_peek.set(true);
        let done = work(self);
        self.is_peek.set(false);
        done.ok()
    }

    /// Runs a statement that changes rows.
    fn execute(
        &self,
        doing: &'static str,
        sql: &str,
        values: impl Parameters,
    ) -> Result<(), StoreError> {
        self.write(doing, |db| db.execute(sql, values).map(drop))
    }

    /// The first row of a query.
    fn row<T>(
        &self,
        doing: &'static str,
        sql: &str,
        values: impl Parameters,
        read: impl FnOnce(&Row<'_>) -> SqlResult<T>,
    ) -> Result<Option<T>, StoreError> {
        self.db().query_row(sql, values, read).optional().map_err(self.error(doing))
    }

    /// All rows of a query.
    fn rows<T>(
        &self,
        doing: &'static str,
        sql: &str,
        values: impl Parameters,
        read: impl FnMut(&Row<'_>) -> SqlResult<T>,
    ) -> Result<Vec<T>, StoreError> {
        self.doing(doing, || {
            let mut statement = self.db().prepare(sql)?;
            statement.query_map(values, read)?.collect::<SqlResult<Vec<T>>>()
        })
    }

    /// Runs statements in one transaction, part of the open one if there is one.
    fn write<T>(
        &self,
        doing: &'static str,
        change: impl FnOnce(&Connection) -> SqlResult<T>,
    ) -> Result<T, StoreError> {
        self.doing(doing, || {
            if self.is_peek.get() {
                return Err(Error::value("this is a look at what is there"));
            }
            let transaction = self.db().writing()?;
            let done = change(&transaction)?;
            transaction.commit()?;
            Ok(done)
        })
    }

    /// Does something. Errors state what.
    fn doing<T>(
        &self,
        what: &'static str,
        work: impl FnOnce() -> SqlResult<T>,
    ) -> Result<T, StoreError> {
        self.results.doing(what, work)
    }

    /// Adds context to an error.
    fn error(&self, doing: &'static str) -> impl Fn(Error) -> StoreError {
        self.results.error(doing)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use time::OffsetDateTime;
    use wingbeat_track::model::ProjectName;

    use super::*;

    pub(super) fn now() -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + time::Duration::days(20_000)
    }

    /// Runs a test with an empty database in a file, and on PostgreSQL if installed.
    pub(super) fn on_both(test: impl Fn(&Database)) {
        let folder = tempfile::tempdir().expect("a folder");
        test(&open(&folder.path().join("server.db")));
        if let Some(url) = wingbeat_pg_testing::database() {
            test(&open(Path::new(&url)));
        }
    }

    /// Makes a database in a file, or at a URL.
    pub(super) fn open(place: &Path) -> Database {
        Database::create_in(Store::open(place).expect("a store")).expect("a database")
    }

    /// The same, with a project row.
    pub(super) fn on_both_with_project(test: impl Fn(&Database, i64)) {
        on_both(|database| {
            let name = ProjectName::new("project").expect("a name");
            let new = NewProject { name, slug: None, url: None, visibility: Visibility::Public };
            test(database, database.create_project(&new, now()).expect("made").id);
        });
    }

    #[test]
    fn a_database_that_others_write_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = open(&folder.path().join("server.db"));
        let other = rusqlite::Connection::open(database.results.path()).expect("opened");
        other.execute_batch("BEGIN IMMEDIATE").expect("locked");
        let own = database.db().sqlite().expect("a file");
        own.busy_timeout(std::time::Duration::from_millis(20)).expect("set");
        let note = || database.note("a", "b", OffsetDateTime::UNIX_EPOCH);
        let error = note().expect_err("locked");
        assert!(matches!(error, StoreError::Busy { .. }), "{error}");
        assert!(!database.has_users().expect("read meanwhile"));
        other.execute_batch("ROLLBACK").expect("unlocked");
        note().expect("written");
    }

    #[test]
    fn only_databases_of_servers_are_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("server.db");
        let store = || Store::open(&path).expect("a store");
        let error = Database::open_in(store()).expect_err("a store alone").to_string();
        assert!(error.contains("there is no database of a server"), "{error}");
        drop(Database::create_in(store()).expect("created"));
        drop(Database::open_in(store()).expect("it is one now"));
        let newer = format!("UPDATE {VERSIONS} SET version = 99");
        rusqlite::Connection::open(&path).and_then(|db| db.execute_batch(&newer)).expect("changed");
        for open in [Database::open_in, Database::create_in] {
            let error = open(store()).expect_err("newer").to_string();
            assert!(error.contains("version 99 of the tables"), "{error}");
        }
    }

    #[test]
    fn a_look_changes_nothing() {
        on_both_with_project(|database, project| {
            let known = database.peek(|database| database.projects()).expect("read");
            assert_eq!(known.len(), 1);
            let delete = |database: &Database| database.delete_project(project, "a");
            assert_eq!(database.peek(delete), None);
            assert_eq!(database.projects().expect("read"), known);
            delete(database).expect("deleted");
            assert_eq!(database.projects().expect("read"), []);
        });
    }

    #[test]
    fn what_fails_together_is_undone_together() {
        on_both_with_project(|database, project| {
            let done = database.together(|database| {
                database.delete_project(project, "a")?;
                database.note("a", "b", now())?;
                database.execute("failing", "INSERT INTO nowhere VALUES (1)", [])
            });
            done.expect_err("there is no such table");
            assert_eq!(database.projects().expect("read").len(), 1);
            // A part that fails is undone alone.
            let undone = |database: &Database| {
                database.delete_project(project, "a")?;
                database.execute("failing", "INSERT INTO nowhere VALUES (1)", [])
            };
            let done = database.together(|database| {
                database.note("a", "b", now())?;
                drop(database.together(undone));
                Ok::<_, StoreError>(())
            });
            done.expect("the rest is written");
            assert_eq!(database.projects().expect("read").len(), 1);
        });
    }
}
