//! Features that depend on types: spin locks, timers, callbacks, and functions that are verified separately.

use std::{
    os::fd::AsFd as _,
    thread,
    time::{Duration, Instant},
};

use wingbeat_bpf_loader::{
    ProgramType,
    code::{Insn, op},
    loader::{Alarm, Loaded},
    spec::Spec,
};
use wingbeat_bpf_testing::object::{
    btf::{GLOBAL, STATIC},
    typed::{Function, TypedObject},
};

use super::{
    raw::RawMap,
    support::{asm, can_load, give, has_memory_without_locks, load_linked, run, value},
    verifier::rejection,
};

/// An array with one value of a structure: 8 bytes for counting behind the kernel-managed field.
fn with_map(mut file: TypedObject, kept: (&str, u32, u32), functions: &[(&str, &[Insn])]) -> Spec {
    let (name, size, alignment) = kept;
    let word = file.types.int("unsigned long", 8);
    let half = file.types.int("unsigned int", 4);
    let opaque = match alignment {
        8 => file.types.array(word, size / 8),
        _ => half,
    };
    let kept = file.types.structure(name, size, &[("opaque", opaque, 0)]);
    let at = size.next_multiple_of(8);
    let members = [("kept", kept, 0), ("count", word, 8 * at)];
    let value = file.types.structure("value", at + 8, &members);
    file.types.define_map(
        "state",
        &[("type", 2), ("max_entries", 1)],
        &[("key", half), ("value", value)],
    );
    let maps = file.data(".maps", &[0; 32]);
    let symbol = file.variable("state", maps, 0, 32);
    let mut all = Vec::new();
    for (index, &(name, insns)) in functions.iter().enumerate() {
        let is_global = index == 0;
        let type_id =
            if is_global { file.types.program(name) } else { callback_type(&mut file, name) };
        all.push(Function { name, insns, type_id, is_global });
    }
    let code = file.code("tc", &all);
    let insns = functions.iter().flat_map(|(_, insns)| *insns);
    for (index, insn) in insns.enumerate() {
        match insn.src() {
            op::PSEUDO_MAP_FD if insn.is_ldimm64() => file.refer(code, index as u64, symbol),
            op::PSEUDO_FUNC if insn.is_ldimm64() => {
                let callback = file.function(functions[1].0);
                file.refer(code, index as u64, callback);
            }
            _ => {}
        }
    }
    file.spec()
}

/// `static int NAME(void *map, void *key, void *value)`.
fn callback_type(file: &mut TypedObject, name: &str) -> u32 {
    let (int, any) = (file.types.int("int", 4), file.types.pointer(0));
    file.types.taking(name, STATIC, int, &[("map", any), ("key", any), ("value", any)])
}

/// `r6 = &state[0]`, or exit.
const LOOKUP: &str = "*(u32 *)(r10 - 4) = 0; r1 = map 0; r2 = r10; r2 += -4; call map_lookup_elem; \
                      if r0 != 0 goto +2; r0 = -1; exit; r6 = r0";

fn run_tc(loaded: &Loaded) -> u32 {
    run(loaded, ProgramType::SCHED_CLS, &[0; 14], 1).expect("it runs").return_value
}

#[test]
fn a_spin_lock() {
    let Some(()) = can_load() else { return };
    let insns = asm(&format!(
        "{LOOKUP}; r1 = r6; call spin_lock; r7 = *(u64 *)(r6 + 8); r7 += 1; *(u64 *)(r6 + 8) = r7; \
         r1 = r6; call spin_unlock; r0 = r7; exit"
    ));
    let spec = with_map(TypedObject::new(), ("bpf_spin_lock", 4, 4), &[("only", &insns)]);
    let (loaded, maps) = load_linked(&spec, "only").expect("it loads");
    assert_eq!([run_tc(&loaded), run_tc(&loaded)], [1, 2]);
    maps.reset(&Alarm::never()).expect("they are reset");
    assert_eq!(run_tc(&loaded), 1, "the count begins anew");
}

