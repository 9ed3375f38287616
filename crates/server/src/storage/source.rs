//! Opens database connections.

use std::path::{Path, PathBuf};

use wingbeat_sql::PostgresUrl;
use wingbeat_track::store::{Store, StoreError};

use super::{Databases, REGISTRY, RESULTS, StorageError, create_folder};
use crate::registry::Registry;

/// Target of connections. Lost PostgreSQL connections are reopened automatically.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Folder(PathBuf),
    Postgres(PostgresUrl),
}

impl Source {
    /// Whether other servers write concurrently.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Opens or creates the databases, and migrates them to the current version.
    pub(super) fn make(&self) -> Result<Databases, StorageError> {
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
    pub(super) fn open(&self) -> Result<Databases, StorageError> {
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
