//! All data besides results, in an SQLite file or a PostgreSQL schema: users, keys, sessions, projects and their
//! entities, thresholds, pinned plots.
//!
//! Results identify their project, branch, testbed, benchmarks and measures by names that never change. In the registry
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

use std::path::Path;

use wingbeat_sql::{
    Connection, Error, Fault, OptionalExtension as _, Parameters, PostgresUrl, Result as SqlResult,
    Row, Transaction, as_text, sqlite,
    versions::{self, Application, Identity},
};

pub use self::{
    copy::Content,
    entities::{Conflict, Entity, EntityChange, EntityFilter, Kind, NewEntity, Start},
    keys::{Key, KeyHolder, KeyOwner, NO_END, NewKey, key_name_fault},
    plots::{PinnedPlot, PlotFilter, PlotSettings, XAxis, YAxis},
    projects::{NewProject, Project, ProjectChange, Visibility},
    reports::{MetricUuids, ReportRow, Sender},
    series::{LastChange, Newest, SeriesRow},
    sessions::{Invite, Session},
    thresholds::{Model, Threshold, ThresholdFilter},
    users::{EMAIL_BYTES_MAX, NewUser, Role, User, UserRefusal, user_fault},
};

/// Suffix of the registry's schema, after the name of the results' schema.
const SCHEMA_SUFFIX: &str = "_server";

const OPENING: &str = "opening it";

/// Statements that create the tables of version 1, and then those to each later version. Never edit released ones.
const MIGRATIONS: [&str; 1] = [include_str!("registry/schema.sql")];

const VERSION: i64 = MIGRATIONS.len() as i64;

/// Identifies a database as a registry: "wngS" in a file; in development it was "wngs".
const APPLICATION: Application =
    Application { sqlite_id: 0x776e_6753, development_id: 0x776e_6773, name: "wingbeat server" };

as_text!(Kind, Role, Visibility, XAxis, YAxis);

/// SHA-256 of a secret; the secret itself is not stored.
pub type Digest = [u8; 32];

/// All data besides results.
#[derive(Debug)]
pub struct Registry {
    connection: Connection,
    /// For error messages.
    place: String,
}