#[test]
fn a_timer() {
    let Some(()) = can_load().and_then(|()| has_memory_without_locks()) else { return };
    // On CLOCK_MONOTONIC; then the callback, then at once.
    let insns = asm(&format!(
        "{LOOKUP}; r1 = r6; r2 = map 0; r3 = 1; call timer_init; r7 = r0; r1 = r6; r2 = function; \
         call timer_set_callback; r1 = r6; r2 = 0; r3 = 0; call timer_start; r0 = r7; exit"
    ));
    let callback = asm("*(u64 *)(r3 + 16) = 55; r0 = 0; exit");
    let functions: [(&str, &[Insn]); 2] = [("only", &insns), ("expired", &callback)];
    let spec = with_map(TypedObject::new(), ("bpf_timer", 16, 8), &functions);
    let (loaded, maps) = load_linked(&spec, "only").expect("it loads");
    assert_eq!(run_tc(&loaded), 0, "the timer is new");
    let state = RawMap { fd: maps.all()[0].as_fd(), key_len: 4, value_len: 24 };
    let deadline = Instant::now() + Duration::from_secs(5);
    while state.lookup(&[0; 4]).expect("read")[16..] != 55_u64.to_ne_bytes() {
        assert!(Instant::now() < deadline, "the timer has not expired");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A pending timer reads as zero, but exists.
#[test]
fn a_timer_that_waits_is_gone_after_a_reset() {
    let Some(()) = can_load().and_then(|()| has_memory_without_locks()) else { return };
    let insns = asm(&format!(
        "{LOOKUP}; r1 = r6; r2 = map 0; r3 = 1; call timer_init; r7 = r0; r1 = r6; r2 = function; \
         call timer_set_callback; r1 = r6; r2 = 1000000000; r3 = 0; call timer_start; r0 = r7; exit"
    ));
    let callback = asm("*(u64 *)(r3 + 16) = 55; r0 = 0; exit");
    let functions: [(&str, &[Insn]); 2] = [("only", &insns), ("expired", &callback)];
    let spec = with_map(TypedObject::new(), ("bpf_timer", 16, 8), &functions);
    let (loaded, maps) = load_linked(&spec, "only").expect("it loads");
    let busy = (-libc::EBUSY).cast_unsigned();
    for _ in 0..3 {
        assert_eq!([run_tc(&loaded), run_tc(&loaded)], [0, busy]);
        maps.reset(&Alarm::never()).expect("it is reset");
    }
    // The removed timer must not expire.
    thread::sleep(Duration::from_millis(1_200));
    let state = RawMap { fd: maps.all()[0].as_fd(), key_len: 4, value_len: 24 };
    assert_eq!(state.lookup(&[0; 4]).expect("read"), [0; 24]);
}

/// `only` calls `seven`, which returns 7, and reads as many stack bytes as it returns.
fn trusting(linkage: u32) -> Spec {
    let mut file = TypedObject::new();
    let only = file.types.program("only");
    let int = file.types.int("int", 4);
    let seven = file.types.taking("seven", linkage, int, &[]);
    let insns = asm(
        "*(u64 *)(r10 - 8) = 0x55; call +5; r2 = r10; r2 += -8; r2 += r0; r0 = *(u8 *)(r2 - 7); exit",
    );
    let is_global = linkage == GLOBAL;
    let functions = [
        Function::global("only", &insns, only),
        Function { name: "seven", insns: &give(7), type_id: seven, is_global },
    ];
    file.code("xdp", &functions);
    file.spec()
}

#[test]
fn a_global_function_is_checked_on_its_own() {
    let Some(()) = can_load() else { return };
    let (loaded, _) =
        load_linked(&trusting(STATIC), "only").expect("the verifier follows the call");
    assert_eq!(value(&loaded), 0x55);
    let (_, text) =
        rejection(load_linked(&trusting(GLOBAL), "only").expect_err("it may return anything"));
    assert!(text.contains("R2"), "{text}");

    // One that validates the result.
    let mut file = TypedObject::new();
    let only = file.types.program("only");
    let int = file.types.int("int", 4);
    let twice = file.types.taking("twice", GLOBAL, int, &[("number", int)]);
    let insns = asm("r1 = 21; call +1; exit");
    let doubled = asm("r0 = r1; r0 += r1; exit");
    let twice = Function::global("twice", &doubled, twice);
    file.code("xdp", &[Function::global("only", &insns, only), twice]);
    let (loaded, _) = load_linked(&file.spec(), "only").expect("it loads");
    assert_eq!(value(&loaded), 42);
    assert_eq!(loaded.verifier.stack_depths.len(), 2);
}
