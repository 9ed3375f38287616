//! Files of profiles in an object store: a folder, or a bucket that several servers share.
//!
//! Callers block; the requests run on a runtime of their own, several at once, and each within a time limit. A store
//! that just failed is not asked again for a moment, so that it holds up no page and no push.

mod error;
mod http;
mod name;
mod place;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::{Error, ObjectStore, ObjectStoreExt as _, PutPayload, path::Path};
use time::OffsetDateTime;
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::mpsc as channel,
};
use uuid::Uuid;

pub use self::place::{Options, ProfilesPlace};
pub(super) use self::{
    error::FilesError,
    name::{disk_bytes, path},
};
use self::{error::late, name::SUFFIX};

/// Requests at once.
const AT_ONCE: usize = 32;

/// Time limit of an operation on one file, with its retries, and of reading all files of a page.
const OPERATION: Duration = Duration::from_secs(10);
const READING: Duration = Duration::from_secs(15);

/// After as many failures in a row, the store counts as down for a moment.
const FAILURES_MAX: usize = 8;
const DOWN: Duration = Duration::from_secs(3);

/// Name of the file that identifies a store.
const MARK: &str = "wingbeat-profiles";

/// The files.
pub(super) struct Files {
    place: ProfilesPlace,
    store: Mutex<Option<Arc<dyn ObjectStore>>>,
    runtime: Mutex<Option<Runtime>>,
    failed: Arc<Mutex<Option<Instant>>>,
}

/// A file that was asked for: its index in the request, and its content.
pub(super) type Fetched = (usize, Result<Bytes, FilesError>);

impl Files {
    pub(super) fn at(place: ProfilesPlace) -> Self {
        let (store, runtime, failed) = Default::default();
        Self { place, store, runtime, failed }
    }

    pub(super) fn place(&self) -> &ProfilesPlace {
        &self.place
    }

    /// Reads the mark of the store, or makes one. Fails if the store cannot be read or written.
    pub(super) fn mark(&self) -> Result<Uuid, FilesError> {
        let found = match self.one(&Path::from(MARK)) {
            Err(error) if error.is_missing => None,
            found => Some(found?),
        };
        let parse = |bytes: Bytes| Uuid::try_parse(std::str::from_utf8(&bytes).ok()?.trim()).ok();
        let mark = found.and_then(parse).unwrap_or_else(Uuid::now_v7);
        // Also if it is there: a store that is read only must not be noticed at the first push.
        self.write(vec![(MARK.to_owned(), Bytes::from(format!("{mark}\n")))])?;
        Ok(mark)
    }

    /// Fails unless the mark is there: a folder that is not mounted has no files either.
    pub(super) fn find_mark(&self) -> Result<(), FilesError> {
        self.one(&Path::from(MARK)).map(drop)
    }

    /// Writes files, or fails with the first error; some may then be there.
    pub(super) fn write(&self, files: Vec<(String, Bytes)>) -> Result<(), FilesError> {
        let (store, failed) = (self.store()?, Arc::clone(&self.failed));
        self.check_up("writing")?;
        let place = self.place.to_string();
        let write = async move {
            let put = |(path, bytes): (String, Bytes)| {
                let store = Arc::clone(&store);
                let payload = PutPayload::from_bytes(bytes);
                async move { in_time(store.put(&parsed(&path)?, payload)).await.map(drop) }
            };
            let all = stream::iter(files).map(put).buffer_unordered(AT_ONCE);
            let done = all.try_collect::<Vec<()>>().await.map(drop);
            done.map_err(|error| {
                let error = FilesError::of(&place, "writing a profile", &error);
                if error.is_down {
                    note(&failed);
                }
                error
            })
        };
        self.wait(write)?
    }

    /// Fetches files in any order, and passes each on as soon as it is there. All are passed on: those that cannot be
    /// fetched in time as errors.
    pub(super) fn fetch(
        &self,
        paths: Vec<String>,
    ) -> Result<channel::Receiver<Fetched>, FilesError> {
        let (store, failed) = (self.store()?, Arc::clone(&self.failed));
        let is_down = self.check_up("reading").err();
        let place = self.place.to_string();
        let (fetched, all) = channel::channel(AT_ONCE);
        let begin = Instant::now();
        let read = async move {
            let (store, place, failed) = (&store, &place, &failed);
            let get = |(number, path): (usize, String)| {
                let is_down = is_down.clone();
                async move {
                    if let Some(down) = is_down {
                        return (number, Err(down));
                    }
                    let is_late = begin.elapsed() > READING || is_recent(failed, begin);
                    let found = match is_late {
                        true => Err(late()),
                        false => in_time(content(store, &path)).await,
                    };
                    (
                        number,
                        found.map_err(|error| FilesError::of(place, "reading a profile", &error)),
                    )
                }
            };
            let files = paths.into_iter().enumerate();
            let mut files = stream::iter(files).map(get).buffer_unordered(AT_ONCE);
            let mut failures = 0;
            while let Some(one) = files.next().await {
                let is_failure = one.1.as_ref().is_err_and(|error| error.is_down);
                failures = if is_failure { failures + 1 } else { 0 };
                if failures == FAILURES_MAX {
                    note(failed);
                }
                if fetched.send(one).await.is_err() {
                    // Nobody waits for the rest.
                    break;
                }
            }
        };
        self.handle()?.spawn(read);
        Ok(all)
    }

