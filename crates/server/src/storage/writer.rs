//! The thread that writes.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};

use super::{Databases, StorageError};

/// Writes that may wait. Each waits for those before it: a report of 1,000 metrics takes some 15 ms.
const QUEUE: usize = 256;

/// How long nobody tries again to reach a database that could not be reached: what waits is refused meanwhile,
/// and its clients come again.
const PAUSE: Duration = Duration::from_secs(1);

/// Does something, and gives what tells it to whoever asked.
type Job = Box<dyn FnOnce(Result<&mut Databases, StorageError>) -> Tell + Send>;

type Tell = Box<dyn FnOnce()>;

/// Is told after each write, before whoever asked for it.
type Done = Box<dyn Fn(&Databases) + Send>;

#[derive(Debug)]
pub(super) struct Writer {
    /// There until the writer ends.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread. It ends when the last sender is gone and all jobs are done.
    pub(super) fn start(databases: Databases, done: Done) -> Result<Self, StorageError> {
        let (jobs, mut waiting) = mpsc::channel::<Job>(QUEUE);
        let mut turns = Turns { databases, done, lost: None };
        let work = move || {
            while let Some(job) = waiting.blocking_recv() {
                turns.run(job);
            }
        };
        let builder = thread::Builder::new().name("writer".to_owned());
        let thread = builder.spawn(work).map_err(StorageError::Thread)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Jobs that wait.
    pub(super) fn waiting(&self) -> usize {
        self.jobs.as_ref().map_or(0, |jobs| jobs.max_capacity() - jobs.capacity())
    }

    /// Runs a job and waits for what it returns.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Databases) -> T + Send + 'static,
    ) -> Result<T, StorageError> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |databases| {
            let done = databases.map(job);
            // Who asked may be gone; what was written stays.
            Box::new(move || drop(answer.send(done)))
        });
        let jobs = self.jobs.as_ref().ok_or(StorageError::Stopping)?;
        jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => StorageError::Busy,
            TrySendError::Closed(_) => StorageError::Stopping,
        })?;
        answered.await.map_err(|_| StorageError::Stopping)?
    }
}

/// What writes one after the other: of all servers of one database, not of this one alone.
struct Turns {
    databases: Databases,
    done: Done,
    /// When the database could not be reached.
    lost: Option<Instant>,
}

impl Turns {
    fn run(&mut self, job: Job) {
        if let Err(error) = self.begin() {
            return job(Err(error))();
        }
        // One request that fails in an unforeseen way must not end all others. Its transaction is
        // rolled back as it is dropped.
        let tell = catch_unwind(AssertUnwindSafe(|| job(Ok(&mut self.databases))));
        (self.done)(&self.databases);
        match tell {
            Ok(tell) => tell(),
            Err(_) => tracing::error!("a write failed in an unforeseen way; it was rolled back"),
        }
        if let Err(error) = self.databases.registry.end_turn() {
            // With the connection the turn ended too.
            tracing::warn!("the connection that writes was lost: {error}");
        }
    }

    /// Waits until no other server writes.
    fn begin(&mut self) -> Result<(), StorageError> {
        if self.lost.is_some_and(|at| at.elapsed() < PAUSE) {
            return Err(StorageError::Lost);
        }
        let begun = self.databases.registry.begin_turn();
        let is_lost = matches!(&begun, Err(error) if error.is_lost());
        self.lost = is_lost.then(Instant::now);
        Ok(begun?)
    }
}

impl Drop for Writer {
    /// Waits for the jobs that are there already.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            // The last job may have been the last that held the storage.
            && thread.thread().id() != thread::current().id()
        {
            // A panic was caught and logged there.
            let _ = thread.join();
        }
    }
}
