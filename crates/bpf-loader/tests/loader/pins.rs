//! Maps that an object shares by name: nothing is pinned, and existing pins are not used.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::thread::{UnshareFlags, unshare_unsafe};
use wingbeat_bpf_loader::{
    loader::LoadedMap,
    spec::{MapType, Spec},
};
use wingbeat_bpf_testing::object::{
    btf::bytes,
    typed::{Function, TypedObject},
};

use crate::{
    raw::{self, RawMap},
    support::{asm, can_load, load_linked, value},
};

/// The default bpffs.
const BPFFS: &str = "/sys/fs/bpf";

/// An empty bpffs at the default path, for this thread alone.
pub(crate) struct PrivateBpffs(());

impl PrivateBpffs {
    pub(crate) fn enter() -> Self {
        // SAFETY: only this thread leaves; it has no descriptors of folders that others use.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.expect("a mount namespace");
        let mount = |words: &[&str]| {
            let status = Command::new("mount").args(words).status().expect("mount");
            assert!(status.success(), "mount {words:?}");
        };
        mount(&["--make-rprivate", "/"]);
        mount(&["-t", "bpf", "bpf", BPFFS]);
        Self(())
    }

    pub(crate) fn path(&self) -> &'static Path {
        Path::new(BPFFS)
    }

    /// All entries, including folders.
    fn list(&self) -> Vec<PathBuf> {
        let (mut found, mut folders) = (Vec::new(), vec![self.path().to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder").flatten() {
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                folders.extend(is_folder.then(|| entry.path()));
                found.push(entry.path());
            }
        }
        found.sort();
        found
    }
}

/// Returns the value of a map with pinning, and sets it to 7. The map has a typed definition.
fn by_types() -> Spec {
    let mut file = TypedObject::new();
    let properties =
        [("type", 2), ("key_size", 4), ("value_size", 8), ("max_entries", 1), ("pinning", 1)];
    file.types.define_map("shared", &properties, &[]);
    program_with_map(file, ".maps", &[0; 40])
}

/// The same with a numeric definition in Aya's format: type, sizes, entries, flags, id, pinning.
fn by_numbers() -> Spec {
    program_with_map(TypedObject::new(), "maps", &bytes(&[2, 4, 8, 1, 0, 0, 1]))
}

fn program_with_map(mut file: TypedObject, section: &str, definition: &[u8]) -> Spec {
    let maps = file.data(section, definition);
    let symbol = file.variable("shared", maps, 0, definition.len() as u64);
    let insns =
        asm("*(u32 *)(r10 - 4) = 0; r1 = map 0; r2 = r10; r2 += -4; call map_lookup_elem; \
         if r0 != 0 goto +1; exit; r1 = r0; r0 = *(u64 *)(r1 + 0); *(u64 *)(r1 + 0) = 7; exit");
    let code = file.code("xdp", &[Function::global("reader", &insns, 0)]);
    file.refer(code, 1, symbol);
    file.spec()
}

#[test]
fn nothing_is_pinned_and_no_pin_is_used() {
    let Some(()) = can_load() else { return };
    let bpffs = PrivateBpffs::enter();
    // A map as left by another program, under the names that loaders use.
    let theirs = LoadedMap::results(8).expect("a map");
    let theirs = RawMap { fd: theirs, key_len: 4, value_len: 8 };
    theirs.update(&[0; 4], &99_u64.to_ne_bytes()).expect("set");
    raw::pin(&theirs.fd, &bpffs.path().join("shared")).expect("pinned");
    let folder = bpffs.path().join("by_hand");
    fs::create_dir(&folder).expect("a folder");
    raw::pin(&theirs.fd, &folder.join("shared")).expect("pinned");
    // The kernel may have entries of its own there.
    let before = bpffs.list();
    assert!(before.len() >= 3 && before.contains(&folder.join("shared")), "{before:?}");

    let check = |spec: Spec, name: &str| {
        let map = spec.maps().iter().find(|map| map.name == name).expect("the map");
        assert_eq!((map.r#type, map.is_pinned_by_name), (MapType::ARRAY, true));
        let (loaded, _maps) = load_linked(&spec, "reader", false).expect("it loads");
        assert_eq!([value(&loaded), value(&loaded)], [0, 7], "the map is its own");
        assert_eq!(bpffs.list(), before, "while it is loaded");
    };
    check(by_types(), "shared");
    check(by_numbers(), "shared");
    assert_eq!(bpffs.list(), before, "afterwards");
    assert_eq!(theirs.lookup(&[0; 4]).expect("read"), 99_u64.to_ne_bytes());
}
