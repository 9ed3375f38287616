//! Maps are reset to the state after filling, whatever programs did to them.

use std::{
    os::fd::{AsFd as _, BorrowedFd},
    sync::atomic::AtomicBool,
    time::Instant,
};

use wingbeat_bpf_loader::{
    ProgramType,
    code::Insn,
    loader::{Alarm, LoadedMaps, ResetError},
    spec::{MapSpec, MapType, Slot},
};

use super::{
    raw::RawMap,
    support::{asm, can_load, give, load as load_program, program, since, value},
};

/// `BPF_F_NO_PREALLOC` and `BPF_F_NO_COMMON_LRU` (include/uapi/linux/bpf.h, Linux 6.18).
pub(crate) const NO_PREALLOC: u32 = 1;
const NO_COMMON_LRU: u32 = 2;

/// `BPF_F_RDONLY` and `BPF_F_WRONLY`, of the same file.
const RDONLY: u32 = 1 << 3;
const WRONLY: u32 = 1 << 4;

pub(crate) type Entries = Vec<(Vec<u8>, Vec<u8>)>;

pub(crate) fn created(spec: &MapSpec) -> LoadedMaps {
    LoadedMaps::create(std::slice::from_ref(spec), None).expect("a map")
}

pub(crate) fn raw<'a>(maps: &'a LoadedMaps, spec: &MapSpec) -> RawMap<BorrowedFd<'a>> {
    let map = &maps.all()[0];
    let key_len = if spec.r#type.is_queue() { 0 } else { spec.key_size as usize };
    RawMap { fd: map.as_fd(), key_len, value_len: map.value_len() }
}

/// A program with `map[key] = value`, for 8-byte keys and values.
pub(crate) fn updates(entries: &[(u64, i32)]) -> Vec<Insn> {
    let update = |&(key, value): &(u64, i32)| {
        let [low, high] = [key as u32, (key >> 32) as u32].map(u32::cast_signed);
        asm(&format!(
            "*(u32 *)(r10 - 16) = {low}; *(u32 *)(r10 - 12) = {high}; *(u64 *)(r10 - 8) = {value}; \
             r1 = map 0; r2 = r10; r2 += -16; r3 = r10; r3 += -8; r4 = 0; call map_update_elem"
        ))
    };
    entries.iter().flat_map(update).chain(give(0)).collect()
}

/// Runs a program once that has map 0.
fn disturb(insns: &[Insn], maps: &LoadedMaps) -> u32 {
    let loaded = load_program(&program(ProgramType::XDP), insns, &maps.descriptors());
    value(&loaded.expect("it loads"))
}

/// A map with 8-byte keys and values and two entries: a program changes one and adds two more, user
/// space removes the other.
fn check_keyed(kind: MapType, flags: u32) {
    let mut spec = MapSpec::plain("keyed", kind, (8, 8), 16);
    spec.flags = flags;
    let mut maps = created(&spec);
    let len = maps.all()[0].value_len();
    // Keys of a trie begin with the number of significant bits.
    let key = |number: u64| if kind == MapType::LPM_TRIE { 32 | number << 32 } else { number };
    let filled: Entries = [(key(1), 11_u8), (key(2), 22)]
        .map(|(key, value)| (key.to_ne_bytes().to_vec(), vec![value; len]))
        .into();
    maps.get_mut("keyed").expect("the map").fill(&filled, &Alarm::never()).expect("filled");
    let before = raw(&maps, &spec).entries();
    assert_eq!(before, filled, "{kind}");
    for round in 0..3 {
        disturb(&updates(&[(key(1), 99), (key(3), 33), (key(4), 44)]), &maps);
        raw(&maps, &spec).delete(&key(2).to_ne_bytes()).expect("removed");
        assert_eq!(raw(&maps, &spec).entries().len(), 3, "{kind}, round {round}");
        maps.reset(&Alarm::never()).expect("it is reset");
        assert_eq!(raw(&maps, &spec).entries(), before, "{kind}, round {round}");
    }
}

