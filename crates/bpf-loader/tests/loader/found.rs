//! Finds programs by id, name, tag and pin, and checks the kernel's info about them.

use std::io::ErrorKind;

use wingbeat_bpf_loader::{
    ProgramType,
    loader::{Loaded, LoadedMap},
    program::{self, ProgramInfo},
};
use wingbeat_bpf_testing::object::typed::TypedObject;

use crate::{
    pins::PrivateBpffs,
    raw,
    support::{asm, can_load, give, load as load_program, load_linked, program as program_spec},
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
    let spec = file.spec();
    let load = |without_types| load_linked(&spec, name, without_types).expect("it loads").0;
    let loaded = load(false);
    assert_eq!(loaded.info.name, name[..15]);
    assert_eq!(program::full_name(&loaded).expect("a name").as_deref(), Some(name));
    assert_eq!(raw::record_counts(&loaded), (1, 2));
    let bare = load(true);
    assert_eq!(bare.info.name, name[..15]);
    assert_eq!(program::full_name(&bare).expect("none"), None);
    assert_eq!(raw::record_counts(&bare), (0, 0));
    assert_eq!(bare.info.tag, loaded.info.tag, "types are no part of the code");
}
