//! The server's database, one thread that writes it, and connections that read.
//!
//! ```text
//! folder       server.db    a store, as `wingbeat run` makes it, with the server's tables; `wingbeat log --store` reads it
//! PostgreSQL   the same in a schema, and perhaps a replica for pages
//! ```
//!
//! Writes run sequentially on the writer's thread. Its queue is bounded: when it is full, requests are refused, and
//! clients retry. Acknowledged writes are on disk.

mod backup;
mod claim;
mod copy;
mod private;
mod readers;
mod writer;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use wingbeat_sql::{PostgresUrl, versions};
use wingbeat_track::store::{Store, StoreError};

pub(crate) use self::readers::{Position, of_replica};
pub use self::{
    backup::back_up,
    claim::{Claim, served_at},
    copy::{Claims, copy_server},
};
use self::{
    private::create_folder,
    readers::{Readers, Replica},
    writer::Writer,
};
use crate::{
    database::{Database, VERSIONS},
    settings::DataLocation,
};

/// File name of the database.
pub const FILE: &str = "server.db";

/// Why opening or using the database failed.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error("cannot create the data folder {}: {source}; name another with --data", .path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error(
        "other users of this machine can read the data folder {0} (mode {mode:04o}), which has hashes of passwords and \
         all results: run `chmod 700 {0}`, and consider new passwords and keys",
        .path.display()
    )]
    TooOpen { path: PathBuf, mode: u32 },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{} has users or projects of a server already: copy to a place that has none", .path.display())]
    Taken { path: PathBuf },
    #[error("too many writes are queued")]
    Busy,
    #[error("the server is stopping")]
    Stopping,
    #[error("{to} differs from {from} after the copy; another process wrote to it")]
    NotEqual { from: String, to: String },
    #[error(
        "{replica} is not a replica of {primary}; name one with --read-database, or leave the flag out"
    )]
    OtherReplica { replica: String, primary: String },
    #[error("the database cannot be reached; try again")]
    Lost,
    #[error(
        "there is no database of a server at {}; name the server's folder with --data, its database with --database, or start `wingbeat serve` once",
        .0.display()
    )]
    NoServer(PathBuf),
    #[error("cannot start the thread that writes: {0}")]
    Thread(io::Error),
    #[error("another server uses the data folder {}: stop it, or name another folder with --data", .path.display())]
    InUse { path: PathBuf },
    #[error(
        "cannot lock {}: {source}; the server needs a folder and files that its user can write",
        .path.display()
    )]
    Lock { path: PathBuf, source: io::Error },
}

/// Target of connections. Lost PostgreSQL connections are reopened automatically.
#[derive(Debug, Clone)]
enum Source {
    Folder(PathBuf),
    Postgres(PostgresUrl),
}

impl Source {
    /// Whether other servers write concurrently.
    fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Opens or creates the database, and migrates it to the current version.
    fn make(&self) -> Result<Database, StorageError> {
        Database::create_in(match self {
            Self::Folder(folder) => {
                create_folder(folder)?;
                Store::open(folder.join(FILE))?
            }
            Self::Postgres(url) => Store::open_postgres(url, true)?,
        })
    }

    /// Opens an existing database of the current version.
    fn open(&self) -> Result<Database, StorageError> {
        let path = match self {
            Self::Folder(folder) => folder.join(FILE),
            Self::Postgres(url) => PathBuf::from(url.to_string()),
        };
        let opened = match self {
            Self::Folder(_) => Store::open_existing(&path),
            Self::Postgres(url) => Store::open_postgres(url, false),
        };
        match opened {
            Err(StoreError::Missing { .. }) => Err(StorageError::NoServer(path)),
            opened => Database::open_in(opened?),
        }
    }
}

impl From<&DataLocation> for Source {
    fn from(place: &DataLocation) -> Self {
        match place {
            DataLocation::Folder(folder) => Self::Folder(folder.clone()),
            DataLocation::Postgres { primary, .. } => Self::Postgres(primary.clone()),
        }
    }
}

/// The database of a running server.
#[derive(Debug)]
pub struct Storage {
    source: Source,
    writer: Writer,
    readers: Readers,
    replica: Option<Arc<Replica>>,
}

impl Storage {
    /// Opens or creates the database at a location, and starts the writer.
    pub fn open(place: &DataLocation) -> Result<Self, StorageError> {
        let source = Source::from(place);
        let replica = match place {
            DataLocation::Folder(_) => None,
            DataLocation::Postgres { replica, .. } => {
                replica.as_ref().map(Replica::of).map(Arc::new)
            }
        };
        let database = source.make()?;
        if let DataLocation::Postgres { primary, replica: Some(replica) } = place {
            check_replica(primary, replica)?;
        }
        let follower = replica.clone();
        // Later reads of the replica must include this write.
        let done = move |database: &Database| {
            if let Some(replica) = &follower
                && let Ok(position) = database.position()
            {
                replica.note(position);
            }
        };
        Ok(Self {
            writer: Writer::start(database, Box::new(done))?,
            readers: Readers::of(source.clone()),
            source,
            replica,
        })
    }

