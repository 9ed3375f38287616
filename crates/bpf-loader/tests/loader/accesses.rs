//! Relocates accesses to kernel structures (CO-RE) for the running kernel.

use wingbeat_bpf_loader::{KernelTypes, loader::LoadError};
use wingbeat_bpf_testing::object::typed::TypedObject;

use crate::support::{can_load, give, load_linked, value};

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
    load_linked(&spec, "access", false).map(|(loaded, _)| value(&loaded))
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
