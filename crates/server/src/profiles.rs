//! Pushed profiles: pprof files in a folder or bucket, by service and time, with an index in the database.
//!
//! ```text
//! push → intake (checked, divided) → files, then index → merge (ten minutes, hours), totals → retain
//!                                           ↓
//!                                read (a service, a time) → one profile
//! ```
//!
//! Several servers share both. Any of them merges and deletes, one at a time (`claim.rs`).

mod claim;
mod clock;
mod files;
mod index;
mod levels;
mod merge;
mod moving;
mod read;
mod retain;
mod tidy;
mod totals;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use tokio::{sync::Semaphore, task, time::timeout};
use uuid::Uuid;
pub use wingbeat_pprof::intake;
use wingbeat_sql::{Connection, Fault};
use wingbeat_track::store::StoreError;

use self::{
    clock::Clock,
    files::{Files, FilesError},
    intake::Part,
    levels::{Block, Level},
};
pub use self::{
    files::{Options, ProfilesPlace},
    index::{Point, Series},
    levels::Span,
    moving::{Moved, move_profiles, place_of},
    read::Reading,
    retain::Keep,
};
use crate::storage::{Storage, StorageError};

/// Name of the folder within the server's.
pub const FOLDER: &str = "profiles";

/// Maximum label sets of a project: a client with a high-cardinality label would fill the disk with folders.
const SERIES_MAX: i64 = 20_000;

/// Concurrent decompressions, and maximum queue length.
const AT_ONCE: usize = 2;
const WAITING_MAX: usize = 64;

/// Pushes that are stored at once. Most of the time they wait for the store.
const PUSHES_AT_ONCE: usize = 64;

/// How long a request waits for others.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why storing or reading profiles failed.
#[derive(Debug, thiserror::Error)]
pub enum ProfilesError {
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("the index of profiles cannot be used: {0}")]
    Sql(#[from] wingbeat_sql::Error),
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
    #[error(
        "the profiles of this database are in {known}, not in {own}: name the same place for all its servers with \
         --profiles, or move them with `wingbeat serve move-profiles`"
    )]
    OtherPlace { own: String, known: String },
    #[error("another server merges the profiles")]
    Superseded,
}

impl From<StoreError> for ProfilesError {
    fn from(error: StoreError) -> Self {
        Self::Storage(error.into())
    }
}

impl ProfilesError {
    /// Whether a later attempt may succeed without any change.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Files(_) | Self::Busy | Self::Superseded | Self::OtherPlace { .. } => true,
            Self::Sql(error) => matches!(error.fault(), Fault::Busy | Fault::Lost | Fault::Full),
            _ => false,
        }
    }
}

/// The parts of a received profile.
#[derive(Debug)]
pub struct Push {
    /// The client's ID; empty if none.
    pub id: String,
    pub parts: Vec<Part>,
}

/// A push whose files are written: each part, which no longer has its content, with path and bytes on the disk.
struct Incoming {
    id: String,
    parts: Vec<(Part, String, i64)>,
}

/// The profiles of a running server.
#[derive(Debug)]
pub struct Profiles {
    storage: Arc<Storage>,
    files: Files,
    keep: Keep,
    /// This server among those that share the profiles.
    owner: Uuid,
    /// The mark of the files' place, once it is known to be the database's.
    mark: Mutex<Option<Uuid>>,
    clock: Mutex<Clock>,
    /// When unnamed files were last looked for.
    swept: Mutex<Option<Instant>>,
    at_once: Arc<Semaphore>,
    waiting: Semaphore,
    pushes: Arc<Semaphore>,
}

impl Profiles {
    /// In a place, with the index in this database. Nothing is read or written yet.
    pub fn of(storage: Arc<Storage>, place: ProfilesPlace, keep: Keep) -> Self {
        let (mark, clock, swept) = Default::default();
        Self {
            storage,
            files: Files::at(place),
            keep,
            owner: Uuid::now_v7(),
            mark,
            clock,
            swept,
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: Semaphore::new(WAITING_MAX),
            pushes: Arc::new(Semaphore::new(PUSHES_AT_ONCE)),
        }
    }

