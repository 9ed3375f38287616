//! The cache of downloaded files, in the layout of elfutils (debuginfod/debuginfod-client.c), so that
//! gdb, perf and wingbeat download a file once between them.
//!
//! `<build id>/debuginfo` is the file. If it is empty, no server had it at that time; this holds for as
//! many seconds as the file `cache_miss_s` says. Ours has no permissions, which old versions of elfutils
//! need; new ones (0.188) write it readable, and take one that they may not read for absent.

use std::{
    fs::{self, DirBuilder, File, FileTimes, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tempfile::NamedTempFile;

use super::BuildId;
use crate::{foreign::open_regular, symbolize::debug_info::DebugInfo};

/// How long it holds that no server has a file, unless the cache says otherwise.
const MISS: Duration = Duration::from_secs(600);
/// The name of a file with debug information, in the folder of its build id.
const NAME: &str = "debuginfo";

/// A folder with downloaded files.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    root: PathBuf,
}

/// What the cache knows of a build.
#[derive(Debug)]
pub(super) enum Entry {
    /// Its debug information.
    File(File),
    /// No server had it, not long ago.
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

    /// What is known of a build.
    pub(super) fn look_up(&self, id: &BuildId) -> Entry {
        let path = self.folder(id).join(NAME);
        // Not opened: a miss cannot be read.
        let Ok(data) = path.metadata() else { return Entry::Unknown };
        if data.is_file() && data.len() == 0 {
            let age = data.modified().ok().and_then(|time| time.elapsed().ok());
            // One of the future is not believed.
            let holds = age.is_some_and(|age| age <= self.miss_holds());
            return if holds { Entry::Miss } else { Entry::Unknown };
        }
        match open_regular(&path) {
            Ok(file) if is_of_build(&file, id) => {
                // What was not used for long is removed, by other clients; not all file systems note
                // that a file is read.
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

    /// A file to download into, beside its place in the cache; gone unless it is kept.
    pub(super) fn begin(&self, id: &BuildId) -> io::Result<NamedTempFile> {
        let folder = self.folder(id);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        tempfile::Builder::new().prefix("debuginfo.").tempfile_in(folder)
    }

    /// Puts a downloaded file into its place.
    pub(super) fn keep(&self, id: &BuildId, file: NamedTempFile) -> io::Result<File> {
        file.as_file().set_permissions(Permissions::from_mode(0o400))?;
        Ok(file.persist(self.folder(id).join(NAME))?)
    }

    /// Removes the folder of a build if nothing is in it.
    pub(super) fn forget(&self, id: &BuildId) {
        let _ = fs::remove_dir(self.folder(id));
    }

    /// Notes that no server has it.
    pub(super) fn keep_miss(&self, id: &BuildId) -> io::Result<()> {
        let path = self.folder(id).join(NAME);
        // An old one, or something else that is not what it should be.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        OpenOptions::new().write(true).create_new(true).mode(0o000).open(path).map(drop)
    }
}

/// Is it an ELF file of this build?
pub(super) fn is_of_build(file: &File, id: &BuildId) -> bool {
    DebugInfo::read(file).is_some_and(|info| info.build_id == id.bytes())
}
