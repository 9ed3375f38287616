//! Arenas: variables, addresses, and the effect of a reset.

use wingbeat_bpf_loader::{
    loader::{Alarm, LoadedMaps, Loader},
    spec::{MapSpec, MapType, Spec},
};
use wingbeat_bpf_testing::object::typed::{Function, TypedObject};

use super::support::{asm, can_load, has_memory_without_locks, load_linked, since, value};

/// `BPF_F_MMAPABLE` and `BPF_F_SEGV_ON_FAULT` (include/uapi/linux/bpf.h, Linux 6.18).
const MMAPABLE: u32 = 1 << 10;
const SEGV_ON_FAULT: u32 = 1 << 17;

fn is_possible() -> Option<()> {
    since(6, 9, "an arena").then_some(())?;
    can_load().and_then(|()| has_memory_without_locks())
}

/// `return ++count` of the second variable, and programs that count elsewhere: behind the
/// variables, and in the third page.
fn object(numbers: &[(&str, u32)]) -> Spec {
    let mut file = TypedObject::new();
    file.types.define_map("arena", numbers, &[]);
    let len = 8 * numbers.len();
    let maps = file.data(".maps", &vec![0; len]);
    file.variable("arena", maps, 0, len as u64);
    let variables =
        file.data(".addr_space.1", &[7_u32.to_le_bytes(), 41_u32.to_le_bytes()].concat());
    file.variable("first", variables, 0, 4);
    let count = file.variable("count", variables, 4, 4);
    let add_one = "r1 = arena r1; r0 = *(u32 *)(r1 + 0); r0 += 1; *(u32 *)(r1 + 0) = r0; exit";
    for (name, distance) in [("counting", 0), ("near", 64), ("far", 8192)] {
        let insns = asm(&format!("r1 = value 0; r1 += {distance}; {add_one}"));
        let code = file.code(&format!("xdp/{name}"), &[Function::global(name, &insns, 0)]);
        file.refer(code, 0, count);
    }
    file.spec()
}

fn usual() -> Spec {
    object(&[("type", 33), ("map_flags", MMAPABLE), ("max_entries", 4)])
}

#[test]
fn variables_begin_with_their_values() {
    let Some(()) = is_possible() else { return };
    let (loaded, _maps) = load_linked(&usual(), "counting").expect("it loads");
    assert_eq!([value(&loaded), value(&loaded)], [42, 43]);
    let mut spec = usual();
    spec.set_global("count", &99_u32.to_le_bytes()).expect("it is set");
    let (loaded, _maps) = load_linked(&spec, "counting").expect("it loads");
    assert_eq!(value(&loaded), 100);
}

#[test]
fn a_reset_takes_all_pages_back() {
    let Some(()) = is_possible() else { return };
    let check = |program: &str, expected: [u32; 2]| {
        let (loaded, maps) = load_linked(&usual(), program).expect("it loads");
        for round in 0..3 {
            assert_eq!([value(&loaded), value(&loaded)], expected, "{program}, round {round}");
            maps.reset(&Alarm::never()).expect("it is reset");
        }
    };
    check("counting", [42, 43]);
    check("near", [1, 2]);
    // Its third page is not allocated: reads return zero, and writes are lost.
    check("far", [1, 1]);
}

/// Programs that are compared each have an arena of the same object.
#[test]
fn several_that_want_the_same_place() {
    let Some(()) = is_possible() else { return };
    let spec = MapSpec {
        flags: MMAPABLE,
        extra: 1 << 44,
        ..MapSpec::plain("arena", MapType::ARENA, (0, 0), 4)
    };
    let create = || LoadedMaps::create(std::slice::from_ref(&spec), None).expect("an arena");
    let all: Vec<LoadedMaps> = (0..3).map(|_| create()).collect();
    all.iter().for_each(|maps| maps.reset(&Alarm::never()).expect("it is reset"));
}

#[test]
fn arenas_that_the_kernel_refuses() {
    let Some(()) = is_possible() else { return };
    let check = |numbers: &[(&str, u32)], expected: &str| {
        let loader = Loader::new(&object(numbers)).expect("a loader");
        let text = loader.create_maps().expect_err("it is refused").to_string();
        assert!(text.contains(expected), "{text}");
    };
    let usual = [("type", 33), ("map_flags", MMAPABLE)];
    check(&[("type", 33), ("max_entries", 4)], "an arena needs the flag BPF_F_MMAPABLE");
    check(&[usual[0], usual[1], ("max_entries", 1 << 21)], "2097152 pages are more");
    check(&[usual[0], usual[1], ("max_entries", 1), ("map_extra", 7)], "7 (map_extra) is not one");
    // A write from outside would terminate the process with a signal.
    let strict = [("type", 33), ("map_flags", MMAPABLE | SEGV_ON_FAULT), ("max_entries", 4)];
    check(&strict, "BPF_F_SEGV_ON_FAULT");
}