#[test]
fn maps_with_keys() {
    let Some(()) = can_load() else { return };
    check_keyed(MapType::HASH, 0);
    check_keyed(MapType::HASH, NO_PREALLOC);
    check_keyed(MapType::PERCPU_HASH, 0);
    check_keyed(MapType::LRU_HASH, 0);
    check_keyed(MapType::LRU_HASH, NO_COMMON_LRU);
    check_keyed(MapType::LRU_PERCPU_HASH, 0);
    check_keyed(MapType::LPM_TRIE, NO_PREALLOC);
}

/// Per-CPU lists have room for more entries than requested.
#[test]
fn maps_that_are_full() {
    let Some(()) = can_load() else { return };
    let check = |kind, flags| {
        let mut spec = MapSpec::plain("full", kind, (8, 8), 3);
        spec.flags = flags;
        let maps = created(&spec);
        let entries: Vec<_> = (0..64).map(|key| (key, 1)).collect();
        disturb(&updates(&entries), &maps);
        assert!(!raw(&maps, &spec).entries().is_empty(), "{kind}");
        maps.reset(&Alarm::never()).expect("it is reset");
        assert_eq!(raw(&maps, &spec).entries(), [], "{kind}");
    };
    check(MapType::HASH, 0);
    check(MapType::LRU_HASH, 0);
    check(MapType::LRU_HASH, NO_COMMON_LRU);
    check(MapType::LRU_PERCPU_HASH, NO_COMMON_LRU);
}

#[test]
fn maps_that_user_space_may_only_read_or_write() {
    let Some(()) = can_load() else { return };
    let check = |kind: MapType, flags, expected: bool| {
        let mut spec = MapSpec::plain("closed", kind, (4, 8), 4);
        spec.flags = flags;
        let maps = created(&spec);
        let is_reset = match maps.reset(&Alarm::never()) {
            Ok(()) => true,
            Err(ResetError::NotInPlace(_)) => false,
            Err(error) => panic!("{kind}, {flags}: {error}"),
        };
        assert_eq!(is_reset, expected, "{kind}, {flags}");
    };
    check(MapType::ARRAY, RDONLY, false);
    check(MapType::ARRAY, WRONLY, true);
    check(MapType::HASH, RDONLY, false);
    check(MapType::HASH, WRONLY, false);
}

#[test]
fn arrays() {
    let Some(()) = can_load() else { return };
    let check = |kind: MapType| {
        let spec = MapSpec::plain("array", kind, (4, 8), 5);
        let mut maps = created(&spec);
        let len = maps.all()[0].value_len();
        let entry = |index: u32, value: u8| (index.to_ne_bytes().to_vec(), vec![value; len]);
        // The last fill counts.
        let filled = [entry(1, 7), entry(1, 8), entry(4, 9)];
        maps.get_mut("array").expect("the map").fill(&filled, &Alarm::never()).expect("filled");
        let before = raw(&maps, &spec).entries();
        assert_eq!(before, [entry(0, 0), entry(1, 8), entry(2, 0), entry(3, 0), entry(4, 9)]);
        // The program sees four bytes of the key and ignores the upper half.
        disturb(&updates(&[(1, 99), (2, 99)]), &maps);
        raw(&maps, &spec).update(&4_u32.to_ne_bytes(), &vec![1; len]).expect("changed");
        let changed = raw(&maps, &spec).entries();
        let count = before.iter().zip(&changed).filter(|(before, after)| before != after).count();
        assert_eq!(count, 3, "{kind}: {changed:?}");
        maps.reset(&Alarm::never()).expect("it is reset");
        assert_eq!(raw(&maps, &spec).entries(), before, "{kind}");
    };
    check(MapType::ARRAY);
    check(MapType::PERCPU_ARRAY);
}

