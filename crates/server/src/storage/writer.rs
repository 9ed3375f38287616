//! The writer thread.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};

use wingbeat_track::store::StoreError;

use super::{Database, StorageError};

/// Maximum queued writes. Each waits for those before it: a report of 1,000 metrics takes about 15 ms.
const QUEUE: usize = 256;

/// Delay before retrying an unreachable database. Queued writes are refused in the meantime, and their clients retry.
const PAUSE: Duration = Duration::from_secs(1);

/// Performs a write, and returns the callback that reports it.
type Job = Box<dyn FnOnce(Result<&mut Database, StorageError>) -> Tell + Send>;

type Tell = Box<dyn FnOnce()>;

/// Called after each write, before it is reported.
type Done = Box<dyn Fn(&Database) + Send>;

#[derive(Debug)]
pub(super) struct Writer {
    /// Present until the writer stops.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread. It ends when the last sender is dropped and all jobs are done.
    pub(super) fn start(database: Database, done: Done) -> Result<Self, StorageError> {
        let (jobs, mut waiting) = mpsc::channel::<Job>(QUEUE);
        let mut worker = Worker { database, done, lost: None };
        let work = move || {
            while let Some(job) = waiting.blocking_recv() {
                worker.run(job);
            }
        };
        let builder = thread::Builder::new().name("writer".to_owned());
        let thread = builder.spawn(work).map_err(StorageError::Thread)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Number of queued jobs.
    pub(super) fn waiting(&self) -> usize {
        self.jobs.as_ref().map_or(0, |jobs| jobs.max_capacity() - jobs.capacity())
    }

    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Database) -> T + Send + 'static,
    ) -> Result<T, StorageError> {
        let (answer, answered) = oneshot::channel();
        self.queue(job, move |done| drop(answer.send(done)))?;
        answered.await.map_err(|_| StorageError::Stopping)?
    }

    /// The same for a thread that may block.
    pub(super) fn run_blocking<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Database) -> T + Send + 'static,
    ) -> Result<T, StorageError> {
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        self.queue(job, move |done| drop(answer.send(done)))?;
        answered.recv().map_err(|_| StorageError::Stopping)?
    }

    fn queue<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Database) -> T + Send + 'static,
        tell: impl FnOnce(Result<T, StorageError>) + Send + 'static,
    ) -> Result<(), StorageError> {
        let job: Job = Box::new(move |database| {
            let done = database.map(job);
            // The requester may be gone; the write stays.
            Box::new(move || tell(done))
        });
        let jobs = self.jobs.as_ref().ok_or(StorageError::Stopping)?;
        jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => StorageError::Busy,
            TrySendError::Closed(_) => StorageError::Stopping,
        })
    }
}

/// Serializes writes across all servers of a database.
struct Worker {
    database: Database,
    done: Done,
    /// When the database became unreachable.
    lost: Option<Instant>,
}

impl Worker {
    fn run(&mut self, job: Job) {
        if let Err(error) = self.begin() {
            return job(Err(error))();
        }
        // A panic in one request must not end all others. Dropping its transaction rolls it back.
        let tell = catch_unwind(AssertUnwindSafe(|| job(Ok(&mut self.database))));
        (self.done)(&self.database);
        match tell {
            Ok(tell) => tell(),
            Err(_) => tracing::error!("a write panicked; it was rolled back"),
        }
        if let Err(error) = self.database.unlock_writes() {
            // The lock was lost with the connection.
            tracing::warn!("the connection that writes was lost: {error}");
        }
    }

    /// Waits until no other server writes.
    fn begin(&mut self) -> Result<(), StorageError> {
        if self.lost.is_some_and(|at| at.elapsed() < PAUSE) {
            return Err(StorageError::Lost);
        }
        let begun = self.database.lock_writes();
        let is_lost = matches!(&begun, Err(StoreError::Lost { .. }));
        self.lost = is_lost.then(Instant::now);
        Ok(begun?)
    }
}

impl Drop for Writer {
    /// Waits for the queued jobs.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            // The last job may have held the last handle of the storage.
            && thread.thread().id() != thread::current().id()
        {
            // Panics were caught and logged in the thread.
            let _ = thread.join();
        }
    }
}
