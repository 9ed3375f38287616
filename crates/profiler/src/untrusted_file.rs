//! Opens and reads files whose names come from other processes. A profiler often runs as root, and such a path may
//! lead to anything: a pipe without a writer, a device, a link, a file with invalid headers.

use std::{
    cell::Cell,
    fmt,
    fs::File,
    io::{self, Read as _},
    ops::Range,
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
};

use object::{ReadRef, read::ReadCache};
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2},
    io::Errno,
};

/// Maximum bytes to read from one file, whatever its headers say: more than the symbol table and unwind
/// information of any known program.
const READ_BYTES_MAX: u64 = 1 << 30;

/// Opens a regular file for reading, and nothing else. Never blocks.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    reopen(openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Same as [`open_regular`], for a path as seen by processes with this root. Links are resolved within that root.
pub(crate) fn open_regular_in(root: &File, path: &Path) -> io::Result<File> {
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    reopen(openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), within)?)
}

/// Opens a handle once it is known to be a regular file: opening anything else may have side effects.
fn reopen(handle: OwnedFd) -> io::Result<File> {
    let handle = File::from(handle);
    if !handle.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(openat(CWD, path_of(&handle), flags, Mode::empty())?))
}

/// A path to an open file.
pub(crate) fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// A file that reads at most [`READ_BYTES_MAX`].
#[derive(Debug)]
pub(crate) struct Bounded<'a> {
    file: ReadCache<&'a File>,
    left: Cell<u64>,
}

impl<'a> Bounded<'a> {
    pub(crate) fn new(file: &'a File) -> Self {
        Self { file: ReadCache::new(file), left: Cell::new(READ_BYTES_MAX) }
    }
}

impl<'a> ReadRef<'a> for &'a Bounded<'_> {
    fn len(self) -> Result<u64, ()> {
        self.file.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.left.set(self.left.get().checked_sub(size).ok_or(())?);
        self.file.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.file.read_bytes_at_until(range, delimiter)
    }
}

/// Why a symbol file is not trusted: its writer controls what a profile shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Distrust {
    /// A symbolic link, which may lead anywhere.
    Link,
    /// A pipe, a device or a folder.
    NotRegular,
    /// Owned neither by the process's user, if known, nor by root.
    Owner { owner: u32, user: Option<u32> },
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link => f.write_str("it is a symbolic link"),
            Self::NotRegular => f.write_str("it is not a regular file"),
            Self::Owner { owner, user: Some(user) } => {
                write!(f, "it belongs to user {owner}, and the process to user {user}")
            }
            Self::Owner { owner, user: None } => write!(
                f,
                "it belongs to user {owner}, and the process ended before its user was known"
            ),
        }
    }
}

/// Why a symbol file is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    /// Missing or unreadable.
    Missing,
    Refused(Distrust),
}

/// Reads a symbol file of a process of this user, up to a maximum size. `name` is a file name in this folder, not
/// a path.
pub(crate) fn read_trusted(
    folder: impl AsFd,
    name: &str,
    user: Option<u32>,
    bytes_max: u64,
) -> Result<Vec<u8>, Unread> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty()).map_err(|error| match error {
        Errno::LOOP => Unread::Refused(Distrust::Link),
        _ => Unread::Missing,
    })?;
    let file = File::from(file);
    trust(&file, user)?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes).map_err(|_| Unread::Missing)?;
    Ok(bytes)
}

/// Checks whether an open file is trusted for a process of this user.
pub(crate) fn trust(file: &File, user: Option<u32>) -> Result<(), Unread> {
    let data = file.metadata().map_err(|_| Unread::Missing)?;
    let owner = data.uid();
    if !data.is_file() {
        Err(Unread::Refused(Distrust::NotRegular))
    } else if owner == 0 || Some(owner) == user {
        Ok(())
    } else {
        Err(Unread::Refused(Distrust::Owner { owner, user }))
    }
}

/// Opens `/tmp` as seen by a process. Links on the way are resolved within its root: a link to `/etc` must not
/// lead to ours.
pub(crate) fn open_tmp(pid: u32) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, format!("/proc/{pid}/root"), flags, Mode::empty())?;
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    Ok(File::from(openat2(root, "tmp", flags, Mode::empty(), within)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_believed_of_regular_files_of_the_user_and_of_root() {
        let folder = tempfile::tempdir().expect("folder");
        let me = rustix::process::geteuid().as_raw();
        std::fs::write(folder.path().join("map"), b"1 2 a").expect("write");
        std::os::unix::fs::symlink("map", folder.path().join("link")).expect("link");
        std::fs::create_dir(folder.path().join("folder")).expect("folder");
        let open = File::open(folder.path()).expect("open");
        let check = |name, user, expected: Result<&[u8], Unread>| {
            let found = read_trusted(&open, name, user, 3);
            assert_eq!(found.as_deref(), expected.as_ref().copied(), "{name}");
        };
        check("map", Some(me), Ok(b"1 2"));
        check("link", Some(me), Err(Unread::Refused(Distrust::Link)));
        check("folder", Some(me), Err(Unread::Refused(Distrust::NotRegular)));
        check("absent", Some(me), Err(Unread::Missing));
        if me == 0 {
            let path = folder.path().join("map");
            let refused = |user| Err(Unread::Refused(Distrust::Owner { owner: 7, user }));
            check("map", Some(7), Ok(b"1 2"));
            check("map", None, Ok(b"1 2"));
            std::os::unix::fs::chown(path, Some(7), None).expect("chown");
            check("map", Some(7), Ok(b"1 2"));
            check("map", Some(8), refused(Some(8)));
            check("map", None, refused(None));
        }
    }

    #[test]
    fn the_folder_of_a_process_is_that_of_its_root() {
        let tmp = open_tmp(std::process::id()).expect("open").metadata().expect("metadata");
        let ours = Path::new("/tmp").metadata().expect("metadata");
        assert_eq!((tmp.dev(), tmp.ino()), (ours.dev(), ours.ino()));
        assert!(open_tmp(5_000_000).is_err());
    }

    #[test]
    fn pipes_devices_and_folders_are_refused_at_once() {
        let folder = tempfile::tempdir().expect("folder");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo").success());
        for path in [pipe.as_path(), Path::new("/dev/zero"), folder.path()] {
            assert!(open_regular(path).is_err(), "{}", path.display());
            let root = File::open("/").expect("open");
            assert!(open_regular_in(&root, path).is_err(), "{}", path.display());
        }
        assert!(open_regular(Path::new("/proc/self/exe")).is_ok());
    }
}
