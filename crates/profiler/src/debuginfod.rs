//! Fetches debug information from debuginfod servers for files that have none locally: by build id, cached where
//! gdb caches it, and limited in time, since the output waits for it.
//!
//! Only [`Debuginfod::fetch`] uses the network, and only for the builds passed to it. Failures are recorded in the
//! [`Account`] and do not stop the rest.

mod cache;
mod http;
mod settings;

use std::{
    fmt,
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd as _, BorrowedFd},
        unix::fs::symlink,
    },
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use rustc_hash::FxHashMap;
use serde::{Serialize, Serializer};
use tempfile::{NamedTempFile, TempDir};
use thiserror::Error;

use crate::{
    debuginfod::{
        cache::{Cache, Entry},
        http::{Job, Watch, Workers},
    },
    symbolize::debug_info::{DebugInfo, FOLDERS, place_of_build},
};

pub use crate::debuginfod::settings::Settings;

/// Longest build id to ask for, as in other clients, in bytes.
const BUILD_ID_BYTES_MAX: usize = 63;

/// A GNU build id, not empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BuildId(Vec<u8>);

impl BuildId {
    /// `None` if it is empty, or longer than servers accept.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (1..=BUILD_ID_BYTES_MAX).contains(&bytes.len()).then(|| Self(bytes.to_vec()))
    }

    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A file whose debug information is requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// As seen by the process.
    pub path: String,
    pub build_id: BuildId,
}

/// Progress of the downloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Finished downloads, of the `total` to make.
    pub done: usize,
    pub files: usize,
    /// Bytes received so far.
    pub bytes: u64,
}

/// Open debug files, by build id.
#[derive(Debug, Default)]
pub struct DebugFiles {
    files: FxHashMap<Vec<u8>, File>,
    /// Links to debug files that others share.
    shared: Option<TempDir>,
    pub account: Account,
}

impl DebugFiles {
    /// Returns the debug file of a build.
    pub fn get(&self, build_id: &[u8]) -> Option<&File> {
        self.files.get(build_id)
    }

    /// All debug files.
    pub(crate) fn all(&self) -> impl Iterator<Item = &File> {
        self.files.values()
    }

    /// A folder with the shared debug files, by build id.
    pub(crate) fn shared(&self) -> Option<&Path> {
        self.shared.as_ref().map(TempDir::path)
    }
}

/// A client of debuginfod servers.
#[derive(Debug)]
pub struct Debuginfod {
    settings: Settings,
    cache: Cache,
}

impl Debuginfod {
    pub fn new(settings: Settings) -> Self {
        let cache = Cache::new(settings.cache.clone());
        Self { settings, cache }
    }

    /// Fetches the debug information of builds, in order, from the cache or from servers, until the time is up or
    /// `stop` becomes readable.
    pub fn fetch(
        &self,
        wanted: Vec<Wanted>,
        stop: BorrowedFd<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> DebugFiles {
        let watch = Arc::new(Watch::new(self.settings.limits));
        let mut round = Round { client: self, watch: &watch, stop, progress };
        let mut found = DebugFiles::default();
        round.run(wanted, &mut found);
        let shared = shared_by(&found);
        if !shared.is_empty() {
            round.run(shared.clone(), &mut found);
            found.shared = link_shared(&shared, &found).ok();
        }
        found.account.bytes = watch.bytes.load(Ordering::Relaxed);
        found
    }
}

#[cfg(test)]
mod tests;

/// One batch of requested files.
struct Round<'a> {
    pub client: &'a Debuginfod,
    pub watch: &'a Arc<Watch>,
    pub stop: BorrowedFd<'a>,
    pub progress: &'a mut dyn FnMut(Progress),
}

