//! Code files, kept open from first sight.
//!
//! At the end of a recording, the process may have exited, the file may be deleted, and the mount namespace
//! removed. An open descriptor survives all of these.

use std::{
    cell::OnceCell,
    fs::{self, File},
    io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::{
    proc,
    recorder::event::MappedFile,
    symbolize::debug_info::{Whereabouts, build_id_of},
    untrusted_file::open_regular,
    unwind::Image,
};

/// Index into the table of binaries.
pub(crate) type BinaryId = u32;

/// Backing of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backing {
    File,
    /// The kernel's shared object.
    Vdso,
    /// Memory without a file, such as JIT code.
    Anonymous,
}

/// A code file.
#[derive(Debug)]
pub(crate) struct Binary {
    pub backing: Backing,
    pub path: String,
    file: Option<File>,
    image: OnceCell<Option<Image>>,
    /// State of the file when it was opened.
    stamp: Option<Stamp>,
    /// Root of the process that mapped it, if different from ours.
    root: Option<Arc<Root>>,
    /// Windows in which no process mapped it.
    unused: u32,
}

/// Detects writes to a file, and whether it is another program now.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: (i64, i64),
    /// Empty if there is none.
    build_id: Vec<u8>,
}

impl Stamp {
    fn of(file: &File) -> Option<Self> {
        let data = file.metadata().ok()?;
        let modified = (data.mtime(), data.mtime_nsec());
        Some(Self { bytes: data.len(), modified, build_id: build_id_of(file).unwrap_or_default() })
    }
}

/// Windows for which an unmapped file stays open: short-lived processes recur.
const UNUSED_MAX: u32 = 20;
/// Windows for which its image is kept, which takes megabytes for a large file.
const IMAGE_UNUSED_MAX: u32 = 2;

impl Binary {
    /// The descriptor, if the file could be opened.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Its ELF structure; `None` if it is not ELF or cannot be read.
    pub(crate) fn image(&self) -> Option<&Image> {
        self.image.get_or_init(|| Image::read(self.file.as_ref()?)).as_ref()
    }

    /// Build id when it was opened; empty if there was none.
    pub(crate) fn build_id(&self) -> &[u8] {
        let first = self.stamp.as_ref().map(|stamp| &stamp.build_id[..]);
        let first = first.filter(|build_id| !build_id.is_empty());
        first.or_else(|| self.image().map(Image::build_id)).unwrap_or_default()
    }

    /// Whether the file was overwritten with another program since it was opened.
    pub(crate) fn is_replaced(&self) -> bool {
        let Some((file, first)) = self.file.as_ref().zip(self.stamp.as_ref()) else { return false };
        let Some(now) = Stamp::of(file) else { return true };
        now != *first && (now.build_id.is_empty() || now.build_id != first.build_id)
    }

    /// Whether it is memory and not a program, such as a file by which a JIT compiler shares memory.
    pub(crate) fn is_memory(&self) -> bool {
        let is_named = || ["/dev/", "/memfd:", "/SYSV"].iter().any(|it| self.path.starts_with(it));
        let may_be = self.file.is_some() || is_named();
        self.backing == Backing::File && may_be && self.image().is_none()
    }

    /// Location of the file.
    pub(crate) fn whereabouts(&self) -> Whereabouts<'_> {
        let root = self.root.as_ref().map(|root| (&root.folder, Path::new(&self.path)));
        Whereabouts { path: self.path_if_current(), root }
    }

    /// Its path, if the mapped file is still there, as seen by us.
    fn path_if_current(&self) -> Option<&Path> {
        let path = Path::new(&self.path);
        let found = path.metadata().ok()?;
        let held = self.file.as_ref()?.metadata().ok()?;
        (found.dev() == held.dev() && found.ino() == held.ino()).then_some(path)
    }
}

/// All files seen.
#[derive(Debug, Default)]
pub(crate) struct Binaries {
    table: Vec<Binary>,
    by_identity: FxHashMap<(u32, u32, u64), BinaryId>,
    by_name: FxHashMap<String, BinaryId>,
    roots: Roots,
    /// Number of files not opened because too many were open.
    pub(crate) without_descriptor: u64,
}

impl Binaries {
    pub(crate) fn get(&self, id: BinaryId) -> Option<&Binary> {
        self.table.get(id as usize)
    }

    /// Returns the binary behind a mapping of `pid`, opening it if new. Uses `parent` if the process's files are gone.
    pub(crate) fn find_or_open(
        &mut self,
        pid: u32,
        parent: Option<u32>,
        mapped: &MappedFile,
    ) -> BinaryId {
        if mapped.inode == 0 {
            return self.find_or_make_special(&mapped.path);
        }
        let identity = (mapped.device.0, mapped.device.1, mapped.inode);
        if let Some(&id) = self.by_identity.get(&identity) {
            if self.table[id as usize].file.is_none() {
                // The process that mapped it first exited too soon; this one may still exist.
                let new = self.open(pid, parent, mapped);
                self.table[id as usize] = new;
            }
            return id;
        }
        let new = self.open(pid, parent, mapped);
        let id = self.push(new);
        self.by_identity.insert(identity, id);
        id
    }

