//! Connections that read, each used by one request at a time.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::task;
use wingbeat_track::store::Store;

use super::{Databases, REGISTRY, RESULTS, StorageError};
use crate::registry::Registry;

/// Connections that are kept while nobody uses them.
const IDLE_MAX: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct Readers {
    folder: PathBuf,
    idle: Arc<Mutex<Vec<Databases>>>,
}

impl Readers {
    pub(super) fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), idle: Arc::default() }
    }

    pub(super) async fn run<T, E>(
        &self,
        job: impl FnOnce(&Databases) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StorageError> + Send + 'static,
    {
        let readers = self.clone();
        let work = move || {
            let databases = readers.take()?;
            let answer = job(&databases);
            readers.give_back(databases);
            answer
        };
        match task::spawn_blocking(work).await {
            Ok(answer) => answer,
            Err(_) => Err(StorageError::Stopping.into()),
        }
    }

    fn take(&self) -> Result<Databases, StorageError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(databases) = idle {
            return Ok(databases);
        }
        Ok(Databases {
            results: Store::open_existing(self.folder.join(RESULTS))?,
            registry: Registry::open(&self.folder.join(REGISTRY))?,
        })
    }

    pub(super) fn close_idle(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.len().min(1);
        let unused = idle.split_off(kept);
        drop(idle);
        drop(unused);
    }

    fn give_back(&self, databases: Databases) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(databases);
        }
    }
}