#[test]
fn queues_and_stacks() {
    let Some(()) = can_load() else { return };
    let check = |kind: MapType, expected: [u64; 2]| {
        let spec = MapSpec::plain("queue", kind, (0, 8), 4);
        let mut maps = created(&spec);
        let filled = [1_u64, 2].map(|value| (Vec::new(), value.to_ne_bytes().to_vec()));
        maps.get_mut("queue").expect("the map").fill(&filled, &Alarm::never()).expect("filled");
        let push = asm("*(u64 *)(r10 - 8) = 3; r1 = map 0; r2 = r10; r2 += -8; r3 = 0; \
                        call map_push_elem; exit");
        for _ in 0..3 {
            assert_eq!(disturb(&push, &maps), 0, "{kind}");
            maps.reset(&Alarm::never()).expect("it is reset");
        }
        let expected = expected.map(|value| value.to_ne_bytes().to_vec());
        assert_eq!(raw(&maps, &spec).drain(), expected, "{kind}");
        // Removed by user space.
        maps.reset(&Alarm::never()).expect("it is reset");
        assert_eq!(raw(&maps, &spec).drain(), expected, "{kind}");
    };
    check(MapType::QUEUE, [1, 2]);
    check(MapType::STACK, [2, 1]);
}

#[test]
fn ring_buffers() {
    let Some(()) = can_load() else { return };
    let spec = MapSpec::plain("ring", MapType::RINGBUF, (0, 0), 4096);
    let maps = created(&spec);
    let output = asm("*(u64 *)(r10 - 8) = 3; r1 = map 0; r2 = r10; r2 += -8; r3 = 8; r4 = 0; \
                      call ringbuf_output; exit");
    // Unread bytes.
    let query = asm("r1 = map 0; r2 = 0; call ringbuf_query; exit");
    let load = |insns| load_program(&program(ProgramType::XDP), insns, &maps.descriptors());
    let (output, query) = (load(&output).expect("it loads"), load(&query).expect("it loads"));
    // A record of 8 bytes has an 8-byte header. In total more records than fit.
    for _ in 0..3 {
        for count in 1..=100 {
            assert_eq!((value(&output), value(&query)), (0, 16 * count));
        }
        maps.reset(&Alarm::never()).expect("it is reset");
        assert_eq!(value(&query), 0);
    }
    // Full: further records are rejected, and there is room again afterwards.
    while value(&output) == 0 {}
    maps.reset(&Alarm::never()).expect("it is reset");
    assert_eq!((value(&query), value(&output)), (0, 0));
}

/// `return inner map[0] of slot`, or 1000 without one.
fn reads_inner(slot: i32) -> Vec<Insn> {
    asm(&format!(
        "*(u32 *)(r10 - 4) = {slot}; r1 = map 0; r2 = r10; r2 += -4; call map_lookup_elem; \
         if r0 == 0 goto +9; r1 = r0; *(u32 *)(r10 - 4) = 0; r2 = r10; r2 += -4; \
         call map_lookup_elem; if r0 == 0 goto +3; r1 = r0; r0 = *(u32 *)(r1 + 0); exit; r0 = 1000; exit"
    ))
}

#[test]
fn maps_of_maps_keep_their_maps_and_these_their_values() {
    let Some(()) = can_load() else { return };
    let check = |kind: MapType| {
        let inner = |name: &str| MapSpec::plain(name, MapType::ARRAY, (4, 8), 1);
        let mut outer = MapSpec::plain("outer", kind, (4, 4), 3);
        outer.inner = Some(Box::new(inner("inner")));
        outer.slots = vec![(0, Slot::Map("b".into())), (2, Slot::Map("c".into()))];
        let specs = [outer.clone(), inner("b"), inner("c")];
        let mut maps = LoadedMaps::create(&specs, None).expect("maps");
        for (name, value) in [("b", 5_u64), ("c", 6)] {
            let entry = (vec![0; 4], value.to_ne_bytes().to_vec());
            maps.get_mut(name).expect("the map").fill(&[entry], &Alarm::never()).expect("filled");
        }
        let read = |maps: &LoadedMaps| [0, 1, 2].map(|slot| disturb(&reads_inner(slot), maps));
        assert_eq!(read(&maps), [5, 1000, 6], "{kind}");
        let ids = raw(&maps, &outer).entries();
        assert_eq!(ids.len(), 2, "{kind}");
        let changed = RawMap { fd: maps.all()[1].as_fd(), key_len: 4, value_len: 8 };
        changed.update(&[0; 4], &7_u64.to_ne_bytes()).expect("changed");
        assert_eq!(read(&maps), [7, 1000, 6], "{kind}");
        maps.reset(&Alarm::never()).expect("they are reset");
        assert_eq!(read(&maps), [5, 1000, 6], "{kind}");
        assert_eq!(raw(&maps, &outer).entries(), ids, "{kind}");
    };
    check(MapType::ARRAY_OF_MAPS);
    check(MapType::HASH_OF_MAPS);
}

