//! Reads: a pool of connections, each used by one request at a time, and a replica with bounded staleness.
//!
//! A replica typically lags by milliseconds. After a change on a page, the browser gets a cookie with its position in
//! the primary's log, and pages read from the replica only once it has replayed that position; until then, and while it
//! is unreachable, they read from the primary.

use std::{
    collections::VecDeque,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, HeaderValue, header};
use tokio::{sync::Semaphore, task, time::timeout};
use wingbeat_sql::PostgresUrl;

use super::{Database, Source, StorageError};

/// Maximum idle connections.
const IDLE_MAX: usize = 8;

/// Maximum concurrent connections. A PostgreSQL server has 100 by default, for all its clients.
const AT_ONCE: usize = 16;

/// How long a request waits for a connection.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub(super) struct Readers {
    source: Source,
    idle: Arc<Mutex<Vec<Database>>>,
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
        job: impl FnOnce(&Database) -> Result<T, E> + Send + 'static,
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
            let database = readers.take()?;
            let answer = job(&database);
            readers.give_back(database);
            answer
        };
        match task::spawn_blocking(work).await {
            Ok(answer) => answer,
            Err(_) => Err(StorageError::Stopping.into()),
        }
    }

    /// The same on this thread, which may block. The caller bounds how many do so at once.
    pub(super) fn run_blocking<T, E: From<StorageError>>(
        &self,
        job: impl FnOnce(&Database) -> Result<T, E>,
    ) -> Result<T, E> {
        let database = self.take()?;
        let answer = job(&database);
        self.give_back(database);
        answer
    }

    fn take(&self) -> Result<Database, StorageError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| self.source.open(), Ok)
    }

    pub(super) fn close_idle(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.len().min(1);
        let unused = idle.split_off(kept);
        for database in &idle[..] {
            // Failure is harmless.
            let _ = database.results.release_memory();
        }
        drop(idle);
        drop(unused);
    }

    fn give_back(&self, database: Database) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(database);
        }
    }
}

/// Maximum replication lag for reads.
const BEHIND_MAX: Duration = Duration::from_secs(10);

/// Minimum interval between recorded positions.
const APART: Duration = Duration::from_secs(1);

/// A replica, and the writes to its primary.
#[derive(Debug)]
pub(super) struct Replica {
    readers: Readers,
    written: Mutex<Written>,
    is_missing: Arc<AtomicBool>,
}

/// Log positions of a primary after this server's writes.
#[derive(Debug, Default)]
struct Written {
    /// The newest position older than the maximum lag.
    old: Position,
    /// Newer ones with their times, oldest first.
    recent: VecDeque<(Instant, Position)>,
}

impl Replica {
    pub(super) fn of(url: &PostgresUrl) -> Self {
        Self {
            readers: Readers::of(Source::Postgres(url.clone())),
            written: Mutex::default(),
            is_missing: Arc::default(),
        }
    }

    /// Records a write to the primary.
    pub(super) fn note(&self, position: Position) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.note(Instant::now(), position);
    }

    /// The newest recorded position.
    pub(super) fn newest(&self) -> Position {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.recent.back().map_or(written.old, |(_, position)| *position)
    }

    /// Runs a job on the replica if it is reachable and has replayed a position; returns the job otherwise.
    pub(super) async fn run<T, E, J>(&self, at_least: Position, job: J) -> Result<Result<T, E>, J>
    where
        T: Send + 'static,
        E: From<StorageError> + Send + 'static,
        J: FnOnce(&Database) -> Result<T, E> + Send + 'static,
    {
        let old = {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            written.old(Instant::now())
        };
        let at_least = at_least.max(old);
        let job = Arc::new(Mutex::new(Some(job)));
        let own = Arc::clone(&job);
        let is_missing = Arc::clone(&self.is_missing);
        // The job is taken if the replica has replayed far enough.
        let ran = self
            .readers
            .run(move |database| {
                if !database.has_replayed(at_least)? {
                    return Ok(None);
                }
                is_missing.store(false, Ordering::Relaxed);
                let job = own.lock().unwrap_or_else(PoisonError::into_inner).take();
                Ok::<_, StorageError>(job.map(|job| job(database)))
            })
            .await;
        match ran {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) => {}
            Err(error) => self.miss(&error),
        }
        let left = job.lock().unwrap_or_else(PoisonError::into_inner).take();
        match left {
            Some(job) => Err(job),
            None => Ok(Err(StorageError::Lost.into())),
        }
    }

    /// Logs once that the replica is unavailable.
    fn miss(&self, error: &StorageError) {
        if !self.is_missing.swap(true, Ordering::Relaxed) {
            tracing::warn!("the replica cannot be read, so pages read from the primary: {error}");
        }
    }

    pub(super) fn close_idle(&self) {
        self.readers.close_idle();
    }
}

