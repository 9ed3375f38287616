//! Downloads several files at once. The threads are abandoned when the results are no longer wanted: a host name
//! look-up cannot be interrupted, and the output must not wait for it.

use std::{
    fs::File,
    io::{Seek as _, SeekFrom},
    os::fd::BorrowedFd,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::{
    BuildId, DownloadError, Progress,
    cache::is_of_build,
    http::{Client, Watch},
};

/// Number of parallel downloads.
const AT_ONCE: usize = 4;
/// Interval of checks for cancellation.
const LOOK: Duration = Duration::from_millis(50);

/// A file to download.
#[derive(Debug)]
pub(super) struct Job {
    pub index: usize,
    pub id: BuildId,
    /// Empty, to be written.
    pub into: File,
}

/// A server, and the error since which it is not asked.
#[derive(Debug)]
struct Server {
    url: String,
    is_down: OnceLock<DownloadError>,
}

/// State shared by the threads.
#[derive(Debug)]
struct Shared {
    /// The last is taken first.
    jobs: Mutex<Vec<Job>>,
    servers: Vec<Server>,
    client: Client,
    watch: Arc<Watch>,
}

type Settled = (usize, Result<bool, DownloadError>);

/// Running threads.
#[derive(Debug)]
pub(super) struct Workers {
    files: usize,
    settled: Receiver<Settled>,
    watch: Arc<Watch>,
}

impl Workers {
    /// Starts the downloads, in order.
    pub(super) fn start(mut jobs: Vec<Job>, servers: &[String], watch: &Arc<Watch>) -> Self {
        let files = jobs.len();
        jobs.reverse();
        let server = |url: &String| Server { url: url.clone(), is_down: OnceLock::new() };
        let (sender, settled) = channel();
        if files > 0 {
            let shared = Arc::new(Shared {
                jobs: Mutex::new(jobs),
                servers: servers.iter().map(server).collect(),
                client: Client::new(&watch.limits),
                watch: Arc::clone(watch),
            });
            for _ in 0..files.min(AT_ONCE) {
                let (shared, sender) = (Arc::clone(&shared), sender.clone());
                // Without threads there are no results, and each file is reported as such.
                let _ = thread::Builder::new().spawn(move || shared.work(&sender));
            }
        }
        Self { files, settled, watch: Arc::clone(watch) }
    }

    /// Calls `settle` for each finished file until all are, the time is up, or `stop` becomes readable. Returns
    /// the reason why the others are unfinished.
    pub(super) fn wait(
        self,
        stop: BorrowedFd<'_>,
        progress: &mut dyn FnMut(Progress),
        settle: &mut dyn FnMut(usize, Result<bool, DownloadError>),
    ) -> DownloadError {
        let mut done = 0;
        let why = loop {
            if done == self.files {
                break DownloadError::Interrupted;
            }
            let bytes = self.watch.bytes.load(Ordering::Relaxed);
            progress(Progress { done, files: self.files, bytes });
            match self.settled.recv_timeout(LOOK) {
                Ok((index, result)) => {
                    done += 1;
                    settle(index, result);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break DownloadError::Interrupted,
            }
            if is_readable(stop) {
                break DownloadError::Interrupted;
            }
            if self.watch.is_late() {
                break self.watch.time_is_up();
            }
        };
        if done < self.files {
            self.watch.is_over.store(true, Ordering::Relaxed);
        }
        why
    }
}

impl Shared {
    fn work(&self, sender: &Sender<Settled>) {
        while !self.watch.is_over.load(Ordering::Relaxed) {
            let job = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(Job { index, id, mut into }) = job else { return };
            let result = self.download(&id, &mut into);
            if sender.send((index, result)).is_err() {
                return;
            }
        }
    }

    /// Asks the servers in order; `false` if none has it.
    fn download(&self, id: &BuildId, into: &mut File) -> Result<bool, DownloadError> {
        let mut failure = None;
        for server in &self.servers {
            match self.ask(server, id, into) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
        failure.map_or(Ok(false), Err)
    }

    fn ask(&self, server: &Server, id: &BuildId, into: &mut File) -> Result<bool, DownloadError> {
        if let Some(why) = server.is_down.get() {
            return Err(why.clone());
        }
        let cannot_keep =
            |error: std::io::Error| DownloadError::Cache { reason: error.to_string() };
        // Discards a partial download from another server.
        into.set_len(0).and_then(|()| into.seek(SeekFrom::Start(0))).map_err(cannot_keep)?;
        let url = &server.url;
        let result = self.client.get(url, &format!("/buildid/{id}/debuginfo"), &self.watch, into);
        if let Err(error @ (DownloadError::Connection { .. } | DownloadError::Slow { .. })) =
            &result
        {
            // Further requests would take as long.
            let _ = server.is_down.set(error.clone());
        }
        match result? {
            true if !is_of_build(into, id) => Err(DownloadError::Foreign { server: url.clone() }),
            is_found => Ok(is_found),
        }
    }
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    match poll(&mut fds, Some(&now)) {
        Ok(ready) => ready > 0,
        Err(Errno::INTR) => false,
        Err(_) => true,
    }
}
