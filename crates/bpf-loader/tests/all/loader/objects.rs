//! Parts of objects that depend on the kernel or the caller: global variables, accesses to kernel structures, struct_ops.

use wingbeat_bpf_loader::{
    KernelTypes,
    code::Insn,
    loader::{Alarm, LoadError, Loaded, Loader, ResetError},
    spec::Spec,
};
use wingbeat_bpf_testing::object::typed::{Function, TypedObject};

use super::support::{asm, can_load, give, load_linked, value};

// Global variables set before loading change the behaviour of a program.

/// `return FACTOR * offset`, of a constant in `.rodata` and the second variable in `.data`.
fn object() -> Spec {
    let mut file = TypedObject::new();
    let constants = file.data(".rodata", &6_u32.to_le_bytes());
    let factor = file.variable("FACTOR", constants, 0, 4);
    let variables = file.data(".data", &[1_u32.to_le_bytes(), 7_u32.to_le_bytes()].concat());
    file.variable("first", variables, 0, 4);
    let second = file.variable("second", variables, 4, 4);
    let insns = asm("r1 = value 0; r0 = *(u32 *)(r1 + 0); r1 = value 0; r2 = *(u32 *)(r1 + 0); \
                     r0 *= r2; exit");
    let code = file.code("xdp", &[Function::global("product", &insns, 0)]);
    file.refer(code, 0, factor);
    file.refer(code, 3, second);
    file.spec()
}

/// Return value of the program with these variables set.
fn product(set: &[(&str, u32)]) -> u32 {
    let mut spec = object();
    for (name, number) in set {
        spec.set_global(name, &number.to_le_bytes()).expect("it is set");
    }
    value(&load_linked(&spec, "product").expect("it loads").0)
}

#[test]
fn values_that_are_set() {
    let Some(()) = can_load() else { return };
    let check = |set: &[(&str, u32)], expected| assert_eq!(product(set), expected, "{set:?}");
    check(&[], 42);
    check(&[("FACTOR", 100)], 700);
    check(&[("second", 3)], 18);
    check(&[("FACTOR", 0xffff_ffff), ("second", 1)], 0xffff_ffff);
    // Its neighbour is another variable.
    check(&[("first", 99)], 42);
}

#[test]
fn constants_cannot_be_written() {
    let Some(()) = can_load() else { return };
    let spec = object();
    let loader = Loader::new(&spec).expect("a loader");
    let mut maps = loader.create_maps().expect("maps");
    let constants = maps.get_mut(".rodata").expect("constants");
    assert_eq!(constants.lookup(&[0; 4]).expect("read"), Some(6_u32.to_le_bytes().to_vec()));
    let error =
        constants.fill(&[(vec![0; 4], vec![9; 4])], &Alarm::never()).expect_err("it is frozen");
    let ResetError::Map(error) = error else { panic!("{error}") };
    assert_eq!(error.source.raw_os_error(), Some(libc::EPERM), "{error}");
    maps.reset(&Alarm::never()).expect("nothing to be done for it");
}

// Relocates accesses to kernel structures (CO-RE) for the running kernel.

/// Access kinds (`enum bpf_core_relo_kind`, include/uapi/linux/bpf.h, Linux 6.18).
const BYTE_OFFSET: u32 = 0;
const BYTE_SIZE: u32 = 1;
const EXISTS: u32 = 2;

/// Return value of a program that returns an access to a member; the object assumes an integer at offset 0.
fn accessed(structure: &str, member: &str, kind: u32) -> Result<u32, LoadError> {
    let mut file = TypedObject::new();
    let int = file.types.int("int", 4);
    let local = file.types.structure(structure, 4, &[(member, int, 0)]);
    // The value for the object's types.
    let insns = give(match kind {
        BYTE_OFFSET => 0,
        BYTE_SIZE => 4,
        _ => 1,
    });
    file.program("xdp", "access", &insns);
    file.access("xdp", 0, local, "0:0", kind);
    let spec = file.spec();
    assert!(spec.needs_target_types());
    load_linked(&spec, "access").map(|(loaded, _)| value(&loaded))
}

