//! Programs found by id, name, tag and pin, and the kernel's info about them; pins of maps are left alone.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::thread::{UnshareFlags, unshare_unsafe};
use wingbeat_bpf_loader::{
    ProgramType,
    loader::{Loaded, LoadedMap},
    program::{self, ProgramInfo},
    spec::{MapType, Spec},
};
use wingbeat_bpf_testing::object::{
    btf::bytes,
    typed::{Function, TypedObject},
};

use super::{
    raw::{self, RawMap},
    support::{
        asm, can_load, give, load as load_program, load_linked, program as program_spec, value,
    },
};

fn named(name: &str, value: i32) -> Loaded {
    let mut spec = program_spec(ProgramType::XDP);
    spec.name = name.to_owned();
    load_program(&spec, &give(value), &[]).expect("it loads")
}

#[test]
fn by_id_name_and_tag() {
    let Some(()) = can_load() else { return };
    let (one, same, other) = (named("found_one", 1), named("found_same", 1), named("found_two", 2));
    let ids = program::ids().expect("ids");
    assert!(ids.is_sorted());
    for loaded in [&one, &same, &other] {
        let id = loaded.info.id;
        assert!(ids.contains(&id));
        let opened = program::open(id).expect("it is open");
        assert_eq!(ProgramInfo::of(&opened).expect("info"), loaded.info);
    }
    // Other tests load and unload programs meanwhile.
    let infos = || ids.iter().filter_map(|&id| ProgramInfo::of(program::open(id).ok()?).ok());
    let with_name: Vec<_> =
        infos().filter(|info| info.name == "found_two").map(|info| info.id).collect();
    assert_eq!(with_name, [other.info.id]);
    assert_ne!(one.info.tag, other.info.tag);
    assert_eq!(one.info.tag, same.info.tag, "the name is not in it");
    let with_tag: Vec<_> =
        infos().filter(|info| info.tag == one.info.tag).map(|info| info.id).collect();
    assert!(with_tag.contains(&one.info.id) && with_tag.contains(&same.info.id));
    assert!(!with_tag.contains(&other.info.id));
    assert_eq!(one.info.tag_text().len(), 16);

    let gone = other.info.id;
    drop(other);
    // The kernel unloads it asynchronously.
    for _ in 0..500 {
        match program::open(gone) {
            Ok(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
            Err(error) => return assert_eq!(error.kind(), ErrorKind::NotFound),
        }
    }
    panic!("{gone} is still there");
}

#[test]
fn by_pin() {
    let Some(()) = can_load() else { return };
    let bpffs = PrivateBpffs::enter();
    let (loaded, map) = (named("pinned", 1), LoadedMap::results(8).expect("a map"));
    let (program_path, map_path) = (bpffs.path().join("program"), bpffs.path().join("map"));
    raw::pin(&loaded, &program_path).expect("pinned");
    raw::pin(&map, &map_path).expect("pinned");
    let opened = program::open_pinned(&program_path).expect("it is open");
    assert_eq!(ProgramInfo::of(&opened).expect("info"), loaded.info);
    let opened = program::open_pinned(&map_path).expect("it is open");
    assert_eq!(ProgramInfo::of(&opened).expect_err("a map").kind(), ErrorKind::InvalidInput);
    assert_eq!(program::full_name(&opened).expect_err("a map").kind(), ErrorKind::InvalidInput);
    let check = |path: &str, expected| {
        let error = program::open_pinned(path.as_ref()).expect_err(path);
        assert_eq!(error.kind(), expected, "{path}: {error}");
    };
    check(&format!("{}/absent", bpffs.path().display()), ErrorKind::NotFound);
    check("/proc/self/status", ErrorKind::PermissionDenied);
    check("/with\0zero", ErrorKind::InvalidInput);
}

#[test]
fn figures_of_a_program_that_is_not_rewritten() {
    let Some(()) = can_load() else { return };
    let insns = asm("r0 = 1; r0 += 1; r0 <<= 3; exit");
    let loaded = load_program(&program_spec(ProgramType::XDP), &insns, &[]).expect("it loads");
    let info = &loaded.info;
    assert_eq!(info.r#type, ProgramType::XDP);
    assert_eq!(info.name, "by_hand");
    assert_eq!(info.xlated_bytes, 8 * 4);
    assert!((8..1000).contains(&info.jited_bytes), "{info:?}");
    assert_eq!((info.verified_instructions, info.map_count), (4, 0));
    assert_eq!((info.run_count, info.recursion_misses), (0, 0));
    assert_eq!(info.user_id, rustix::process::getuid().as_raw());
    assert!(info.loaded_at_ns > 0);
    assert_eq!(raw::record_counts(&loaded), (0, 0));

    // The kernel translates offsets of a context, and resolves maps.
    let map = LoadedMap::results(8).expect("a map");
    let insns = asm("r2 = value 0; r0 = *(u32 *)(r1 + 4); r0 = 0; exit");
    let maps = [std::os::fd::AsFd::as_fd(&map)];
    let loaded = load_program(&program_spec(ProgramType::XDP), &insns, &maps).expect("it loads");
    assert_eq!((loaded.info.map_count, loaded.info.xlated_bytes), (1, 8 * 5));
}

#[test]
fn whole_names_and_lines_come_from_the_types() {
    let Some(()) = can_load() else { return };
    let name = "a_name_that_the_kernel_cuts_short";
    let mut file = TypedObject::new();
    file.program("xdp", name, &give(3));
    file.lines("xdp", &[(0, 3, "int found = 3;"), (1, 4, "return found;")]);
    let (loaded, _maps) = load_linked(&file.spec(), name).expect("it loads");
    assert_eq!(loaded.info.name, name[..15]);
    assert_eq!(program::full_name(&loaded).expect("a name").as_deref(), Some(name));
    assert_eq!(raw::record_counts(&loaded), (1, 2));
    let bare = named(name, 3);
    assert_eq!(bare.info.name, name[..15]);
    assert_eq!(program::full_name(&bare).expect("none"), None);
    assert_eq!(raw::record_counts(&bare), (0, 0));
    assert_eq!(bare.info.tag, loaded.info.tag, "the tag does not depend on types");
}

// Maps that an object shares by name: nothing is pinned, and existing pins are not used.

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
        let (loaded, _maps) = load_linked(&spec, "reader").expect("it loads");
        assert_eq!([value(&loaded), value(&loaded)], [0, 7], "the map is its own");
        assert_eq!(bpffs.list(), before, "while it is loaded");
    };
    check(by_types(), "shared");
    check(by_numbers(), "shared");
    assert_eq!(bpffs.list(), before, "afterwards");
    assert_eq!(theirs.lookup(&[0; 4]).expect("read"), 99_u64.to_ne_bytes());
}
