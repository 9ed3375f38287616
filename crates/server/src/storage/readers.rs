//! Pool of read connections, each used by one request at a time.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::Semaphore, task, time::timeout};

use super::{Databases, Source, StorageError};

/// Maximum idle connections.
const IDLE_MAX: usize = 8;

/// Maximum concurrent connections. A PostgreSQL server has 100 by default, for all its clients.
const AT_ONCE: usize = 16;

/// How long a request waits for a connection.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub(super) struct Readers {
    source: Source,
    idle: Arc<Mutex<Vec<Databases>>>,
    free: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn of(source: Source) -> Self {
        // Files take as many as there are threads.
        let at_once = if source.is_shared() { AT_ONCE } else { Semaphore::MAX_PERMITS };
        Self { source, idle: Arc::default(), free: Arc::new(Semaphore::new(at_once)) }
    }

    pub(super) async fn run<T, E>(
        &self,
        job: impl FnOnce(&Databases) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StorageError> + Send + 'static,
    {
        let permit = timeout(PATIENCE, Arc::clone(&self.free).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else { return Err(StorageError::Busy.into()) };
        let readers = self.clone();
        let work = move || {
            let _permit = permit;
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
        idle.map_or_else(|| self.source.open(), Ok)
    }

    pub(super) fn close_idle(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.len().min(1);
        let unused = idle.split_off(kept);
        idle.iter().for_each(Databases::release_memory);
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