#[test]
fn places_of_members() {
    let Some(()) = can_load() else { return };
    let kernel = KernelTypes::from_kernel().expect("types");
    let check = |structure: &str, member: &str| {
        let expected = kernel.member_offset_bytes(structure, member).expect("the kernel has it");
        let found = accessed(structure, member, BYTE_OFFSET).expect("it loads");
        assert_eq!(found, expected, "{structure}.{member}");
    };
    check("task_struct", "pid");
    check("task_struct", "tgid");
    check("sk_buff", "len");
    // In an anonymous structure.
    check("sk_buff", "skb_iif");
    check("sock_common", "skc_hash");
}

#[test]
fn sizes_and_what_there_is() {
    let Some(()) = can_load() else { return };
    let check = |structure: &str, member: &str, kind, expected| {
        let found = accessed(structure, member, kind).expect("it loads");
        assert_eq!(found, expected, "{structure}.{member}");
    };
    check("task_struct", "pid", BYTE_SIZE, 4);
    check("task_struct", "pid", EXISTS, 1);
    check("task_struct", "no_such_member", EXISTS, 0);
    check("no_such_structure", "pid", EXISTS, 0);
    // Flavours of structures are only for people.
    check("task_struct___old", "pid", EXISTS, 1);
}

#[test]
fn what_the_kernel_does_not_have() {
    let Some(()) = can_load() else { return };
    let error = accessed("task_struct", "no_such_member", BYTE_OFFSET).expect_err("not there");
    let text = error.to_string();
    let expected =
        "; the program accesses a type or a member that this kernel does not have (CO-RE)\n";
    assert!(text.contains(expected), "{text}");
}

// struct_ops programs, loaded for the members that they implement.

/// The program `own` as the second member of a structure, with these names.
fn implementing(structure: &str, member: &str, insns: &[Insn]) -> Spec {
    let mut file = TypedObject::new();
    file.code("struct_ops/own", &[Function::global("own", insns, 0)]);
    let own = file.function("own");
    let data = file.data(".struct_ops.link", &[0; 16]);
    file.variable("filled", data, 0, 16);
    file.refer(data, 1, own);
    let pointer = file.types.pointer(0);
    let members = [("other", pointer, 0), (member, pointer, 64)];
    let structure = file.types.structure(structure, 16, &members);
    file.types.only_variable(".struct_ops.link", "filled", structure, 16);
    file.spec()
}

fn loaded(structure: &str, member: &str, insns: &[Insn]) -> Result<Loaded, LoadError> {
    load_linked(&implementing(structure, member, insns), "own").map(|(loaded, _)| loaded)
}

fn has(structure: &str) -> bool {
    let types = KernelTypes::from_kernel().expect("the kernel's types");
    let found = types.structure_id(&format!("bpf_struct_ops_{structure}")).is_some();
    if !found {
        eprintln!("left out: this kernel has no {structure} for programs");
    }
    found
}

#[test]
fn members_of_the_kernels_structures() {
    if can_load().is_none() || !has("tcp_congestion_ops") {
        return;
    }
    let ssthresh = loaded("tcp_congestion_ops", "ssthresh", &give(2)).expect("it loads");
    assert_eq!(ssthresh.verifier.processed_instructions, Some(2));
    // A variant matches the structure.
    loaded("tcp_congestion_ops___mine", "undo_cwnd", &give(2)).expect("it loads");
    // The arguments show that it is verified as this member: the second is a number.
    let second = asm("r0 = *(u64 *)(r1 + 8); exit");
    loaded("tcp_congestion_ops", "set_state", &second).expect("it has two arguments");
    let error = loaded("tcp_congestion_ops", "ssthresh", &second).expect_err("it has one");
    assert!(matches!(error, LoadError::Rejected { .. }), "{error}");
}

#[test]
fn what_this_kernel_does_not_have() {
    if can_load().is_none() || !has("tcp_congestion_ops") {
        return;
    }
    let check = |structure: &str, member: &str, expected: &str| {
        let error = loaded(structure, member, &give(0)).expect_err(structure).to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("tcp_congestion_ops", "no_such_member", "of this kernel has no such member");
    check("no_such_structure", "init", "this kernel has no no_such_structure");
    check("task_struct", "stack", "this kernel does not allow programs to implement it");
    if !has("sched_ext_ops") {
        check("sched_ext_ops", "enqueue", "built without CONFIG_SCHED_CLASS_EXT");
    }
}
