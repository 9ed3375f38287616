//! The folder of a server: two databases, one thread that writes them, and connections that read.
//!
//! ```text
//! results.db   reports, as `wingbeat run` stores them; `wingbeat log --store` reads it
//! server.db    the registry
//! ```
//!
//! A write runs on the writer's thread, one after the other. Its queue is bounded: when it is full, the request
//! is refused, and the client comes again. What was answered is on the disk.

mod backup;
mod claim;
mod readers;
mod writer;

use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use wingbeat_track::store::{Store, StoreError};

pub use self::{
    backup::{BackupError, back_up},
    claim::{Claim, served_at},
};
use self::{readers::Readers, writer::Writer};
use crate::registry::{Registry, RegistryError};

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
        "there is no {}, although {REGISTRY} beside it knows of reports: restore both from one backup",
        .path.display()
    )]
    NoResults { path: PathBuf },
    #[error("too many requests are waiting to be written")]
    Busy,
    #[error("the server is stopping")]
    Stopping,
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
    folder: PathBuf,
    writer: Writer,
    readers: Readers,
}

impl Storage {
    /// Opens the databases in a folder, or makes them, and starts the writer.
    pub fn open(folder: &Path) -> Result<Self, StorageError> {
        create_folder(folder)?;
        let results = folder.join(RESULTS);
        let registry = Registry::open(&folder.join(REGISTRY))?;
        // A folder that was restored in part would look like a server that nobody has sent anything to.
        if !results.exists() && registry.has_reports()? {
            return Err(StorageError::NoResults { path: results });
        }
        let databases = Databases { results: Store::open(results)?, registry };
        Ok(Self {
            folder: folder.to_owned(),
            writer: Writer::start(databases)?,
            readers: Readers::of(folder),
        })
    }

    /// Writes that wait.
    pub fn waiting(&self) -> usize {
        self.writer.waiting()
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Closes connections that nobody uses, with the pages that they keep, but one.
    pub fn close_idle(&self) {
        self.readers.close_idle();
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

    /// Runs a read beside others.
    pub async fn read<T, E>(
        &self,
        job: impl FnOnce(&Databases) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StorageError> + Send + 'static,
    {
        self.readers.run(job).await
    }
}

/// Makes the folder of a server if there is none. Nobody else of the machine may look into it.
fn create_folder(folder: &Path) -> Result<(), StorageError> {
    let create = |source| StorageError::Create { path: folder.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(create)
}

/// Opens the registry of a folder, or makes both, for a command beside a server that may run or not.
pub fn open_registry(folder: &Path) -> Result<Registry, StorageError> {
    create_folder(folder)?;
    Ok(Registry::open(&folder.join(REGISTRY))?)
}
