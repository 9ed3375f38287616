//! The cache of downloaded files, in elfutils' layout (debuginfod/debuginfod-client.c), so that gdb, perf and
//! wingbeat share downloads.
//!
//! `<build id>/debuginfo` is the file. An empty one means that no server had it at its time. It is valid for the
//! number of seconds in the file `cache_miss_s`. Ours has no permissions, as old versions of elfutils require;
//! newer ones (0.188) write it readable, and treat an unreadable one as absent.

use std::{
    fs::{self, DirBuilder, File, FileTimes, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tempfile::NamedTempFile;

use super::BuildId;
use crate::{symbolize::debug_info::DebugInfo, untrusted_file::open_regular};

/// Validity of a miss, unless the cache configures another.
const MISS: Duration = Duration::from_secs(600);
/// Name of a debug file in the folder of its build id.
const NAME: &str = "debuginfo";

/// A cache folder.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    root: PathBuf,
}

/// The state of a build in the cache.
#[derive(Debug)]
pub(super) enum Entry {
    /// Its debug information.
    File(File),
    /// No server had it recently.
    Miss,
    Unknown,
}

impl Cache {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn folder(&self, id: &BuildId) -> PathBuf {
        self.root.join(id.to_string())
    }

    /// Looks up a build.
    pub(super) fn look_up(&self, id: &BuildId) -> Entry {
        let path = self.folder(id).join(NAME);
        // By metadata: a miss cannot be opened.
        let Ok(data) = path.metadata() else { return Entry::Unknown };
        if data.is_file() && data.len() == 0 {
            let age = data.modified().ok().and_then(|time| time.elapsed().ok());
            // A time in the future is not valid.
            let holds = age.is_some_and(|age| age <= self.miss_holds());
            return if holds { Entry::Miss } else { Entry::Unknown };
        }
        match open_regular(&path) {
            Ok(file) if is_of_build(&file, id) => {
                // Other clients remove files not used for long, and not all file systems update access times.
                let _ = file.set_times(FileTimes::new().set_accessed(SystemTime::now()));
                Entry::File(file)
            }
            _ => Entry::Unknown,
        }
    }

    fn miss_holds(&self) -> Duration {
        let text = fs::read_to_string(self.root.join("cache_miss_s")).unwrap_or_default();
        text.trim().parse().map_or(MISS, Duration::from_secs)
    }

    /// Creates a file to download into, next to its final path. Deleted unless kept.
    pub(super) fn begin(&self, id: &BuildId) -> io::Result<NamedTempFile> {
        let folder = self.folder(id);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        tempfile::Builder::new().prefix("debuginfo.").tempfile_in(folder)
    }

    /// Moves a downloaded file to its final path.
    pub(super) fn keep(&self, id: &BuildId, file: NamedTempFile) -> io::Result<File> {
        file.as_file().set_permissions(Permissions::from_mode(0o400))?;
        Ok(file.persist(self.folder(id).join(NAME))?)
    }

    /// Removes the folder of a build if it is empty.
    pub(super) fn forget(&self, id: &BuildId) {
        let _ = fs::remove_dir(self.folder(id));
    }

    /// Records that no server has it.
    pub(super) fn keep_miss(&self, id: &BuildId) -> io::Result<()> {
        let path = self.folder(id).join(NAME);
        // An expired miss, or an invalid file.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        OpenOptions::new().write(true).create_new(true).mode(0o000).open(path).map(drop)
    }
}

/// Whether the file is an ELF file of this build.
pub(super) fn is_of_build(file: &File, id: &BuildId) -> bool {
    DebugInfo::read(file).is_some_and(|info| info.build_id == id.bytes())
}