    /// Starts another window with `used` mapped. Closes files not mapped for some windows; they are reopened on demand.
    pub(super) fn next_window(&mut self, used: &FxHashSet<BinaryId>) {
        for (id, binary) in (0..).zip(&mut self.table) {
            // Debug files are searched at the end of a recording, and this one continues.
            binary.root = None;
            binary.unused = if used.contains(&id) { 0 } else { binary.unused.saturating_add(1) };
            if binary.unused == IMAGE_UNUSED_MAX {
                binary.image = OnceCell::new();
            }
            if binary.backing == Backing::File && binary.unused == UNUSED_MAX {
                (binary.file, binary.image) = (None, OnceCell::new());
            }
        }
        self.roots.forget_unused();
    }

    fn open(&mut self, pid: u32, parent: Option<u32>, mapped: &MappedFile) -> Binary {
        let file = open(pid, parent, mapped).unwrap_or_else(|OutOfDescriptors| {
            self.without_descriptor += 1;
            None
        });
        Binary {
            backing: Backing::File,
            path: mapped.path.trim_end_matches(" (deleted)").to_owned(),
            stamp: file.as_ref().and_then(Stamp::of),
            root: self.roots.of(pid).or_else(|| self.roots.of(parent?)),
            file,
            image: OnceCell::new(),
            unused: 0,
        }
    }

    fn find_or_make_special(&mut self, name: &str) -> BinaryId {
        let is_vdso = name == "[vdso]";
        let name = match name {
            "" | "//anon" => "[anon]",
            name => name,
        };
        if let Some(&id) = self.by_name.get(name) {
            return id;
        }
        let id = self.push(Binary {
            backing: if is_vdso { Backing::Vdso } else { Backing::Anonymous },
            path: name.to_owned(),
            file: if is_vdso { copy_vdso() } else { None },
            image: OnceCell::new(),
            stamp: None,
            root: None,
            unused: 0,
        });
        self.by_name.insert(name.to_owned(), id);
        id
    }

    fn push(&mut self, binary: Binary) -> BinaryId {
        self.table.push(binary);
        (self.table.len() - 1) as BinaryId
    }
}

/// Opens the file behind a mapping. `map_files` leads to the exact file, even if deleted. Paths are for processes
/// that exited, and are accepted only with the same inode.
fn open(
    pid: u32,
    parent: Option<u32>,
    mapped: &MappedFile,
) -> Result<Option<File>, OutOfDescriptors> {
    let tid = proc::living_thread(pid).unwrap_or(pid);
    let exact = format!("/proc/{tid}/map_files/{:x}-{:x}", mapped.start, mapped.end);
    match open_regular(exact.as_ref()) {
        Ok(file) => return Ok(Some(file)),
        Err(error) if is_at_limit(&error) => return Err(OutOfDescriptors),
        // A device, without a file.
        Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(None),
        Err(_) => {}
    }
    let in_root = |pid: u32| PathBuf::from(format!("/proc/{pid}/root{}", mapped.path));
    let found = [Some(in_root(tid)), parent.map(in_root), Some(PathBuf::from(&mapped.path))]
        .into_iter()
        .flatten()
        .filter_map(|path| open_regular(&path).ok())
        .find(|file| {
            // Not comparing the device: on overlayfs and btrfs the kernel reports another one for the mapping than
            // stat(2).
            file.metadata().is_ok_and(|data| data.ino() == mapped.inode)
        });
    Ok(found)
}

/// No more files can be opened: the limit of this process or of the machine is reached.
struct OutOfDescriptors;

