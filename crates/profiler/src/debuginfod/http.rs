//! HTTP downloads: the only part of the profiler that uses the network.

use std::{
    fs::File,
    io::{ErrorKind, Read as _, Write as _},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use wingbeat_http::{BodyReader, Cause, Error, Method, Request};

use super::{DownloadError, settings::Limits};

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

    pub(super) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    pub(super) fn time_is_up(&self) -> DownloadError {
        DownloadError::TimeIsUp { limit_s: self.limits.all.map_or(0, |all| all.as_secs()) }
    }
}

/// Connections to servers.
#[derive(Debug, Clone)]
pub(super) struct Client(wingbeat_http::Client);

impl Client {
    pub(super) fn new(limits: &Limits) -> Self {
        Self(wingbeat_http::Client::new(&wingbeat_http::Settings {
            connect: limits.stall,
            stall: limits.stall,
            redirects_max: REDIRECTS_MAX,
            ..Default::default()
        }))
    }

    /// Writes the response body to a file; `false` if the server does not have it.
    pub(super) fn get(
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
