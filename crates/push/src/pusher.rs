//! A thread that pushes windows to one target. Offering a window never blocks on it.
//!
//! `offer` puts a window into the inbox, under a lock that is never held for long, and writes it to disk if there
//! is a folder. The thread moves it to the spool and sends the oldest. The spool is not locked during a request,
//! so that [`Pusher::finish`] can write it to disk and return even if a backend hangs.

mod shared;
mod work;

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use self::shared::{Shared, lock};
use crate::{
    credentials::Credentials,
    error::FolderError,
    http::Transport,
    spool::Spool,
    target::Target,
    window::{PART_BYTES_MAX, Window},
};

/// Extra time for the thread to notice a timeout on a busy machine.
const GRACE: Duration = Duration::from_secs(1);

/// Timeouts and limits of a pusher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushOptions {
    /// Parent of the target's folder for windows that wait while the backend is down. Without it they wait in
    /// memory, and are lost when the process exits.
    pub folder: Option<PathBuf>,
    /// Maximum bytes waiting; the oldest window is dropped beyond it.
    pub bytes_max: u64,
    /// Maximum windows in memory, if there is a folder.
    pub memory_windows_max: usize,
    /// Pause after the first failure, doubled by each further one. Up to half of it is randomly omitted.
    pub pause_min: Duration,
    pub pause_max: Duration,
    /// Timeout of connecting.
    pub connect: Duration,
    /// Timeout of a whole request, including the response.
    pub whole: Duration,
}

impl Default for PushOptions {
    fn default() -> Self {
        Self {
            folder: None,
            bytes_max: 64 << 20,
            memory_windows_max: 4,
            pause_min: Duration::from_secs(1),
            pause_max: Duration::from_secs(60),
            connect: Duration::from_secs(5),
            whole: Duration::from_secs(30),
        }
    }
}

/// Counts of windows by outcome. A window of more than 2 MiB is sent in parts, and each counts.
///
/// `offered + restored` is `pushed + rejected + dropped + damaged + waiting`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Offered windows, except empty ones.
    pub offered: u64,
    /// Windows left in the folder by an earlier process.
    pub restored: u64,
    /// Windows accepted by the backend.
    pub pushed: u64,
    /// Failed attempts that were or will be repeated.
    pub retries: u64,
    /// Windows rejected by the backend, or that could not be encoded.
    pub rejected: u64,
    /// Windows dropped for lack of room.
    pub dropped: u64,
    /// Windows whose file in the folder was damaged.
    pub damaged: u64,
    pub waiting: u64,
    /// Approximate size of the waiting windows.
    pub waiting_bytes: u64,
    /// Last error, in one sentence. Stays after later successes.
    pub last_error: Option<String>,
}

/// A thread that pushes windows to one target. Dropping it is like [`Pusher::finish`] with no patience.
///
/// The oldest is sent first. A window at which the backend fails each time is retried until there is no room for it.
#[derive(Debug)]
pub struct Pusher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Closed when the thread ends.
    ended: Receiver<()>,
}

impl Pusher {
    /// Starts the thread, beginning with windows left in the folder by an earlier process.
    pub fn start(
        target: &Target,
        credentials: Credentials,
        options: PushOptions,
    ) -> Result<Self, FolderError> {
        let folder = options.folder.as_ref().map(|folder| folder.join(target.folder_name()));
        let spool = Spool::open(folder.as_deref(), options.bytes_max, options.memory_windows_max)?;
        let transport = Transport::new(target, credentials, options.connect);
        let shared = Arc::new(Shared::new(spool, options.bytes_max));
        let (alive, ended) = channel();
        let worker = work::Worker::new(Arc::clone(&shared), target.clone(), transport, &options);
        let thread = std::thread::Builder::new()
            .name(format!("push-{}", target.protocol().name()))
            .spawn(move || {
                // Dropped when the thread ends, even by a panic.
                let _alive = alive;
                worker.run();
            })
            .map_err(|source: io::Error| FolderError::Io {
                tried: "starting a thread for",
                path: target.to_string(),
                source,
            })?;
        Ok(Self { shared, thread: Some(thread), ended })
    }

    /// Queues a window without waiting for the backend: in memory, or on disk if there is a folder. Beyond the
    /// limit the oldest is dropped, and counted.
    pub fn offer(&self, window: &Arc<Window>) {
        let parts = window.parts(PART_BYTES_MAX);
        if !parts.is_empty() {
            self.shared.offer(parts);
        }
    }

    /// Current counts.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Returns a function for the current counts, for use by other threads.
    pub fn counter(&self) -> impl Fn() -> Counts + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.counts()
    }

    /// Pushes waiting windows until `patience` ends, writes the rest to the folder, and stops the thread. Without
    /// a folder the rest is dropped. A pause not demanded by the backend is shortened for one last attempt; none
    /// is started with less than half a second left.
    ///
    /// A hanging request gets one more second and is then abandoned: its window is on disk, and is sent again
    /// after a restart.
    #[must_use]
    pub fn finish(mut self, patience: Duration) -> Counts {
        self.stop(patience);
        self.shared.counts()
    }

    fn stop(&mut self, patience: Duration) {
        let Some(thread) = self.thread.take() else { return };
        let now = Instant::now();
        self.shared.stop(now.checked_add(patience).unwrap_or(now));
        if self.ended.recv_timeout(patience.saturating_add(GRACE)) != Err(RecvTimeoutError::Timeout)
        {
            // Even after a panic, the rest is in the spool.
            drop(thread.join());
        }
        let mut spool = lock(&self.shared.spool);
        self.shared.take_in(&mut spool);
        if spool.len() > 0 {
            self.shared.count(|counts| {
                let late = || "it had not answered when the agent ended".to_owned();
                counts.last_error.get_or_insert_with(late);
            });
        }
        spool.close();
        self.shared.publish(&mut spool);
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}
