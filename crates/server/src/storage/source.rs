//! Where connections lead, and how they are opened.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use wingbeat_sql::PostgresUrl;
use wingbeat_track::store::Store;

use super::{Databases, REGISTRY, RESULTS, StorageError, create_folder};
use crate::registry::Registry;

/// How long nobody tries to reach a database again that could not be reached: requests that come meanwhile are
/// refused at once.
const PAUSE: Duration = Duration::from_secs(1);

/// What a connection that is unused for so long may have missed.
const STALE: Duration = Duration::from_secs(1);

/// Where connections lead. Clones know of each other's failures.
#[derive(Debug, Clone)]
pub(super) struct Source {
    at: At,
    failed: Arc<Mutex<Option<Instant>>>,
}

#[derive(Debug, Clone)]
pub(super) enum At {
    Folder(PathBuf),
    Postgres(PostgresUrl),
}

/// Open databases, and when they were last used.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) databases: Databases,
    used: Instant,
}

impl Source {
    pub(super) fn folder(folder: &Path) -> Self {
        Self { at: At::Folder(folder.to_owned()), failed: Arc::default() }
    }

    pub(super) fn postgres(url: &PostgresUrl) -> Self {
        Self { at: At::Postgres(url.clone()), failed: Arc::default() }
    }

    pub(super) fn at(&self) -> &At {
        &self.at
    }

    /// Whether others than this process write there while it runs.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.at, At::Postgres(_))
    }

    /// Opens the databases, makes them where there are none, and brings them to the present version.
    pub(super) fn make(&self) -> Result<Databases, StorageError> {
        match &self.at {
            At::Folder(folder) => make_in_folder(folder),
            At::Postgres(url) => Ok(Databases {
                registry: Registry::open_at(url)?,
                results: Store::open_at(url.as_str())?,
            }),
        }
    }

    /// Opens databases that are there and are of the present version.
    pub(super) fn open(&self) -> Result<Databases, StorageError> {
        match &self.at {
            At::Folder(folder) => Ok(Databases {
                results: Store::open_existing(folder.join(RESULTS))?,
                registry: Registry::open(&folder.join(REGISTRY))?,
            }),
            At::Postgres(url) => self.unless_it_failed(|| {
                Ok(Databases {
                    registry: Registry::open_existing_at(url)?,
                    results: Store::open_existing_at(url.as_str())?,
                })
            }),
        }
    }

    fn unless_it_failed(
        &self,
        open: impl FnOnce() -> Result<Databases, StorageError>,
    ) -> Result<Databases, StorageError> {
        let failed = || self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed().is_some_and(|at| at.elapsed() < PAUSE) {
            return Err(StorageError::Lost);
        }
        let opened = open();
        *failed() = opened.is_err().then(Instant::now);
        opened
    }

    /// As they are kept, if they can still be used: a server of databases may have been started anew.
    pub(super) fn usable(&self, kept: Kept) -> Option<Databases> {
        let is_fresh = !self.is_shared() || kept.used.elapsed() < STALE;
        (is_fresh || kept.databases.is_alive()).then_some(kept.databases)
    }
}

impl Kept {
    pub(super) fn now(databases: Databases) -> Self {
        Self { databases, used: Instant::now() }
    }
}

fn make_in_folder(folder: &Path) -> Result<Databases, StorageError> {
    create_folder(folder)?;
    let results = folder.join(RESULTS);
    let registry = Registry::open(&folder.join(REGISTRY))?;
    // A folder that was restored in part would look like a server that nobody has sent anything to.
    if !results.exists() && registry.has_reports()? {
        return Err(StorageError::NoResults { path: results });
    }
    Ok(Databases { results: Store::open(results)?, registry })
}