/// Why opening, reading or writing the registry failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error(
        "the server's database {place} has version {found} of the tables, and this wingbeat reads version {known}: an \
         older version from 1 on is upgraded by `wingbeat serve` with the primary; use the wingbeat that wrote any other"
    )]
    OtherVersion { place: String, found: i64, known: i64 },
    #[error(
        "{place} has no tables of a wingbeat server; name the server's database, or start `wingbeat serve` once"
    )]
    Empty { place: String },
    #[error(
        "the server's database {place} has users or projects already: copy to a place that has none"
    )]
    Taken { place: String },
    #[error("{place} is not a database of a wingbeat server; it was left as it is")]
    Foreign { place: String },
    #[error(
        "the disk is full: {doing} in the server's database {place} was abandoned, and its earlier contents are \
         unchanged; make room and try again"
    )]
    Full { place: String, doing: &'static str },
    #[error(
        "the server's database {place} cannot be written while {doing}: it, its folder or the file system is \
             read-only"
    )]
    ReadOnly { place: String, doing: &'static str },
    #[error(
        "the server's database {place} cannot be written while {doing}: it is a replica, or was set to be \
             read-only; name the primary with --database"
    )]
    Replica { place: String, doing: &'static str },
    #[error(
        "the server's database {place} stayed locked by another process while {doing}; try again when that is \
             done"
    )]
    Busy { place: String, doing: &'static str },
    #[error(
        "the server's database {place} cannot be reached: {source}; try again once PostgreSQL runs there"
    )]
    Lost { place: String, source: Error },
    #[error(
        "the server's database {place} cannot be used: {source}; check the user, its rights and the password (in \
         WINGBEAT_SERVE_DATABASE, PGPASSWORD or PGPASSFILE)"
    )]
    Denied { place: String, source: Error },
    #[error("there is no database {place}: {source}; make it with `createdb`")]
    NoDatabase { place: String, source: Error },
    #[error(
        "the server's database {place} is damaged, seen while {doing}: {source}; restore a backup"
    )]
    Corrupt { place: String, doing: &'static str, source: Error },
    #[error("{doing} failed in the server's database {place}: {source}")]
    Sql { place: String, doing: &'static str, source: Error },
}

impl Registry {
    /// Opens or creates the registry at `path`, and migrates it to the current version.
    pub fn open(path: &Path) -> Result<Self, RegistryError> {
        let place = path.display().to_string();
        let opened = sqlite::open(path, sqlite::Mode::Make).and_then(|connection| {
            sqlite::prepare_for_writing(&connection)?;
            Ok(connection)
        });
        match opened {
            Ok(connection) => Self { connection, place }.migrated(),
            Err(error) => Err(RegistryError::of(&place, OPENING, error)),
        }
    }

    /// Opens or creates the registry in a PostgreSQL database, and migrates it to the current version.
    pub fn open_at(url: &PostgresUrl) -> Result<Self, RegistryError> {
        Self::connect(url)?.migrated()
    }

    /// Opens an existing registry of the current version, without writing.
    pub fn open_existing_at(url: &PostgresUrl) -> Result<Self, RegistryError> {
        let registry = Self::connect(url)?;
        match registry.identify()? {
            Identity::Version(VERSION) => Ok(registry),
            found => Err(registry.refused(found)),
        }
    }

    fn connect(url: &PostgresUrl) -> Result<Self, RegistryError> {
        let place = url.to_string();
        match Connection::postgres(&url.with_suffix(SCHEMA_SUFFIX)) {
            Ok(connection) => Ok(Self { connection, place }),
            Err(error) => Err(RegistryError::of(&place, OPENING, error)),
        }
    }

    /// Migrates a registry or an empty database to the current version. Leaves any other database alone.
    fn migrated(self) -> Result<Self, RegistryError> {
        // Read connections are opened while others write.
        if self.identify()? == Identity::Version(VERSION) {
            return Ok(self);
        }
        let found = versions::migrate(&self.connection, APPLICATION, &MIGRATIONS);
        match found.map_err(self.error(OPENING))? {
            Identity::Version(1..=VERSION) | Identity::Empty => Ok(self),
            found => Err(self.refused(found)),
        }
    }

    fn identify(&self) -> Result<Identity, RegistryError> {
        let look = || versions::identify(&*self.connection.view()?, APPLICATION);
        look().map_err(self.error(OPENING))
    }

    /// Why a database cannot be used.
    fn refused(&self, found: Identity) -> RegistryError {
        let place = self.place.clone();
        match found {
            Identity::Version(found) => {
                RegistryError::OtherVersion { place, found, known: VERSION }
            }
            Identity::Empty => RegistryError::Empty { place },
            Identity::Foreign => RegistryError::Foreign { place },
        }
    }

    /// Runs several changes in one transaction.
    pub fn together<T, E: From<RegistryError>>(
        &self,
        changes: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let failed = self.error("beginning or ending a transaction");
        let transaction = self.connection.writing().map_err(&failed)?;
        let done = changes(self)?;
        transaction.commit().map_err(&failed)?;
        Ok(done)
    }

    /// Runs a statement that changes rows.
    fn execute(
        &self,
        doing: &'static str,
        sql: &str,
        values: impl Parameters,
    ) -> Result<(), RegistryError> {
        self.connection.execute(sql, values).map(drop).map_err(self.error(doing))
    }

    /// The first row of a query.
    fn row<T>(
        &self,
        doing: &'static str,
        sql: &str,
        values: impl Parameters,
        read: impl FnOnce(&Row<'_>) -> SqlResult<T>,
    ) -> Result<Option<T>, RegistryError> {
        self.connection.query_row(sql, values, read).optional().map_err(self.error(doing))
    }

    /// All rows of a query.
    fn rows<T>(
        &self,
        doing: &'static str,
        sql: &str,
        values: impl Parameters,
        read: impl FnMut(&Row<'_>) -> SqlResult<T>,
    ) -> Result<Vec<T>, RegistryError> {
        self.doing(doing, || {
            let mut statement = self.connection.prepare(sql)?;
            statement.query_map(values, read)?.collect::<SqlResult<Vec<T>>>()
        })
    }

    /// Runs statements in one transaction: the open one, or a new one.
    fn write<T>(
        &self,
        doing: &'static str,
        change: impl FnOnce(&Connection) -> SqlResult<T>,
    ) -> Result<T, RegistryError> {
        self.doing(doing, || {
            let own = self.connection.is_autocommit().then(|| self.connection.writing());
            let own = own.transpose()?;
            let done = change(&self.connection)?;
            own.map_or(Ok(()), Transaction::commit)?;
            Ok(done)
        })
    }

    /// Frees the connection's page cache.
    pub fn release_memory(&self) -> Result<(), RegistryError> {
        sqlite::release_memory(&self.connection).map_err(self.error("freeing memory"))
    }

    /// Does something. Errors state what.
    fn doing<T>(
        &self,
        what: &'static str,
        work: impl FnOnce() -> SqlResult<T>,
    ) -> Result<T, RegistryError> {
        work().map_err(self.error(what))
    }

    /// Adds context to an error.
    fn error(&self, doing: &'static str) -> impl Fn(Error) -> RegistryError {
        move |source| RegistryError::of(&self.place, doing, source)
    }
}

impl RegistryError {
    fn of(place: &str, doing: &'static str, source: Error) -> Self {
        let place = place.to_owned();
        match source.fault() {
            Fault::Full => Self::Full { place, doing },
            Fault::Busy => Self::Busy { place, doing },
            Fault::ReadOnly if PostgresUrl::is_meant(&place) => Self::Replica { place, doing },
            Fault::ReadOnly => Self::ReadOnly { place, doing },
            Fault::NotADatabase => Self::Foreign { place },
            Fault::Damaged => Self::Corrupt { place, doing, source },
            Fault::Lost => Self::Lost { place, source },
            Fault::Denied => Self::Denied { place, source },
            Fault::NoDatabase => Self::NoDatabase { place, source },
            _ => Self::Sql { place, doing, source },
        }
    }

    /// Whether the database was unreachable.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
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

    /// Runs a test with an empty registry in a file, and on PostgreSQL if installed.
    pub(super) fn on_both(test: impl Fn(&Registry)) {
        let folder = tempfile::tempdir().expect("a folder");
        test(&Registry::open(&folder.path().join("server.db")).expect("a registry"));
        if let Some(url) = wingbeat_pg_testing::database() {
            let url = PostgresUrl::parse(&url).expect("a URL");
            test(&Registry::open_at(&url).expect("a registry"));
        }
    }

    /// The same, with a project row.
    pub(super) fn on_both_with_project(test: impl Fn(&Registry, i64)) {
        on_both(|registry| {
            let name = ProjectName::new("project").expect("a name");
            let new = NewProject { name, slug: None, url: None, visibility: Visibility::Public };
            test(registry, registry.create_project(&new, now()).expect("made").id);
        });
    }

    #[test]
    fn a_database_that_others_write_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let registry = Registry::open(&folder.path().join("server.db")).expect("a registry");
        let other = rusqlite::Connection::open(&registry.place).expect("opened");
        other.execute_batch("BEGIN IMMEDIATE").expect("locked");
        let own = registry.connection.sqlite().expect("a file");
        own.busy_timeout(std::time::Duration::from_millis(20)).expect("set");
        let note = || registry.note("a", "b", OffsetDateTime::UNIX_EPOCH);
        let error = note().expect_err("locked");
        assert!(matches!(error, RegistryError::Busy { .. }), "{error}");
        assert!(!registry.has_users().expect("read meanwhile"));
        other.execute_batch("ROLLBACK").expect("unlocked");
        note().expect("written");
    }

    #[test]
    fn only_registries_are_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let check = |name: &str, sql: &str, expected: Option<&str>| {
            let path = folder.path().join(name);
            let db = rusqlite::Connection::open(&path).expect("a database");
            db.execute_batch(sql).expect("made");
            let error = Registry::open(&path).err().map(|it| it.to_string());
            assert_eq!(error.is_some(), expected.is_some(), "{sql}: {error:?}");
            assert!(error.unwrap_or_default().contains(expected.unwrap_or_default()));
        };
        let of = |id: i64, version: i64| {
            format!("PRAGMA application_id = {id}; PRAGMA user_version = {version}")
        };
        check("a", "", None);
        check("b", &of(APPLICATION.sqlite_id, 99), Some("version 99 of the tables"));
        check("c", &of(APPLICATION.development_id, 1), Some("version 0 of the tables"));
        check("d", &of(5, 1), Some("not a database of a wingbeat server"));
        check("e", "CREATE TABLE a (b)", Some("not a database of a wingbeat server"));
    }
}
