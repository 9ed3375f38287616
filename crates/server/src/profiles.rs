//! Pushed profiles: pprof files next to the database, by service and time.
//!
//! ```text
//! push → intake (checked, divided) → files + index → merge (ten minutes, hours) → retain
//!                                         ↓
//!                              read (a service, a time) → one profile
//! ```
//!
//! With several servers, profiles stay on the server that received them: they are not in the database.

mod clock;
mod files;
mod index;
mod levels;
mod merge;
mod read;
mod retain;

use std::{
    collections::{BTreeSet, HashSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use rusqlite::{Connection, OptionalExtension as _};
use tokio::{sync::Semaphore, task};
pub use wingbeat_pprof::intake;

use self::{
    clock::Clock,
    intake::Part,
    levels::{Block, Level},
};
pub use self::{
    index::{Point, Series},
    levels::Span,
    read::Reading,
    retain::Keep,
};

/// Name of the folder within the server's.
pub const FOLDER: &str = "profiles";

/// Maximum label sets of a project: a client with a high-cardinality label would fill the disk with folders.
const SERIES_MAX: i64 = 20_000;

/// Concurrent decompressions, and maximum queue length.
const AT_ONCE: usize = 2;
const WAITING_MAX: usize = 64;

/// Why storing or reading profiles failed.
#[derive(Debug, thiserror::Error)]
pub enum ProfilesError {
    #[error("the folder of profiles cannot be used: {0}")]
    Io(#[from] io::Error),
    #[error("the index of profiles cannot be used: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("a profile is damaged: {0}")]
    Damaged(String),
    #[error(
        "the project has the maximum of {SERIES_MAX} label sets with profiles: leave out labels with many values"
    )]
    TooManySeries,
    #[error(
        "this needs {files} files of at most {most}: choose a shorter time range, or fewer hosts by a label"
    )]
    TooMuch { files: usize, most: usize },
    #[error("too many profiles are waiting")]
    Busy,
}

/// The parts of a received profile.
#[derive(Debug)]
pub struct Push {
    /// The client's ID; empty if none.
    pub id: String,
    pub parts: Vec<Part>,
}

/// The profiles of a running server.
#[derive(Debug)]
pub struct Profiles {
    folder: PathBuf,
    keep: Keep,
    /// The write connection, opened on first use so that servers without profiles create no folder.
    writer: Mutex<Option<Connection>>,
    clock: Mutex<Clock>,
    at_once: Arc<Semaphore>,
    waiting: Semaphore,
}

impl Profiles {
    /// For the data folder of a server.
    pub fn of(data: &Path, keep: Keep) -> Self {
        Self {
            folder: data.join(FOLDER),
            keep,
            writer: Mutex::new(None),
            clock: Mutex::default(),
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: Semaphore::new(WAITING_MAX),
        }
    }

    pub fn keep(&self) -> Keep {
        self.keep
    }

