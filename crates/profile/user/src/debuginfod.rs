//! Debug information from debuginfod servers, for files that have none here: asked for by build id, kept
//! in the cache that gdb uses too, and bounded in time, since the output waits for it.
//!
//! Only [`Debuginfod::fetch`] uses the network, and only for builds that it is given. Whatever goes wrong
//! is noted in the [`Account`], and the rest goes on.

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

/// Build ids of more bytes are not asked for: no other client does it.
const BUILD_ID_BYTES_MAX: usize = 63;

/// The GNU build id of a file, not empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BuildId(Vec<u8>);

impl BuildId {
    /// `None` if it is empty, or longer than any server takes.
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

/// A file whose debug information is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// As the process sees it.
    pub path: String,
    pub build_id: BuildId,
}

/// How the downloads are going.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Files that are settled, of those to be downloaded.
    pub done: usize,
    pub files: usize,
    /// Received so far.
    pub bytes: u64,
}

/// Debug files, open, by build id.
#[derive(Debug, Default)]
pub struct DebugFiles {
    files: FxHashMap<Vec<u8>, File>,
    /// Links to what debug files share.
    shared: Option<TempDir>,
    pub account: Account,
}

impl DebugFiles {
    /// The debug file of a build.
    pub fn get(&self, build_id: &[u8]) -> Option<&File> {
        self.files.get(build_id)
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &File> {
        self.files.values()
    }

    /// A folder with what the debug files share, by build id.
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

    /// Gets the debug information of builds, the first ones first, from the cache or from servers, until
    /// the time is up or `stop` becomes readable.
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
