//! A thread that pushes windows to one target. Who offers a window never waits for it.
//!
//! `offer` puts a window into the inbox, under a lock that nobody holds for long, and if there is a folder writes it down.
//! The thread moves it to the spool and sends the oldest; during a request nobody holds the spool, so that [`Pusher::finish`] can write it down and leave even
//! when an engine hangs.

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

/// What a thread needs to notice that its time is over, on a machine that is busy.
const GRACE: Duration = Duration::from_secs(1);

/// How a pusher waits and how much it keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushOptions {
    /// Where windows wait while the engine is down, in a folder of the target's own below this one. Without it they
    /// wait in memory, and do not outlive the process.
    pub folder: Option<PathBuf>,
    /// What waits at most, in bytes; the oldest is dropped then.
    pub bytes_max: u64,
    /// Windows in memory at most, if there is a folder.
    pub memory_windows_max: usize,
    /// Pause after the first failure; each further one is twice as long. Up to half of it is left out by chance.
    pub pause_min: Duration,
    pub pause_max: Duration,
    /// Time until there is a connection.
    pub connect: Duration,
    /// Time for a whole request, answer included.
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

/// What became of the windows. A window of more than 2 MiB is handed over in parts, and each counts.
///
/// `offered + restored` is `pushed + rejected + dropped + damaged + waiting`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that were offered, without empty ones.
    pub offered: u64,
    /// Those that an earlier process left in the folder.
    pub restored: u64,
    /// Those that the engine took.
    pub pushed: u64,
    /// Attempts that failed and were, or will be, repeated.
    pub retries: u64,
    /// Those that the engine refused, or that could not be put into its words.
    pub rejected: u64,
    /// Those for which there was no room.
    pub dropped: u64,
    /// Those whose file in the folder was damaged.
    pub damaged: u64,
    pub waiting: u64,
    /// About what the waiting ones take.
    pub waiting_bytes: u64,
    /// Why the last one that failed did, in one sentence. It stays when later ones succeed.
    pub last_error: Option<String>,
}

/// A thread that pushes windows to one target. Dropped, it stops as [`Pusher::finish`] without patience.
///
/// The oldest goes first. One that the engine fails at each time is sent again until there is no room for it.
#[derive(Debug)]
pub struct Pusher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Is closed when the thread ends.
    ended: Receiver<()>,
}

impl Pusher {
    /// Starts the thread, which begins with what an earlier process left in the folder.
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

    /// Takes a window without waiting for the engine: into memory, or if there is a folder to disk. If too much waits, the oldest is dropped, and counted.
    pub fn offer(&self, window: &Arc<Window>) {
        let parts = window.parts(PART_BYTES_MAX);
        if !parts.is_empty() {
            self.shared.offer(parts);
        }
    }

    /// What became of the windows until now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// The same at any later time, also for others than the owner.
    pub fn counter(&self) -> impl Fn() -> Counts + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.counts()
    }

    /// Pushes what still waits as long as patience lasts, writes the rest to the folder, and ends the thread. Without a
    /// folder the rest is dropped. A pause that the engine did not demand is cut short for one last attempt; none is
    /// begun when less than half a second is left.
    ///
    /// A request that hangs is given a second more, and left to itself then: what it carries is on disk, and is sent again
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
            // Whether it panicked or not, what it left is in the spool.
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