    /// Number of queued writes.
    pub fn waiting(&self) -> usize {
        self.writer.waiting()
    }

    /// Whether other servers may write concurrently.
    pub(crate) fn is_shared(&self) -> bool {
        self.source.is_shared()
    }

    /// Size of the database in bytes.
    pub async fn bytes(&self) -> u64 {
        match &self.source {
            Source::Folder(folder) => bytes_of(&folder.join(FILE)),
            Source::Postgres(_) => self.ask(Database::database_bytes).await.unwrap_or_default(),
        }
    }

    /// Log position that a replica must have replayed to include this server's writes; none without a replica.
    pub(crate) fn written(&self) -> Option<Position> {
        self.replica.as_ref().map(|replica| replica.newest())
    }

    /// Closes idle connections except one, and frees the page caches of the others.
    pub async fn rest(&self) {
        self.readers.close_idle();
        if let Some(replica) = &self.replica {
            replica.close_idle();
        }
        // PostgreSQL holds the cache itself. A queued write takes precedence, and another cleanup follows it.
        if !self.is_shared() && self.waiting() == 0 {
            let release =
                |database: &mut Database| Ok::<_, StorageError>(database.results.release_memory()?);
            // An error means that the server is shutting down.
            let _ = self.write(release).await;
        }
    }

    /// Runs a write after the queued ones. It is committed to disk when this returns.
    pub async fn write<T, E>(
        &self,
        job: impl FnOnce(&mut Database) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StorageError> + Send + 'static,
    {
        self.writer.run(job).await?
    }

    /// Runs a read concurrently with others: on the primary, unless a replica may serve the request.
    pub async fn read<T, E>(
        &self,
        job: impl FnOnce(&Database) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StorageError> + Send + 'static,
    {
        let job = match (&self.replica, readers::replica_position()) {
            (Some(replica), Some(at_least)) => match replica.run(at_least, job).await {
                Ok(answer) => return answer,
                Err(job) => job,
            },
            _ => job,
        };
        self.readers.run(job).await
    }

    /// Like [`Self::write`], for a thread that may block.
    pub fn write_blocking<T, E>(
        &self,
        job: impl FnOnce(&mut Database) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StorageError> + Send + 'static,
    {
        self.writer.run_blocking(job)?
    }

    /// Runs a read of the primary on this thread, which may block.
    pub fn read_blocking<T, E: From<StorageError>>(
        &self,
        job: impl FnOnce(&Database) -> Result<T, E>,
    ) -> Result<T, E> {
        self.readers.run_blocking(job)
    }

    /// The same for a single question.
    pub async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Database) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StorageError> {
        self.read(|database| Ok(ask(database)?)).await
    }
}

/// Rejects a replica of another database, whose pages would be plausible but wrong. An unreachable replica may come up
/// later.
fn check_replica(primary: &PostgresUrl, replica: &PostgresUrl) -> Result<(), StorageError> {
    let own = Database::identity_at(primary)?;
    match Database::identity_at(replica) {
        Ok(found) if found.data != own.data => {
            let (replica, primary) = (replica.to_string(), primary.to_string());
            return Err(StorageError::OtherReplica { replica, primary });
        }
        Ok(found) if !found.is_replica => {
            tracing::warn!("{replica} is not a replica, so pages read from the primary");
        }
        Ok(_) => {}
        Err(error) => {
            tracing::warn!(
                "the replica cannot be read yet, so pages read from the primary: {error}"
            );
        }
    }
    Ok(())
}

/// Opens or creates the database at a location, for a command that may run alongside a server.
pub fn open(place: &DataLocation) -> Result<Database, StorageError> {
    Source::from(place).make()
}

/// Opens an existing database.
pub fn open_existing(place: &DataLocation) -> Result<Database, StorageError> {
    if let DataLocation::Folder(folder) = place
        && folder.join(FILE).is_file()
    {
        create_folder(folder)?;
    }
    Source::from(place).open()
}

/// Whether a store has the tables of a server.
pub fn has_server(store: &Store) -> Result<bool, StoreError> {
    store.doing("looking for a server's tables", || {
        Ok(versions::extension(store.connection(), VERSIONS)? > 0)
    })
}

/// Size of a database and its log.
fn bytes_of(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let files = [path, Path::new(&log)].into_iter().filter_map(|it| fs::metadata(it).ok());
    files.map(|it| it.len()).sum()
}
