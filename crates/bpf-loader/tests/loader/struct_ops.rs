//! struct_ops programs, loaded for the members that they implement.

use wingbeat_bpf_loader::{
    KernelTypes,
    code::Insn,
    loader::{LoadError, Loaded},
    spec::Spec,
};
use wingbeat_bpf_testing::object::typed::{Function, TypedObject};

use crate::support::{asm, can_load, give, load_linked};

/// The program `own` as the second member of a structure, with these names.
fn object(structure: &str, member: &str, insns: &[Insn]) -> Spec {
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
    load_linked(&object(structure, member, insns), "own", false).map(|(loaded, _)| loaded)
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