#[test]
fn maps_that_the_user_puts_into_others() {
    let Some(()) = can_load() else { return };
    for kind in [MapType::ARRAY_OF_MAPS, MapType::HASH_OF_MAPS] {
        let inner = |name: &str| MapSpec::plain(name, MapType::ARRAY, (4, 8), 1);
        let mut outer = MapSpec::plain("outer", kind, (4, 4), 3);
        outer.inner = Some(Box::new(inner("inner")));
        outer.slots = vec![(1, Slot::Map("c".into()))];
        outer.put_in = [0, 1].map(|key: u32| (key.to_ne_bytes().to_vec(), "b".into())).into();
        let mut maps = LoadedMaps::create(&[outer, inner("b"), inner("c")], None).expect("maps");
        let entry = (vec![0; 4], 5_u64.to_ne_bytes().to_vec());
        maps.get_mut("b").expect("the map").fill(&[entry], &Alarm::never()).expect("filled");
        let read = [0, 1, 2].map(|slot| disturb(&reads_inner(slot), &maps));
        assert_eq!(read, [5, 5, 1000], "{kind}");
    }
}

#[test]
fn tables_of_programs() {
    let Some(()) = can_load() else { return };
    let maps = created(&MapSpec::plain("table", MapType::PROG_ARRAY, (4, 4), 3));
    let target = load_program(&program(ProgramType::XDP), &give(77), &[]).expect("it loads");
    let call_slot = |slot| {
        let jump = format!("r2 = map 0; r3 = {slot}; call tail_call; r0 = 1000; exit");
        disturb(&asm(&jump), &maps)
    };
    assert_eq!([0, 1, 2].map(call_slot), [1000; 3], "before it is loaded");
    maps.all()[0].put_program(1, target.as_fd()).expect("filled");
    assert_eq!([0, 1, 2].map(call_slot), [1000, 77, 1000]);
    maps.reset(&Alarm::never()).expect("it is reset");
    assert_eq!([0, 1, 2].map(call_slot), [1000, 77, 1000]);
    // All programs of a table have the same type.
    let other = load_program(&program(ProgramType::SCHED_CLS), &give(0), &[]).expect("it loads");
    let error = maps.all()[0].put_program(1, other.as_fd()).expect_err("another type");
    assert!(error.to_string().starts_with("cannot fill map table (prog_array): "), "{error}");
}

#[test]
fn tables_for_redirection() {
    let Some(()) = can_load() else { return };
    let check = |kind: MapType, entry: Option<u32>| {
        let spec = MapSpec::plain("table", kind, (4, 4), 4);
        let mut maps = created(&spec);
        let filled: Entries =
            entry.map(|entry| (vec![0; 4], entry.to_ne_bytes().to_vec())).into_iter().collect();
        maps.get_mut("table").expect("the map").fill(&filled, &Alarm::never()).expect("filled");
        maps.reset(&Alarm::never()).expect("it is reset");
        assert_eq!(raw(&maps, &spec).entries(), filled, "{kind}");
    };
    // The loopback interface; a queue of 64 frames, of the first CPU.
    check(MapType::DEVMAP, Some(1));
    check(MapType::DEVMAP_HASH, Some(1));
    check(MapType::CPUMAP, Some(64));
    check(MapType::XSKMAP, None);
}

