//! Fetches debug information from debuginfod servers for files that have none locally: by build id, cached where
//! gdb caches it, and limited in time, since the output waits for it.
//!
//! Only [`Debuginfod::fetch`] uses the network, and only for the builds passed to it. Failures are recorded in the
//! [`Account`] and do not stop the rest.

mod account;
mod cache;
mod http;
mod round;
mod settings;
mod shared;
mod workers;

use std::{
    fmt,
    fs::File,
    os::fd::BorrowedFd,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use rustc_hash::FxHashMap;
use tempfile::TempDir;

pub use self::{
    account::{Account, Asked, DownloadError, Outcome},
    settings::{Settings, SettingsError},
};
use self::{
    cache::Cache,
    http::Watch,
    round::Round,
    shared::{link_shared, shared_by},
};

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