    pub fn keep(&self) -> Keep {
        self.keep
    }

    /// Checks that the files can be read and written, and that their place is the database's.
    pub fn check(&self) -> Result<(), ProfilesError> {
        self.mark().map(drop)
    }

    /// Runs long jobs off the request threads, with limited concurrency.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ProfilesError> {
        let _waiting = self.waiting.try_acquire().map_err(|_| ProfilesError::Busy)?;
        of_pool(&self.at_once, job).await
    }

    /// Runs a job that mostly waits for the store.
    pub(crate) async fn run_push<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ProfilesError> {
        of_pool(&self.pushes, job).await
    }

    /// Stores a project's profiles atomically; returns the number of new ones. Blocks.
    pub fn put(
        &self,
        project: &str,
        pushes: Vec<Push>,
        now_ns: i64,
    ) -> Result<usize, ProfilesError> {
        let mark = self.mark()?;
        let (mut files, mut all) = (Vec::new(), Vec::new());
        for push in pushes {
            let mut parts = Vec::new();
            for mut part in push.parts {
                let content = Bytes::from(std::mem::take(&mut part.pprof));
                let span = (part.start_ns, part.start_ns + part.duration_ns);
                let path = files::path((project, &part.service, &part.name), span);
                parts.push((part, path.clone(), files::disk_bytes(content.len())));
                files.push((path, content));
            }
            all.push(Incoming { id: push.id, parts });
        }
        let paths: Vec<String> = files.iter().map(|(path, _)| path.clone()).collect();
        if let Err(error) = self.files.write(files) {
            // What cannot be removed is found later.
            let _ = self.files.remove(paths);
            return Err(error.into());
        }
        let project = project.to_owned();
        let entered = self.change(mark, move |db| enter(db, &project, &all, now_ns));
        let unused = match &entered {
            Ok((_, unused)) => unused.clone(),
            Err(ProfilesError::TooManySeries | ProfilesError::OtherPlace { .. }) => paths,
            // After a lost connection, they may be entered.
            Err(_) => Vec::new(),
        };
        if !unused.is_empty() {
            let _ = self.files.remove(unused);
        }
        Ok(entered?.0)
    }

    /// The series of a project, or of one of its services.
    pub fn series(
        &self,
        project: &str,
        service: Option<&str>,
    ) -> Result<Vec<Series>, ProfilesError> {
        self.view(|db| Ok(index::series(db, project, service)?))
    }

    /// Hourly sums of each series' primary type since an hour.
    pub fn hours(&self, project: &str, since: i64) -> Result<Vec<(i64, i64, i64)>, ProfilesError> {
        self.view(|db| Ok(index::hours(db, project, since)?))
    }

    /// Points of some series, of windows that start within the span; of series with a total, those of the total.
    pub fn points(&self, series: &[i64], span: Span) -> Result<Vec<Vec<Point>>, ProfilesError> {
        self.view(|db| {
            let Some(total) = totals::of_all(db, series)? else {
                let of_one = |id: &i64| index::points(db, *id, span);
                return Ok(series.iter().map(of_one).collect::<Result<_, _>>()?);
            };
            let after = Span { from_ns: span.from_ns.max(total.from_ns), ..span };
            let mut all = vec![index::points(db, total.id, after)?];
            let before = Span { until_ns: span.until_ns.min(total.from_ns), ..span };
            if before.from_ns < before.until_ns {
                for id in series {
                    all.push(index::points(db, *id, before)?);
                }
            }
            Ok(all)
        })
    }

    /// The time range of a project's profiles; `None` without any.
    pub fn extent(&self, project: &str) -> Result<Option<Span>, ProfilesError> {
        self.view(|db| Ok(index::extent(db, project)?))
    }

    /// Sums the profiles of series over a time range.
    pub fn read(&self, series: &[i64], span: Span, now_ns: i64) -> Result<Reading, ProfilesError> {
        self.view(|db| read::plan(db, series, span, now_ns))?.read(&self.files)
    }

    /// Rounds a span to the readable resolution.
    pub fn readable(&self, span: Span, now_ns: i64) -> Span {
        levels::readable(span, now_ns)
    }

    /// Deletes all profiles of a project.
    pub fn forget(&self, project: &str) -> Result<(), ProfilesError> {
        let project = project.to_owned();
        self.storage.write_blocking(move |database| {
            let db = database.results.connection();
            Ok(retain::forget_before(db, Some(&project), i64::MAX, now_ns())?)
        })
    }

    /// Reads one snapshot of the index.
    fn view<T>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, ProfilesError>,
    ) -> Result<T, ProfilesError> {
        self.storage.read_blocking(|database| {
            let view = database.results.connection().view()?;
            let done = job(&view)?;
            view.commit()?;
            Ok(done)
        })
    }

    /// Changes the index, unless the profiles have been moved elsewhere.
    fn change<T: Send + 'static>(
        &self,
        mark: Uuid,
        job: impl FnOnce(&Connection) -> Result<T, ProfilesError> + Send + 'static,
    ) -> Result<T, ProfilesError> {
        let own = self.files.place().to_string();
        let done = self.storage.write_blocking(move |database| {
            database.together(|database| {
                let db = database.results.connection();
                match moving::known(db)? {
                    Some((known, _)) if known == mark => job(db),
                    other => {
                        let known = other.map(|(_, place)| place).unwrap_or_default();
                        Err(ProfilesError::OtherPlace { own, known })
                    }
                }
            })
        });
        if matches!(done, Err(ProfilesError::OtherPlace { .. })) {
            // Another server may have marked the same place at the same moment.
            *self.mark.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        done
    }

    /// The mark of the files' place, which is the database's.
    fn mark(&self) -> Result<Uuid, ProfilesError> {
        let known = *self.mark.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mark) = known {
            return Ok(mark);
        }
        let mark = self.files.mark()?;
        let place = self.files.place().to_string();
        self.storage.write_blocking(move |database| {
            database.together(|database| moving::settle(database.results.connection(), mark, place))
        })?;
        *self.mark.lock().unwrap_or_else(PoisonError::into_inner) = Some(mark);
        Ok(mark)
    }
}