/// User space cannot read these; this only checks that resetting them does no harm.
#[test]
fn tables_that_cannot_be_read() {
    let Some(()) = can_load() else { return };
    let check = |kind: MapType, sizes, entries_max| {
        let spec = MapSpec::plain("table", kind, sizes, entries_max);
        let maps = created(&spec);
        maps.reset(&Alarm::never()).unwrap_or_else(|error| panic!("{kind}: {error}"));
        // Before, it is entries times their sizes, and this one has neither.
        let is_counted = kind != MapType::USER_RINGBUF || since(6, 4, "memory of ring buffers");
        assert!(maps.memory_bytes().is_some_and(|bytes| bytes > 0 || !is_counted), "{kind}");
    };
    check(MapType::PERF_EVENT_ARRAY, (4, 4), 0);
    check(MapType::CGROUP_ARRAY, (4, 4), 2);
    check(MapType::USER_RINGBUF, (0, 0), 4096);
}

#[test]
fn maps_that_have_to_be_created_anew() {
    let Some(()) = can_load() else { return };
    let check = |kind: MapType, sizes, entries_max| {
        let spec = MapSpec::plain("stubborn", kind, sizes, entries_max);
        let maps = created(&spec);
        let error = maps.reset(&Alarm::never()).expect_err("it cannot be reset");
        assert!(matches!(error, ResetError::NotInPlace(_)), "{kind}: {error}");
        assert_eq!(error.to_string(), "map stubborn cannot be restored in place");
    };
    check(MapType::STACK_TRACE, (4, 8), 8);
    check(MapType::BLOOM_FILTER, (0, 8), 8);
    check(MapType::SOCKMAP, (4, 4), 8);
    check(MapType::SOCKHASH, (4, 4), 8);
    // Resetting it would take longer than recreating it.
    check(MapType::ARRAY, (4, 4096), 257);
}

// Maps with many entries or large values: reset in time, or skipped if no program can write to them.

/// Adds 8-byte keys, from 0 on.
fn fill(maps: &LoadedMaps, keys: std::ops::Range<u64>) {
    let map = &maps.all()[0];
    let value = vec![1; map.value_len()];
    keys.for_each(|key| map.set(&key.to_ne_bytes(), &value).expect("set"));
}

/// Clearing a map with many buckets visits each bucket once, not once per entry, which takes
/// seconds. Takes the minimum of three, because of other load.
#[test]
fn clearing_takes_time_that_is_linear() {
    let Some(()) = can_load() else { return };
    let check = |kind, flags| {
        let spec = MapSpec { flags, ..MapSpec::plain("large", kind, (8, 8), 1 << 19) };
        let maps = created(&spec);
        let times = [(); 3].map(|()| {
            fill(&maps, 0..16_000);
            let begun = Instant::now();
            maps.reset(&Alarm::never()).expect("it is reset");
            begun.elapsed()
        });
        assert!(times.iter().any(|time| time.as_secs_f64() < 0.5), "{kind}: {times:?}");
        assert_eq!(raw(&maps, &spec).entries(), []);
    };
    check(MapType::HASH, 0);
    check(MapType::HASH, NO_PREALLOC);
    check(MapType::LRU_HASH, 0);
}

