//! Owners of code that is in no ELF file, and the folders of their symbol files.
//!
//! Both are available only while the process lives, and symbols may be resolved after that. So they are read when
//! the memory for such code is mapped, and the folder is kept open.

use std::{fs::File, os::unix::fs::MetadataExt as _, sync::Arc};

use rustc_hash::{FxHashMap, FxHashSet};

use super::event::MappedFile;
use crate::recorder::address_spaces::GenerationId;
use crate::{proc::Identity, untrusted_file::open_tmp};

/// A process with JIT-compiled code.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    pub user: u32,
    /// The PID that the process sees.
    pub innermost_pid: u32,
    /// `/tmp` as seen by the process, if it could be opened.
    pub tmp: Option<Arc<File>>,
}

/// The processes with such code.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    by_pid: FxHashMap<u32, (Option<GenerationId>, Owner)>,
    /// One descriptor per folder: most processes share it.
    folders: FxHashMap<(u64, u64), Arc<File>>,
}

impl Owners {
    pub(crate) fn get(&self, pid: u32) -> Option<&Owner> {
        self.by_pid.get(&pid).map(|(_, owner)| owner)
    }

    /// Handles a mapping by a process, whose address space now has this generation. The process is read again only
    /// if the generation differs, as after an `exec`, which may have changed its user.
    pub(super) fn mapped(
        &mut self,
        pid: u32,
        parent: Option<u32>,
        generation: Option<GenerationId>,
        file: &MappedFile,
    ) {
        let is_known = self.by_pid.get(&pid).is_some_and(|(known, _)| *known == generation);
        let of_parent = parent.and_then(|parent| self.get(parent)).cloned();
        if is_known || !(of_parent.is_some() || may_be_of_a_jit(file)) {
            return;
        }
        let owner = self.read(pid).or_else(|| {
            // If it has exited, it presumably had its parent's user and folder.
            let Owner { user, tmp, .. } = self.get(pid).cloned().or(of_parent)?;
            Some(Owner { user, innermost_pid: pid, tmp })
        });
        if let Some(owner) = owner {
            self.by_pid.insert(pid, (generation, owner));
        }
    }

    /// Removes exited processes.
    pub(super) fn forget(&mut self, gone: &FxHashSet<u32>) {
        self.by_pid.retain(|pid, _| !gone.contains(pid));
        self.folders.retain(|_, folder| Arc::strong_count(folder) > 1);
    }

    fn read(&mut self, pid: u32) -> Option<Owner> {
        let Identity { user, innermost_pid } = Identity::read(pid)?;
        let tmp = open_tmp(pid).ok().and_then(|folder| {
            let data = folder.metadata().ok()?;
            let known = self.folders.entry((data.dev(), data.ino()));
            Some(Arc::clone(known.or_insert_with(|| Arc::new(folder))))
        });
        Some(Owner { user, innermost_pid, tmp })
    }
}

/// Whether this may be code that is in no ELF file: memory without a file, or with one made for sharing it, or the
/// page by which a compiler announces its jitdump file.
fn may_be_of_a_jit(file: &MappedFile) -> bool {
    let path = file.path.as_str();
    match file.inode {
        0 => !path.starts_with("[v"),
        _ => {
            path.starts_with("/memfd:")
                || path.starts_with("/dev/")
                || path.ends_with(" (deleted)")
                || path.ends_with(".dump")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(inode: u64, path: &str) -> MappedFile {
        let path = path.to_owned();
        MappedFile { start: 0x1000, end: 0x2000, offset: 0, device: (0, 1), inode, path }
    }

    #[test]
    fn code_without_an_elf_file() {
        let check =
            |inode, path, expected| assert_eq!(may_be_of_a_jit(&file(inode, path)), expected);
        check(0, "", true);
        check(0, "//anon", true);
        check(0, "[vdso]", false);
        check(7, "/usr/bin/node", false);
        check(7, "/memfd:doublemapper (deleted)", true);
        check(7, "/tmp/ffi12 (deleted)", true);
        check(7, "/home/a/jit-7.dump", true);
    }

    #[test]
    fn a_process_is_known_once_it_has_such_code_and_after_its_end() {
        let me = std::process::id();
        let user = rustix::process::geteuid().as_raw();
        let mut owners = Owners::default();
        owners.mapped(me, None, Some(0), &file(7, "/usr/bin/node"));
        assert!(owners.get(me).is_none());
        owners.mapped(me, None, Some(0), &file(0, "//anon"));
        assert!(owners.get(me).is_some_and(|owner| owner.user == user && owner.tmp.is_some()));
        // A child that never existed.
        let gone = 5_000_000;
        owners.mapped(gone, None, Some(1), &file(0, "//anon"));
        assert!(owners.get(gone).is_none());
        owners.mapped(gone, Some(me), Some(1), &file(7, "/usr/lib/libc.so.6"));
        let owner = owners.get(gone).expect("as its parent");
        assert_eq!((owner.user, owner.innermost_pid), (user, gone));
        assert_eq!(owners.folders.len(), 1);
    }
}