/// Runs a job on a thread, with limited concurrency.
async fn of_pool<T: Send + 'static>(
    pool: &Arc<Semaphore>,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ProfilesError> {
    let permit = timeout(PATIENCE, Arc::clone(pool).acquire_owned()).await;
    let Ok(Ok(permit)) = permit else { return Err(ProfilesError::Busy) };
    // The permit moves along, because the work continues after a client disconnects.
    let work = move || {
        let done = job();
        drop(permit);
        done
    };
    let done = task::spawn_blocking(work).await;
    done.map_err(|error| ProfilesError::Damaged(error.to_string()))
}

/// Enters pushes whose files are written. Returns the number of new profiles, and the files of repeated ones.
fn enter(
    db: &Connection,
    project: &str,
    all: &[Incoming],
    now_ns: i64,
) -> Result<(usize, Vec<String>), ProfilesError> {
    let (mut new, mut unused) = (0, Vec::new());
    for Incoming { id, parts } in all {
        if !id.is_empty() && index::is_seen(db, &format!("{project}/{id}"), now_ns)? {
            unused.extend(parts.iter().map(|(_, path, _)| path.clone()));
            continue;
        }
        for (part, path, bytes) in parts {
            let series = index::series_for(db, project, part, SERIES_MAX)?;
            let series = series.ok_or(ProfilesError::TooManySeries)?;
            let start_ns = part.start_ns;
            let block = Block {
                id: 0,
                series: series.id,
                start_ns,
                end_ns: start_ns + part.duration_ns,
                windows: 1,
                path: path.clone(),
            };
            let is_totalled = series.total.is_none_or(|total| start_ns < total.from_ns);
            index::add_block(db, Level::Window, &block, *bytes, is_totalled)?;
            let (duration_ns, sums) = (part.duration_ns, part.sums.clone());
            let point = Point { start_ns, duration_ns, windows: 1.0, sums };
            index::add_point(db, series.id, &point, part.shown)?;
            new += 1;
        }
    }
    Ok((new, unused))
}

/// Current time in nanoseconds since 1970.
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