impl Written {
    fn note(&mut self, now: Instant, position: Position) {
        match self.recent.back_mut() {
            Some((time, last)) if now.duration_since(*time) < APART => *last = position.max(*last),
            _ => self.recent.push_back((now, position)),
        }
    }

    /// Position that a replica must have replayed.
    fn old(&mut self, now: Instant) -> Position {
        while let Some((time, position)) = self.recent.front().copied() {
            if now.duration_since(time) < BEHIND_MAX {
                break;
            }
            self.old = self.old.max(position);
            self.recent.pop_front();
        }
        self.old
    }
}

tokio::task_local! {
    static REPLICA: Position;
}

/// A log position of a primary. 0 is before everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Position(pub(crate) u64);

/// Cookie with the position of a browser's last write.
const COOKIE: &str = "wingbeat-written";

/// Lifetime of the cookie in seconds. A replica with a larger lag is not used at all.
const COOKIE_AGE_S: u64 = 60;

/// Allows reads from a replica that has replayed a position.
pub(crate) async fn of_replica<T>(at_least: Position, work: impl Future<Output = T>) -> T {
    REPLICA.scope(at_least, work).await
}

/// Position that the replica must have replayed; none to read from the primary.
pub(super) fn replica_position() -> Option<Position> {
    REPLICA.try_with(|at_least| *at_least).ok()
}

impl Position {
    /// The position in a browser's cookie.
    pub(crate) fn of_cookie(headers: &HeaderMap) -> Self {
        let values = headers.get_all(header::COOKIE).into_iter().filter_map(|it| it.to_str().ok());
        let mut pairs =
            values.flat_map(|value| value.split(';')).filter_map(|it| it.split_once('='));
        let found = pairs.find(|(name, _)| name.trim() == COOKIE);
        let number = found.and_then(|(_, text)| u64::from_str_radix(text.trim(), 16).ok());
        Self(number.unwrap_or_default())
    }

    /// `Set-Cookie` header with the position.
    pub(crate) fn cookie(self) -> Option<HeaderValue> {
        let number = self.0;
        let text =
            format!("{COOKIE}={number:x}; Path=/; Max-Age={COOKIE_AGE_S}; HttpOnly; SameSite=Lax");
        HeaderValue::from_str(&text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_must_have_what_is_old() {
        let mut written = Written::default();
        let begin = Instant::now();
        let at = |seconds: f64| begin + Duration::from_secs_f64(seconds);
        written.note(at(0.0), Position(1));
        written.note(at(0.5), Position(2));
        written.note(at(2.0), Position(3));
        assert_eq!(written.old(at(9.0)), Position(0));
        assert_eq!(written.old(at(10.5)), Position(2));
        assert_eq!(written.old(at(12.5)), Position(3));
        assert!(written.recent.is_empty());
        assert_eq!(written.old(at(99.0)), Position(3));
    }

    #[test]
    fn a_cookie_comes_back() {
        let check = |sent: &str, expected: u64| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, sent.parse().expect("a value"));
            assert_eq!(Position::of_cookie(&headers), Position(expected), "{sent}");
        };
        let sent = Position(0x1_2ab0_0001).cookie().expect("a header");
        let sent = sent.to_str().expect("text").split(';').next().expect("a pair").to_owned();
        check(&format!("wingbeat=SECRET; {sent}"), 0x1_2ab0_0001);
        check("wingbeat=SECRET", 0);
        check("wingbeat-written=made up", 0);
    }

    #[tokio::test]
    async fn replicas_are_read_only_where_replica_position() {
        assert_eq!(replica_position(), None);
        assert_eq!(of_replica(Position(7), async { replica_position() }).await, Some(Position(7)));
    }
}