    /// All files, in their order. `None` for those that are not there.
    pub(super) fn all(&self, paths: &[String]) -> Result<Vec<Option<Bytes>>, FilesError> {
        let mut all = vec![None; paths.len()];
        let mut fetched = self.fetch(paths.to_vec())?;
        while let Some((number, content)) = fetched.blocking_recv() {
            match content {
                Ok(content) => all[number] = Some(content),
                Err(error) if error.is_missing => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// One file.
    fn one(&self, path: &Path) -> Result<Bytes, FilesError> {
        let (store, path, place) = (self.store()?, path.to_string(), self.place.to_string());
        self.wait(async move {
            let found = in_time(content(&store, &path)).await;
            found.map_err(|error| FilesError::of(&place, "reading", &error))
        })?
    }

    /// Deletes files; returns those that are gone.
    pub(super) fn remove(&self, paths: Vec<String>) -> Result<Vec<String>, FilesError> {
        let store = self.store()?;
        self.check_up("deleting")?;
        self.wait(async move {
            let delete = |path: String| {
                let store = Arc::clone(&store);
                async move {
                    let gone = match parsed(&path) {
                        Ok(parsed) => in_time(store.delete(&parsed)).await,
                        Err(error) => Err(error),
                    };
                    match gone {
                        Ok(()) | Err(Error::NotFound { .. }) => Some(path),
                        Err(error) => {
                            tracing::warn!("cannot delete {path}, will be retried: {error}");
                            None
                        }
                    }
                }
            };
            let all = stream::iter(paths).map(delete).buffer_unordered(AT_ONCE);
            all.filter_map(|gone| async move { gone }).collect().await
        })
    }

    /// Passes on path and age in seconds of all files that are profiles.
    pub(super) fn each(
        &self,
        mut one: impl FnMut(String, i64) + Send + 'static,
    ) -> Result<(), FilesError> {
        let (store, place) = (self.store()?, self.place.to_string());
        self.wait(async move {
            let mut files = store.list(None);
            while let Some(file) = files.next().await {
                let file =
                    file.map_err(|error| FilesError::of(&place, "listing profiles", &error))?;
                let path = file.location.to_string();
                if path.ends_with(SUFFIX) {
                    let age =
                        OffsetDateTime::now_utc().unix_timestamp() - file.last_modified.timestamp();
                    one(path, age);
                }
            }
            Ok(())
        })?
    }

    fn store(&self) -> Result<Arc<dyn ObjectStore>, FilesError> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &*store {
            return Ok(Arc::clone(store));
        }
        // A folder is made when it is needed.
        let opened = self.place.open();
        let opened =
            opened.map_err(|error| FilesError::of(&self.place, "opening the profiles", &error))?;
        *store = Some(Arc::clone(&opened));
        Ok(opened)
    }

    fn check_up(&self, doing: &'static str) -> Result<(), FilesError> {
        let failed = *self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match failed.is_some_and(|at| at.elapsed() < DOWN) {
            true => Err(FilesError::of(&self.place, doing, &late())),
            false => Ok(()),
        }
    }

    /// Runs requests, and waits for their result on this thread.
    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, FilesError> {
        let (done, answer) = mpsc::sync_channel(1);
        self.handle()?.spawn(async move { drop(done.send(work.await)) });
        let stopped = |_| FilesError::of(&self.place, "a request", &"it was cut off");
        answer.recv().map_err(stopped)
    }

    fn handle(&self) -> Result<Handle, FilesError> {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &*runtime {
            return Ok(runtime.handle().clone());
        }
        let made = Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(2 * AT_ONCE)
            .thread_name("profiles")
            .enable_time()
            .build();
        let made = made.map_err(|error| FilesError::of(&self.place, "starting threads", &error))?;
        let handle = made.handle().clone();
        *runtime = Some(made);
        Ok(handle)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // A request may hang, and a runtime must not be dropped by one of another runtime's threads.
        if let Some(runtime) = self.runtime.get_mut().unwrap_or_else(PoisonError::into_inner).take()
        {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Files({})", self.place)
    }
}

fn parsed(path: &str) -> Result<Path, Error> {
    Ok(Path::parse(path)?)
}

async fn content(store: &Arc<dyn ObjectStore>, path: &str) -> Result<Bytes, Error> {
    store.get(&parsed(path)?).await?.bytes().await
}

async fn in_time<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(OPERATION, work).await.unwrap_or_else(|_| Err(late()))
}

fn note(failed: &Mutex<Option<Instant>>) {
    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
}

/// Whether the store failed since a moment.
fn is_recent(failed: &Mutex<Option<Instant>>, since: Instant) -> bool {
    failed.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|at| at > since)
}
