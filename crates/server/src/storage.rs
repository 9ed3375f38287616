//! Where a server keeps everything: results and the registry, one thread that writes them, and connections
//! that read.
//!
//! ```text
//! folder       results.db   reports, as `wingbeat run` stores them; `wingbeat log --store` reads it
//!              server.db    the registry
//! PostgreSQL   one database with a schema for each, and perhaps a replica for pages
//! ```
//!
//! A write runs on the writer's thread, one after the other. Its queue is bounded: when it is full, the request
//! is refused, and the client comes again. What was answered is on the disk.

mod backup;
mod claim;
mod copy;
mod readers;
mod replica;
mod source;
pub(crate) mod view;
mod writer;

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use wingbeat_sql::PostgresUrl;
use wingbeat_track::store::{Store, StoreError};

pub use self::{
    backup::{BackupError, back_up},
    claim::{Claim, served_at},
    copy::{Claims, copy_registry, is_of_server},
};
use self::{readers::Readers, replica::Replica, source::Source, view::Position, writer::Writer};
use crate::{
    registry::{Registry, RegistryError},
    settings::Place,
};

/// Name of the database of results in the folder.
pub const RESULTS: &str = "results.db";
/// Name of the database of everything else in the folder.
pub const REGISTRY: &str = "server.db";

/// Both databases, as a write or a read sees them.
#[derive(Debug)]
pub struct Databases {
    pub results: Store,
    pub registry: Registry,
}

impl Databases {
    /// Frees what both connections keep of their files. It is no harm if that fails.
    fn release_memory(&self) {
        let _ = self.results.release_memory();
        let _ = self.registry.release_memory();
    }

    /// Deletes a project with its names, keys and thresholds. Its reports stay in the store, taken back.
    pub fn delete_project(&mut self, project: i64, reason: &str) -> Result<(), StorageError> {
        for report in self.registry.reports_of(project)? {
            self.results.withdraw(report, Some(reason.to_owned()))?;
        }
        Ok(self.registry.delete_project(project)?)
    }
}

/// Why the databases cannot be opened or used.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error("cannot create the data folder {}: {source}; name another with --data", .path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(
        "there are no results in {}, although the users and names beside them know of reports: restore both from one \
         backup",
        .path.display()
    )]
    NoResults { path: PathBuf },
    #[error("too many requests are waiting to be written")]
    Busy,
    #[error("the server is stopping")]
    Stopping,
    #[error(
        "{to} has not what {from} has, although it was copied: something else wrote there meanwhile"
    )]
    NotEqual { from: String, to: String },
    #[error(
        "{replica} is not a replica of {primary}; name one with --read-database, or leave the flag out"
    )]
    OtherReplica { replica: String, primary: String },
    #[error("the database cannot be reached; try again")]
    Lost,
    #[error(
        "there is no server's database {}; name the server's folder with --data, or start `wingbeat serve` once",
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

/// The databases of a running server.
#[derive(Debug)]
pub struct Storage {
    source: Source,
    writer: Writer,
    readers: Readers,
    replica: Option<Arc<Replica>>,
}

impl Storage {
    /// Opens the databases of a place, or makes them, and starts the writer.
    pub fn open(place: &Place) -> Result<Self, StorageError> {
        let (source, replica) = match place {
            Place::Folder(folder) => (Source::Folder(folder.clone()), None),
            Place::Postgres { primary, replica } => {
                (Source::Postgres(primary.clone()), replica.as_ref().map(Replica::of).map(Arc::new))
            }
        };
        let databases = source.make()?;
        if let Place::Postgres { primary, replica: Some(replica) } = place {
            check_replica(primary, replica)?;
        }
        let follower = replica.clone();
        // What a page wrote is looked for in the replica before that is read.
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

    /// Writes that wait.
    pub fn waiting(&self) -> usize {
        self.writer.waiting()
    }

    /// Whether other servers may write to the databases while this one runs.
    pub(crate) fn is_shared(&self) -> bool {
        self.source.is_shared()
    }

    /// Size of the databases, in bytes.
    pub async fn bytes(&self) -> u64 {
        match &self.source {
            Source::Folder(folder) => {
                [RESULTS, REGISTRY].map(|file| bytes_of(&folder.join(file))).iter().sum()
            }
            Source::Postgres(_) => {
                let ask = |databases: &Databases| databases.registry.database_bytes();
                let asked: Result<_, StorageError> =
                    self.readers.run(move |databases| Ok(ask(databases)?)).await;
                asked.unwrap_or_default()
            }
        }
    }

    /// The place up to which a replica must have come to have all that this server wrote; none without one.
    pub(crate) fn written(&self) -> Option<Position> {
        self.replica.as_ref().map(|replica| replica.newest())
    }

    /// Closes connections that nobody uses, but one, and frees the pages that the others keep.
    pub async fn rest(&self) {
        self.readers.close_idle();
        if let Some(replica) = &self.replica {
            replica.close_idle();
        }
        // PostgreSQL keeps the pages. A write that waits comes first, and another rest follows it.
        if !self.is_shared() && self.waiting() == 0 {
            let release = |databases: &mut Databases| {
                databases.release_memory();
                Ok::<_, StorageError>(())
            };
            // An error means that the server stops.
            let _ = self.write(release).await;
        }
    }

    /// Runs a write after those that wait. It is done, and on the disk, when this returns.
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

    /// Runs a read beside others: of the primary, unless the request is one that a replica may answer.
    pub async fn read<T, E>(
        &self,
        job: impl FnOnce(&Databases) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StorageError> + Send + 'static,
    {
        let job = match (&self.replica, view::replica()) {
            (Some(replica), Some(at_least)) => match replica.run(at_least, job).await {
                Ok(answer) => return answer,
                Err(job) => job,
            },
            _ => job,
        };
        self.readers.run(job).await
    }
}

/// Refuses a replica of another database: its pages would look right, and be wrong. One that is not there yet may come.
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

/// Makes the folder of a server if there is none. Nobody else of the machine may look into it.
fn create_folder(folder: &Path) -> Result<(), StorageError> {
    let create = |source| StorageError::Create { path: folder.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(create)
}

/// Opens the registry of a place, or makes it, for a command beside a server that may run or not.
pub fn open_registry(place: &Place) -> Result<Registry, StorageError> {
    match place {
        Place::Folder(folder) => {
            create_folder(folder)?;
            Ok(Registry::open(&folder.join(REGISTRY))?)
        }
        Place::Postgres { primary, .. } => Ok(Registry::open_at(primary)?),
    }
}

/// Opens the registry of a place, and makes none.
pub fn open_registry_that_is_there(place: &Place) -> Result<Registry, StorageError> {
    match place {
        Place::Folder(folder) => {
            let path = folder.join(REGISTRY);
            if !path.is_file() {
                return Err(StorageError::NoServer(path));
            }
            open_registry(place)
        }
        Place::Postgres { primary, .. } => Ok(Registry::open_existing_at(primary)?),
    }
}

/// Size of a database and of its log.
fn bytes_of(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let files = [path, Path::new(&log)].into_iter().filter_map(|it| fs::metadata(it).ok());
    files.map(|it| it.len()).sum()
}
