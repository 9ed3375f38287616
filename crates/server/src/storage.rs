//! The server's databases: results and registry, one thread that writes them, and connections that read.
//!
//! ```text
//! folder       results.db   reports, as `wingbeat run` stores them; `wingbeat log --store` reads it
//!              server.db    the registry
//! PostgreSQL   one database with a schema for each, and perhaps a replica for pages
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

use wingbeat_sql::PostgresUrl;
use wingbeat_track::store::{Store, StoreError};

pub(crate) use self::readers::{Position, of_replica};
pub use self::{
    backup::back_up,
    claim::{Claim, served_at},
    copy::{Claims, copy_registry, is_of_server},
};
use self::{
    private::create_folder,
    readers::{Readers, Replica},
    writer::Writer,
};
use crate::{
    registry::{Registry, RegistryError},
    settings::DataLocation,
};

/// File name of the results database.
pub const RESULTS: &str = "results.db";
/// File name of the registry.
pub const REGISTRY: &str = "server.db";

/// Both databases, within a write or read.
#[derive(Debug)]
pub struct Databases {
    pub results: Store,
    pub registry: Registry,
}

impl Databases {
    /// Frees the page caches of both connections. Failure is harmless.
    fn release_memory(&self) {
        let _ = self.results.release_memory();
        let _ = self.registry.release_memory();
    }

    /// Deletes a project with its names, keys and thresholds. Its reports stay in the store, withdrawn.
    pub fn delete_project(&mut self, project: i64, reason: &str) -> Result<(), StorageError> {
        for report in self.registry.reports_of(project)? {
            self.results.withdraw(report, Some(reason.to_owned()))?;
        }
        Ok(self.registry.delete_project(project)?)
    }
}

/// Why opening or using the databases failed.
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
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(
        "there are no results in {}, although the server's database lists reports: restore both from one backup",
        .path.display()
    )]
    NoResults { path: PathBuf },
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
        "there is no database of a server at {}; name the server's folder with --data, or start `wingbeat serve` once",
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

    /// Opens or creates the databases, and migrates them to the current version.
    fn make(&self) -> Result<Databases, StorageError> {
        match self {
            Self::Folder(folder) => make_in_folder(folder),
            Self::Postgres(url) => {
                let registry = Registry::open_at(url)?;
                // As for a folder: a partial restore is not a new server.
                let opened = Store::open_postgres(url, !registry.has_reports()?);
                let results = opened.map_err(|error| match error {
                    StoreError::Missing { path } => StorageError::NoResults { path },
                    error => error.into(),
                })?;
                Ok(Databases { registry, results })
            }
        }
    }

    /// Opens existing databases of the current version.
    fn open(&self) -> Result<Databases, StorageError> {
        match self {
            Self::Folder(folder) => Ok(Databases {
                results: Store::open_existing(folder.join(RESULTS))?,
                registry: Registry::open(&folder.join(REGISTRY))?,
            }),
            Self::Postgres(url) => Ok(Databases {
                registry: Registry::open_existing_at(url)?,
                results: Store::open_postgres(url, false)?,
            }),
        }
    }
}

fn make_in_folder(folder: &Path) -> Result<Databases, StorageError> {
    create_folder(folder)?;
    let results = folder.join(RESULTS);
    let registry = Registry::open(&folder.join(REGISTRY))?;
    // A partially restored folder would look like a server without results.
    if !results.exists() && registry.has_reports()? {
        return Err(StorageError::NoResults { path: results });
    }
    Ok(Databases { results: Store::open(results)?, registry })
}

/// The databases of a running server.
#[derive(Debug)]
pub struct Storage {
    source: Source,
    writer: Writer,
    readers: Readers,
    replica: Option<Arc<Replica>>,
}

impl Storage {
    /// Opens or creates the databases at a location, and starts the writer.
    pub fn open(place: &DataLocation) -> Result<Self, StorageError> {
        let (source, replica) = match place {
            DataLocation::Folder(folder) => (Source::Folder(folder.clone()), None),
            DataLocation::Postgres { primary, replica } => {
                (Source::Postgres(primary.clone()), replica.as_ref().map(Replica::of).map(Arc::new))
            }
        };
        let databases = source.make()?;
        if let DataLocation::Postgres { primary, replica: Some(replica) } = place {
            check_replica(primary, replica)?;
        }
        let follower = replica.clone();
        // Later reads of the replica must include this write.
        let done = move |databases: &Databases| {
            if let Some(replica) = &follower
                && let Ok(position) = databases.registry.position()
            {
                replica.note(position);
            }
        };
        Ok(Self {
            writer: Writer::start(databases, Box::new(done))?,
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

    /// Size of the databases in bytes.
    pub async fn bytes(&self) -> u64 {
        match &self.source {
            Source::Folder(folder) => {
                [RESULTS, REGISTRY].map(|file| bytes_of(&folder.join(file))).iter().sum()
            }
            Source::Postgres(_) => {
                self.registry(Registry::database_bytes).await.unwrap_or_default()
            }
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
            let release = |databases: &mut Databases| {
                databases.release_memory();
                Ok::<_, StorageError>(())
            };
            // An error means that the server is shutting down.
            let _ = self.write(release).await;
        }
    }

    /// Runs a write after the queued ones. It is committed to disk when this returns.
    pub async fn write<T, E>(
        &self,
        job: impl FnOnce(&mut Databases) -> Result<T, E> + Send + 'static,
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
        job: impl FnOnce(&Databases) -> Result<T, E> + Send + 'static,
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

    /// Reads the registry alone.
    pub async fn registry<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Registry) -> Result<T, RegistryError> + Send + 'static,
    ) -> Result<T, StorageError> {
        self.read(|databases| Ok(ask(&databases.registry)?)).await
    }
}

/// Rejects a replica of another database, whose pages would be plausible but wrong. An unreachable replica may come up
/// later.
fn check_replica(primary: &PostgresUrl, replica: &PostgresUrl) -> Result<(), StorageError> {
    let own = Registry::identity_at(primary)?;
    match Registry::identity_at(replica) {
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

/// Opens or creates the registry at a location, for a command that may run alongside a server.
pub fn open_registry(place: &DataLocation) -> Result<Registry, StorageError> {
    match place {
        DataLocation::Folder(folder) => {
            create_folder(folder)?;
            Ok(Registry::open(&folder.join(REGISTRY))?)
        }
        DataLocation::Postgres { primary, .. } => Ok(Registry::open_at(primary)?),
    }
}

/// Opens an existing registry.
pub fn open_existing_registry(place: &DataLocation) -> Result<Registry, StorageError> {
    match place {
        DataLocation::Folder(folder) => {
            let path = folder.join(REGISTRY);
            if !path.is_file() {
                return Err(StorageError::NoServer(path));
            }
            open_registry(place)
        }
        DataLocation::Postgres { primary, .. } => Ok(Registry::open_existing_at(primary)?),
    }
}

/// Size of a database and its log.
fn bytes_of(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let files = [path, Path::new(&log)].into_iter().filter_map(|it| fs::metadata(it).ok());
    files.map(|it| it.len()).sum()
}