/// More entries than are removed at a time.
#[test]
fn maps_with_many_entries() {
    let Some(()) = can_load() else { return };
    let check = |kind, flags| {
        let mut spec = MapSpec::plain("many", kind, (8, 8), 50_000);
        spec.flags = flags;
        let mut maps = created(&spec);
        let len = maps.all()[0].value_len();
        let key = |number: u64| if kind == MapType::LPM_TRIE { 32 | number << 32 } else { number };
        let mut filled: Entries =
            (0..20_000).map(|it| (key(it).to_ne_bytes().to_vec(), vec![7; len])).collect();
        filled.sort();
        maps.get_mut("many").expect("the map").fill(&filled, &Alarm::never()).expect("filled");
        let other = vec![8; len];
        for number in 10_000..40_000 {
            maps.all()[0].set(&key(number).to_ne_bytes(), &other).expect("set");
        }
        maps.reset(&Alarm::never()).expect("it is reset");
        assert_eq!(raw(&maps, &spec).entries(), filled, "{kind}");
        let over = AtomicBool::new(true);
        let error = maps.reset(&Alarm::new(&over)).expect_err("there is no time");
        assert!(matches!(error, ResetError::TimeOver(_)), "{kind}: {error}");
        let error = error.to_string();
        assert_eq!(error, "the time ran out while map many was restored; increase --time");
    };
    check(MapType::HASH, 0);
    check(MapType::PERCPU_HASH, 0);
    check(MapType::LPM_TRIE, NO_PREALLOC);
}

/// Entries that share a bucket, however few are removed at a time.
#[test]
fn large_values() {
    let Some(()) = can_load() else { return };
    let spec = MapSpec::plain("large", MapType::HASH, (8, 1 << 18), 128);
    let maps = created(&spec);
    fill(&maps, 0..128);
    maps.reset(&Alarm::never()).expect("it is reset");
    assert_eq!(raw(&maps, &spec).entries(), []);
}

/// A map that no program can write to is not reset, whatever user space writes to it.
#[test]
fn hashes_that_programs_only_read() {
    let Some(()) = can_load() else { return };
    let check = |kind: MapType, flags| {
        let spec = MapSpec { flags, ..MapSpec::plain("large", kind, (8, 8), 5_000) };
        let maps = LoadedMaps::create_with(std::slice::from_ref(&spec), None, &[0], |_| true);
        let maps = maps.expect("a map");
        let loads = |insns: &[Insn]| {
            let program = program(ProgramType::XDP);
            load_program(&program, insns, &maps.descriptors()).is_ok()
        };
        assert!(!loads(&updates(&[(1, 99)])), "{kind}");
        let lookup = "*(u64 *)(r10 - 8) = 1; r2 = r10; r2 += -8; r1 = map 0; call map_lookup_elem";
        assert!(loads(&asm(&format!("{lookup}; r0 = 0; exit"))), "{kind}");
        let key = (1_u64 << 32 | 32).to_ne_bytes();
        maps.all()[0].set(&key, &[7; 8]).expect("set");
        maps.reset(&Alarm::never()).expect("there is nothing to do");
        let there = maps.all()[0].lookup(&key).expect("read");
        assert_eq!(there.as_deref(), Some(&[7; 8][..]), "{kind}");
    };
    check(MapType::HASH, 0);
    check(MapType::LRU_HASH, 0);
    check(MapType::LPM_TRIE, NO_PREALLOC);
}

#[test]
fn large_maps_that_programs_only_read() {
    let Some(()) = can_load() else { return };
    let spec = MapSpec::plain("large", MapType::ARRAY, (4, 4096), 257);
    let maps = LoadedMaps::create_with(&[spec], None, &[0], |_| true).expect("a map");
    let found = |then: &str| {
        asm(&format!(
            "*(u32 *)(r10 - 4) = 0; r2 = r10; r2 += -4; r1 = map 0; call map_lookup_elem; \
             if r0 == 0 goto +1; {then}; r0 = 0; exit"
        ))
    };
    let check = |insns: &[Insn], expected: bool| {
        let loaded = load_program(&program(ProgramType::XDP), insns, &maps.descriptors());
        assert_eq!(loaded.is_ok(), expected, "{insns:?}");
    };
    check(&give(0), true);
    check(&found("r1 = *(u64 *)(r0 + 8)"), true);
    check(&found("*(u64 *)(r0 + 8) = 1"), false);
    maps.reset(&Alarm::never()).expect("there is nothing to do");
}
