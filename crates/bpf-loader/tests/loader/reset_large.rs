//! Maps with many entries or large values: reset in time, or skipped if no program can write to them.

use std::{sync::atomic::AtomicBool, time::Instant};

use wingbeat_bpf_loader::{
    ProgramType,
    code::Insn,
    loader::{Alarm, LoadedMaps, ResetError},
    spec::{MapSpec, MapType},
};

use crate::{
    bytecode::{asm, give},
    reset::{Entries, NO_PREALLOC, created, raw, updates},
    support::{can_load, load as load_program, program},
};

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