fn is_at_limit(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Copies our vdso, which is that of all 64-bit processes, to an unnamed file.
fn copy_vdso() -> Option<File> {
    let pid = std::process::id();
    let mappings = proc::executable_mappings(pid);
    let vdso = mappings.iter().find(|mapping| mapping.path == "[vdso]")?;
    let mut bytes = vec![0; usize::try_from(vdso.end - vdso.start).ok()?];
    let mut memory = File::open("/proc/self/mem").ok()?;
    memory.seek(SeekFrom::Start(vdso.start)).ok()?;
    memory.read_exact(&mut bytes).ok()?;
    let mut file = tempfile::tempfile().ok()?;
    file.write_all(&bytes).ok()?;
    Some(file)
}

// Roots of processes that see other files than we do: in their own mount namespace, or below another folder. They
// are kept open, since debug files are searched there when the process may have exited.

/// Identity of a root: mount namespace, device and inode.
type Key = (PathBuf, u64, u64);

/// An open root.
#[derive(Debug)]
pub(super) struct Root {
    pub folder: File,
    /// Keeps the mounts below the root, which exist as long as their namespace is referenced.
    _namespace: Option<File>,
}

/// Roots by identity.
#[derive(Debug, Default)]
pub(super) struct Roots {
    known: FxHashMap<Key, Arc<Root>>,
}

impl Roots {
    /// The root of a process, if it is not ours.
    pub(super) fn of(&mut self, pid: u32) -> Option<Arc<Root>> {
        static OURS: OnceLock<Option<Key>> = OnceLock::new();
        let key = key(&pid.to_string())?;
        if OURS.get_or_init(|| self::key("self")).as_ref() == Some(&key) {
            return None;
        }
        if let Some(known) = self.known.get(&key) {
            return Some(Arc::clone(known));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, format!("/proc/{pid}/root"), flags, Mode::empty()).ok()?;
        let namespace = File::open(format!("/proc/{pid}/ns/mnt")).ok();
        let root = Arc::new(Root { folder: File::from(root), _namespace: namespace });
        self.known.insert(key, Arc::clone(&root));
        Some(root)
    }

    /// Closes roots that no file needs any more.
    pub(super) fn forget_unused(&mut self) {
        self.known.retain(|_, root| Arc::strong_count(root) > 1);
    }
}

fn key(pid: &str) -> Option<Key> {
    let namespace = fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()?;
    let root = fs::metadata(format!("/proc/{pid}/root")).ok()?;
    Some((namespace, root.dev(), root.ino()))
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn own_mappings_are_opened_once_and_are_elf() {
        let pid = std::process::id();
        let mut binaries = Binaries::default();
        for mapped in proc::executable_mappings(pid) {
            let id = binaries.find_or_open(pid, None, &mapped);
            assert_eq!(binaries.find_or_open(pid, None, &mapped), id);
            let binary = binaries.get(id).expect("just made");
            if binary.backing != Backing::Anonymous {
                assert!(binary.image().is_some(), "{}", binary.path);
            }
        }
    }

    #[test]
    fn a_file_that_nobody_maps_is_closed_after_a_while_and_opened_again() {
        let pid = std::process::id();
        let mapped = proc::executable_mappings(pid);
        let mapped = mapped.iter().find(|mapped| mapped.inode != 0).expect("a file");
        let mut binaries = Binaries::default();
        let id = binaries.find_or_open(pid, None, mapped);
        let is_open = |binaries: &Binaries| binaries.get(id).is_some_and(|it| it.file().is_some());
        let (used, none) = (FxHashSet::from_iter([id]), FxHashSet::default());
        (1..UNUSED_MAX).for_each(|_| binaries.next_window(&none));
        binaries.next_window(&used);
        (1..UNUSED_MAX).for_each(|_| binaries.next_window(&none));
        assert!(is_open(&binaries));
        binaries.next_window(&none);
        assert!(!is_open(&binaries));
        assert_eq!(binaries.find_or_open(pid, None, mapped), id);
        binaries.next_window(&none);
        assert!(is_open(&binaries));
    }

    #[test]
    fn what_was_written_into_a_file_since_is_another_program() {
        let own = fs::read("/proc/self/exe").expect("read");
        let check = |first: &[u8], then: &[u8], expected| {
            let path = tempfile::NamedTempFile::new().expect("temporary file").into_temp_path();
            fs::write(&path, first).expect("write");
            let inode = path.metadata().expect("metadata").ino();
            let path_text = path.to_string_lossy().into_owned();
            let (start, end, offset, device) = (0x1000, 0x2000, 0, (0, 99));
            let mapped = MappedFile { start, end, offset, device, inode, path: path_text };
            let mut binaries = Binaries::default();
            let id = binaries.find_or_open(5_000_000, None, &mapped);
            let is_replaced = || binaries.get(id).expect("just made").is_replaced();
            assert!(!is_replaced());
            fs::write(&path, then).expect("write");
            assert_eq!(is_replaced(), expected, "{} bytes", then.len());
        };
        // With another length: within a clock tick, times are equal.
        check(b"one program", b"and another one", true);
        check(&own, b"", true);
        check(&own, &own[..own.len() / 2], false);
        check(&own, &[&own[..], b"more"].concat(), false);
    }

    #[test]
    fn a_file_of_a_dead_process_is_found_by_path_only_if_it_is_the_same() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let inode = file.as_file().metadata().expect("metadata").ino();
        let mapped = |inode| MappedFile {
            start: 0x1000,
            end: 0x2000,
            offset: 0,
            device: (0, 99),
            inode,
            path: file.path().to_string_lossy().into_owned(),
        };
        let opened = |inode| open(5_000_000, None, &mapped(inode)).is_ok_and(|it| it.is_some());
        assert!(opened(inode) && !opened(inode + 1));
    }

    #[test]
    fn our_own_root_is_none_of_others() {
        let mut roots = Roots::default();
        assert!(roots.of(std::process::id()).is_none());
        assert!(roots.of(5_000_000).is_none());
    }
}