impl Round<'_> {
    /// Fetches files, and adds those found.
    fn run(&mut self, wanted: Vec<Wanted>, found: &mut DebugFiles) {
        let cache = &self.client.cache;
        let mut outcomes: Vec<Result<Outcome, DownloadError>> = Vec::new();
        let mut begun: Vec<(usize, NamedTempFile)> = Vec::new();
        for (index, Wanted { build_id, .. }) in wanted.iter().enumerate() {
            outcomes.push(match cache.look_up(build_id) {
                Entry::File(file) => {
                    found.files.insert(build_id.bytes().to_vec(), file);
                    Ok(Outcome::Cached)
                }
                Entry::Miss => Ok(Outcome::NotFound),
                // Until its download finishes.
                Entry::Unknown => match cache.begin(build_id) {
                    Ok(file) => {
                        begun.push((index, file));
                        Err(DownloadError::Interrupted)
                    }
                    Err(error) => Err(cannot_keep(cache, &error)),
                },
            });
        }
        let downloaded = self.download(&wanted, begun, &mut outcomes);
        for (id, file) in downloaded {
            found.files.insert(id.bytes().to_vec(), file);
        }
        for (Wanted { path, build_id }, outcome) in wanted.into_iter().zip(outcomes) {
            let (outcome, error) = match outcome {
                Ok(outcome) => (outcome, None),
                Err(error) => {
                    cache.forget(&build_id);
                    (Outcome::Failed, Some(error))
                }
            };
            found.account.files.push(Asked { path, build_id, outcome, error });
        }
    }

    /// Downloads into files, keeps valid ones, and records the outcomes.
    fn download(
        &mut self,
        wanted: &[Wanted],
        begun: Vec<(usize, NamedTempFile)>,
        outcomes: &mut [Result<Outcome, DownloadError>],
    ) -> Vec<(BuildId, File)> {
        let cache = &self.client.cache;
        let mut kept = Vec::new();
        let mut jobs = Vec::new();
        let mut files: FxHashMap<usize, NamedTempFile> = FxHashMap::default();
        for (index, file) in begun {
            // A second descriptor, so that an abandoned download does not keep the file.
            match file.as_file().try_clone() {
                Ok(into) => {
                    jobs.push(Job { index, id: wanted[index].build_id.clone(), into });
                    files.insert(index, file);
                }
                Err(error) => outcomes[index] = Err(cannot_keep(cache, &error)),
            }
        }
        let mut settle = |index: usize, result: Result<bool, DownloadError>| {
            let id = &wanted[index].build_id;
            outcomes[index] = match (result, files.remove(&index)) {
                (Err(error), _) => Err(error),
                (Ok(true), Some(file)) => match cache.keep(id, file) {
                    Ok(file) => {
                        kept.push((id.clone(), file));
                        Ok(Outcome::Downloaded)
                    }
                    Err(error) => Err(cannot_keep(cache, &error)),
                },
                (Ok(_), _) => {
                    // A miss that cannot be recorded costs another request.
                    let _ = cache.keep_miss(id);
                    Ok(Outcome::NotFound)
                }
            };
        };
        let workers = Workers::start(jobs, &self.client.settings.servers, self.watch);
        let why = workers.wait(self.stop, self.progress, &mut settle);
        // Unfinished downloads.
        for (index, file) in files {
            drop(file);
            outcomes[index] = Err(why.clone());
        }
        kept
    }
}

fn cannot_keep(cache: &Cache, error: &io::Error) -> DownloadError {
    DownloadError::Cache { reason: format!("{}: {error}", cache.root().display()) }
}

/// Shared files that are referenced but missing. debuginfod serves them by build id, too.
fn shared_by(found: &DebugFiles) -> Vec<Wanted> {
    let mut shared: Vec<Wanted> = Vec::new();
    for Asked { path, build_id, .. } in &found.account.files {
        let file = found.get(build_id.bytes());
        let id = file.and_then(DebugInfo::read).and_then(|info| BuildId::new(&info.shared?.1));
        let Some(id) = id else { continue };
        let is_known = found.files.contains_key(id.bytes());
        if !is_installed(&id) && !is_known && shared.iter().all(|known| known.build_id != id) {
            shared.push(Wanted { path: path.clone(), build_id: id });
        }
    }
    shared
}

fn is_installed(id: &BuildId) -> bool {
    FOLDERS
        .iter()
        .filter_map(|folder| place_of_build(folder.as_ref(), id.bytes()))
        .any(|place| place.exists())
}

/// Creates a folder with links to these files by build id, in the layout of `/usr/lib/debug`.
fn link_shared(shared: &[Wanted], found: &DebugFiles) -> io::Result<TempDir> {
    let folder = tempfile::tempdir()?;
    for Wanted { build_id, .. } in shared {
        let file = found.get(build_id.bytes());
        let Some((file, place)) = file.zip(place_of_build(folder.path(), build_id.bytes())) else {
            continue;
        };
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        symlink(format!("/proc/self/fd/{}", file.as_raw_fd()), place)?;
    }
    Ok(folder)
}

// Outcomes by requested file, so that no failure is silent.

/// Why debug information could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DownloadError {
    #[error("{server} answered with status {status}")]
    Status { server: String, status: u16 },
    #[error("cannot reach {server}: {reason}")]
    Connection { server: String, reason: String },
    #[error("the download from {server} broke off: {reason}")]
    Cut { server: String, reason: String },
    #[error("{server} sent less than 100 KB in {stall_s} s")]
    Slow { server: String, stall_s: u64 },
    #[error("{server} has a file of more than {max_bytes} bytes")]
    TooLarge { server: String, max_bytes: u64 },
    #[error("{server} returned a file of another build")]
    Foreign { server: String },
    #[error("the file cannot be kept: {reason}")]
    Cache { reason: String },
    #[error("the time limit for downloads, {limit_s} s, was exceeded")]
    TimeIsUp { limit_s: u64 },
    #[error("the downloads were interrupted")]
    Interrupted,
}

/// Outcome for one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Found in the cache.
    Cached,
    Downloaded,
    /// No server has it, now or when last asked.
    NotFound,
    Failed,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cached => "in the cache",
            Self::Downloaded => "downloaded",
            Self::NotFound => "on no server",
            Self::Failed => "failed",
        })
    }
}

/// A requested file and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// As seen by the process.
    pub path: String,
    #[serde(serialize_with = "as_text")]
    pub build_id: BuildId,
    pub outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text_or_none")]
    pub error: Option<DownloadError>,
}

/// All requests and their outcomes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Bytes received from servers.
    pub bytes: u64,
    /// In order of request.
    pub files: Vec<Asked>,
}

impl Account {
    /// Number of files with this outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.files.iter().filter(|file| file.outcome == outcome).count()
    }
}

fn as_text<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn as_text_or_none<S: Serializer>(
    value: &Option<DownloadError>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.as_ref().map(DownloadError::to_string).serialize(serializer)
}
