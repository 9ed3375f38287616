//! The thread that writes.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};

use super::{Databases, StorageError};

/// Writes that may wait. Each waits for those before it: a report of 1,000 metrics takes some 15 ms.
const QUEUE: usize = 256;

type Job = Box<dyn FnOnce(&mut Databases) + Send>;

#[derive(Debug)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    /// Starts the thread. It ends when the last sender is gone and all jobs are done.
    pub(super) fn start(mut databases: Databases) -> Result<Self, StorageError> {
        let (jobs, mut waiting) = mpsc::channel::<Job>(QUEUE);
        let work = move || {
            while let Some(job) = waiting.blocking_recv() {
                // One request that fails in an unforeseen way must not end all others. Its transaction is
                // rolled back as it is dropped.
                if catch_unwind(AssertUnwindSafe(|| job(&mut databases))).is_err() {
                    tracing::error!("a write failed in an unforeseen way; it was rolled back");
                }
            }
        };
        let builder = thread::Builder::new().name("writer".to_owned());
        builder.spawn(work).map_err(StorageError::Thread)?;
        Ok(Self { jobs })
    }

    /// Runs a job and waits for what it returns.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Databases) -> T + Send + 'static,
    ) -> Result<T, StorageError> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |databases| {
            // Who asked may be gone; what was written stays.
            let _ = answer.send(job(databases));
        });
        self.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => StorageError::Busy,
            TrySendError::Closed(_) => StorageError::Stopping,
        })?;
        answered.await.map_err(|_| StorageError::Stopping)
    }
}
