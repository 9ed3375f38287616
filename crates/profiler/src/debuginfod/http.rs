//! HTTP downloads, several at once: the only part of the profiler that uses the network. The threads are abandoned when
//! the results are no longer wanted: a host name look-up cannot be interrupted, and the output must not wait for it.

use std::{
    fs::File,
    io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _},
    os::fd::BorrowedFd,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use wingbeat_http::{BodyReader, Cause, Error, Method, Request};

use super::{BuildId, DownloadError, Progress, cache::is_of_build, settings::Limits};

/// Minimum bytes that a server must send within [`Limits::stall`].
pub(super) const BYTES_MIN: u64 = 100_000;
/// Bytes per read.
const CHUNK: usize = 64 << 10;
/// Maximum number of redirects.
const REDIRECTS_MAX: u32 = 5;

/// State shared by all downloads.
#[derive(Debug)]
pub(super) struct Watch {
    pub limits: Limits,
    /// Deadline for all of them.
    pub deadline: Option<Instant>,
    /// Set when the results are no longer wanted.
    pub is_over: AtomicBool,
    /// Bytes received, all files together.
    pub bytes: AtomicU64,
}

impl Watch {
    pub(super) fn new(limits: Limits) -> Self {
        // A duration too long for the clock means no deadline.
        let deadline = limits.all.and_then(|all| Instant::now().checked_add(all));
        Self { limits, deadline, is_over: AtomicBool::new(false), bytes: AtomicU64::new(0) }
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn time_is_up(&self) -> DownloadError {
        DownloadError::TimeIsUp { limit_s: self.limits.all.map_or(0, |all| all.as_secs()) }
    }
}

/// Connections to servers.
#[derive(Debug, Clone)]
struct Client(wingbeat_http::Client);

impl Client {
    fn new(limits: &Limits) -> Self {
        Self(wingbeat_http::Client::new(&wingbeat_http::Settings {
            connect: limits.stall,
            stall: limits.stall,
            redirects_max: REDIRECTS_MAX,
            ..Default::default()
        }))
    }

    /// Writes the response body to a file; `false` if the server does not have it.
    fn get(
        &self,
        server: &str,
        path: &str,
        watch: &Watch,
        into: &mut File,
    ) -> Result<bool, DownloadError> {
        let url = format!("{server}{path}");
        let left = watch.deadline.map(|it| it.saturating_duration_since(Instant::now()));
        let download = self.0.open(&Request::new(Method::GET, &url), left);
        let download = download.map_err(|error| failure(server, watch, &error))?;
        match download.status {
            200 => {}
            404 => return Ok(false),
            status => return Err(DownloadError::Status { server: server.to_owned(), status }),
        }
        if download.bytes.is_some_and(|bytes| bytes > watch.limits.bytes_max) {
            return Err(too_large(server, watch));
        }
        copy(server, download.body, watch, into).map(|()| true)
    }
}

fn copy(
    server: &str,
    mut body: BodyReader<'_>,
    watch: &Watch,
    into: &mut File,
) -> Result<(), DownloadError> {
    let mut chunk = vec![0; CHUNK];
    let mut size = 0;
    let (mut since, mut received) = (Instant::now(), 0);
    loop {
        let read = match body.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(match failure(server, watch, &Error::from(error)) {
                    DownloadError::Connection { server, reason } => {
                        DownloadError::Cut { server, reason }
                    }
                    other => other,
                });
            }
        };
        (size, received) = (size + read as u64, received + read as u64);
        watch.bytes.fetch_add(read as u64, Ordering::Relaxed);
        if watch.is_over.load(Ordering::Relaxed) || watch.is_late() {
            return Err(watch.time_is_up());
        }
        if size > watch.limits.bytes_max {
            return Err(too_large(server, watch));
        }
        if let Some(stall) = watch.limits.stall.filter(|stall| since.elapsed() >= *stall) {
            if received < BYTES_MIN {
                return Err(slow(server, stall));
            }
            (since, received) = (Instant::now(), 0);
        }
        let written = chunk.get(..read).map_or(Ok(()), |read| into.write_all(read));
        written.map_err(|error| DownloadError::Cache { reason: error.to_string() })?;
    }
}

fn too_large(server: &str, watch: &Watch) -> DownloadError {
    DownloadError::TooLarge { server: server.to_owned(), max_bytes: watch.limits.bytes_max }
}

fn slow(server: &str, stall: Duration) -> DownloadError {
    DownloadError::Slow { server: server.to_owned(), stall_s: stall.as_secs() }
}

fn failure(server: &str, watch: &Watch, error: &Error) -> DownloadError {
    if watch.is_late() || error.cause == Cause::Deadline {
        return watch.time_is_up();
    }
    match watch.limits.stall {
        Some(stall) if error.cause == Cause::Timeout => slow(server, stall),
        _ => DownloadError::Connection { server: server.to_owned(), reason: error.to_string() },
    }
}

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
        let cannot_keep = |error: io::Error| DownloadError::Cache { reason: error.to_string() };
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
