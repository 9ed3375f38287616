//! Reads from a replica, with bounded staleness.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use wingbeat_sql::PostgresUrl;

use super::{Databases, StorageError, readers::Readers, source::Source, view::Position};

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
        J: FnOnce(&Databases) -> Result<T, E> + Send + 'static,
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
            .run(move |databases| {
                if !databases.registry.has_replayed(at_least)? {
                    return Ok(None);
                }
                is_missing.store(false, Ordering::Relaxed);
                let job = own.lock().unwrap_or_else(PoisonError::into_inner).take();
                Ok::<_, StorageError>(job.map(|job| job(databases)))
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
}