    /// Runs long jobs off the request threads, with limited concurrency.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ProfilesError> {
        let busy = |_| ProfilesError::Busy;
        let _waiting = self.waiting.try_acquire().map_err(busy)?;
        let permit = Arc::clone(&self.at_once).acquire_owned().await;
        let permit = permit.map_err(|_| ProfilesError::Busy)?;
        // The permit moves along, because the work continues after a client disconnects.
        let work = move || {
            let done = job();
            drop(permit);
            done
        };
        let done = task::spawn_blocking(work).await;
        done.map_err(|error| ProfilesError::Damaged(error.to_string()))
    }

    /// Stores a project's profiles atomically; returns the number of new ones.
    pub fn put(&self, project: &str, pushes: &[Push], now_ns: i64) -> Result<usize, ProfilesError> {
        let mut writer = self.writer()?;
        let connection = opened(&mut writer)?;
        let transaction = connection.transaction()?;
        let mut written = Vec::new();
        let put = self.put_all(&transaction, project, pushes, now_ns, &mut written);
        match put.and_then(|new| Ok(transaction.commit().map(|()| new)?)) {
            Ok(new) => Ok(new),
            Err(error) => {
                written.iter().for_each(|path| files::remove(&self.folder.join(path)));
                Err(error)
            }
        }
    }

    fn put_all(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        project: &str,
        pushes: &[Push],
        now_ns: i64,
        written: &mut Vec<String>,
    ) -> Result<usize, ProfilesError> {
        let mut new = 0;
        let mut id = index::next_block(transaction)?;
        for push in pushes {
            let name = format!("{project}/{}", push.id);
            if !push.id.is_empty() && index::is_seen(transaction, &name, now_ns)? {
                continue;
            }
            for part in &push.parts {
                let series = index::series_for(transaction, project, part, SERIES_MAX)?;
                let series = series.ok_or(ProfilesError::TooManySeries)?;
                let (start_ns, end_ns) = (part.start_ns, part.start_ns + part.duration_ns);
                let about = (project, part.service.as_str(), part.name.as_str());
                let path = files::path(about, (start_ns, end_ns), id);
                written.push(path.clone());
                let bytes = files::write(&self.folder, &path, &part.pprof)?;
                let block = Block { id, series, start_ns, end_ns, windows: 1, path };
                index::add_block(transaction, Level::Window, &block, bytes)?;
                let point =
                    Point { start_ns, duration_ns: part.duration_ns, sums: part.sums.clone() };
                index::add_point(transaction, series, &point, part.shown)?;
                (id, new) = (id + 1, new + 1);
            }
        }
        Ok(new)
    }

    /// The series of a project, or of one of its services.
    pub fn series(
        &self,
        project: &str,
        service: Option<&str>,
    ) -> Result<Vec<Series>, ProfilesError> {
        match self.reader()? {
            Some(reader) => Ok(index::series(&reader, project, service)?),
            None => Ok(Vec::new()),
        }
    }

    /// Hourly sums of each series' primary type since an hour.
    pub fn hours(&self, project: &str, since: i64) -> Result<Vec<(i64, i64, i64)>, ProfilesError> {
        match self.reader()? {
            Some(reader) => Ok(index::hours(&reader, project, since)?),
            None => Ok(Vec::new()),
        }
    }

    /// Points of some series, of windows that start within the span.
    pub fn points(&self, series: &[i64], span: Span) -> Result<Vec<Vec<Point>>, ProfilesError> {
        let Some(reader) = self.reader()? else { return Ok(vec![Vec::new(); series.len()]) };
        let of_one = |id: &i64| index::points(&reader, *id, span.from_ns, span.until_ns);
        Ok(series.iter().map(of_one).collect::<Result<_, _>>()?)
    }

    /// The time range of a project's profiles; `None` without any.
    pub fn extent(&self, project: &str) -> Result<Option<Span>, ProfilesError> {
        let Some(reader) = self.reader()? else { return Ok(None) };
        Ok(index::extent(&reader, project)?)
    }

    /// Sums the profiles of series over a time range.
    pub fn read(&self, series: &[i64], span: Span, now_ns: i64) -> Result<Reading, ProfilesError> {
        let Some(reader) = self.reader()? else {
            return Ok(Reading {
                profile: None,
                span,
                files: 0,
                series: 0,
                windows: 0,
                damaged: 0,
            });
        };
        let reading = read::read(&self.folder, &reader, series, span, now_ns)?;
        match reading.damaged {
            0 => Ok(reading),
            // A merge may have replaced it in the meantime.
            _ => read::read(&self.folder, &reader, series, span, now_ns),
        }
    }

    /// Rounds a span to the readable resolution.
    pub fn readable(&self, span: Span, now_ns: i64) -> Span {
        levels::readable(span, now_ns)
    }

    /// Merges completed periods, and deletes what exceeds the age or size limit.
    pub fn tidy(&self, now_ns: i64) -> Result<(), ProfilesError> {
        self.tidy_at(now_ns, Instant::now())
    }

    fn tidy_at(&self, now_ns: i64, at: Instant) -> Result<(), ProfilesError> {
        let Some(reader) = self.reader()? else { return Ok(()) };
        for level in [Level::TenMinutes, Level::Hour] {
            for wanted in merge::wanted(&reader, level, now_ns)? {
                // A failed merge, for example on a full disk, does not prevent deletion.
                if let Err(error) = self.merge(&reader, wanted) {
                    tracing::warn!("merging profiles failed, will be retried: {error}");
                }
            }
        }
        self.change(|transaction| merge::drop_old_windows(transaction, now_ns))?;
        let is_credible = {
            let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
            clock.is_credible(now_ns, at, index::newest_ns(&reader)?)
        };
        if is_credible {
            let oldest_ns = self.keep.oldest_ns(now_ns);
            self.change(|transaction| retain::forget_before(transaction, None, oldest_ns))?;
        }
        for project in projects(&reader)? {
            if let Some(limit_ns) = retain::too_much(&reader, &project, self.keep.bytes)? {
                self.change(|transaction| {
                    retain::forget_before(transaction, Some(&project), limit_ns)
                })?;
            }
        }
        self.change(|transaction| {
            retain::forget_empty(transaction)?;
            if is_credible {
                retain::forget_seen(transaction, now_ns)?;
            }
            Ok(Vec::new())
        })
    }

    /// Deletes all profiles of a project.
    pub fn forget(&self, project: &str) -> Result<(), ProfilesError> {
        if self.reader()?.is_none() {
            return Ok(());
        }
        self.change(|transaction| retain::forget_before(transaction, Some(project), i64::MAX))
    }

    fn merge(&self, reader: &Connection, wanted: merge::Wanted) -> Result<(), ProfilesError> {
        let sources = merge::sources(reader, wanted)?;
        let (bytes, windows) = sources.sum(&self.folder)?;
        let Some(about) = about(reader, &sources)? else { return Ok(()) };
        let about = (about.0.as_str(), about.1.as_str(), about.2.as_str());
        self.change(|transaction| {
            sources.replace(transaction, &self.folder, about, (&bytes, windows))
        })
    }

    /// Updates the index, and deletes files that it no longer names.
    fn change(
        &self,
        job: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<Vec<String>, ProfilesError>,
    ) -> Result<(), ProfilesError> {
        let mut writer = self.writer()?;
        let transaction = opened(&mut writer)?.transaction()?;
        let gone = job(&transaction)?;
        transaction.commit()?;
        drop(writer);
        gone.iter().for_each(|path| files::remove(&self.folder.join(path)));
        Ok(())
    }

    /// The write connection; creates and cleans the folder on first use.
    fn writer(&self) -> Result<MutexGuard<'_, Option<Connection>>, ProfilesError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.is_none() {
            fs::create_dir_all(&self.folder)?;
            let connection = index::open(&self.folder)?;
            let named = index::blocks(&connection, "TRUE", &[])?;
            let named: HashSet<String> = named.into_iter().map(|block| block.path).collect();
            files::remove_unnamed(&self.folder, &named)?;
            *writer = Some(connection);
        }
        Ok(writer)
    }

    /// A read connection; `None` if nothing was ever pushed.
    fn reader(&self) -> Result<Option<Connection>, ProfilesError> {
        match self.folder.join(files::INDEX).exists() {
            true => Ok(Some(index::reader(&self.folder)?)),
            false => Ok(None),
        }
    }
}

fn opened(writer: &mut Option<Connection>) -> Result<&mut Connection, ProfilesError> {
    writer.as_mut().ok_or(ProfilesError::Busy)
}

/// Project, service and kind of a merge.
fn about(
    reader: &Connection,
    sources: &merge::Sources,
) -> Result<Option<(String, String, String)>, ProfilesError> {
    let sql = "SELECT project, service, name FROM series WHERE id = ?1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    Ok(reader.query_row(sql, [sources.series()], read).optional()?)
}

fn projects(reader: &Connection) -> Result<BTreeSet<String>, ProfilesError> {
    let mut statement = reader.prepare("SELECT DISTINCT project FROM series")?;
    let all = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>();
    Ok(all?)
}

/// Current time in nanoseconds since 1970.
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
