//! Accesses to kernel structures by name (CO-RE), relocated for synthetic kernels.

use wingbeat_bpf_loader::{
    KernelTypes,
    code::{Insn, op},
};
use wingbeat_bpf_testing::object::{
    Object,
    btf::{Extension, SIGNED, Types, UNSIGNED},
    insns::{EXIT, linked, load, set},
};

use super::support::{main, parse};

/// Access kinds (`enum bpf_core_relo_kind`).
const FIELD_OFFSET: u32 = 0;
const FIELD_SIZE: u32 = 1;
const FIELD_EXISTS: u32 = 2;
const FIELD_SIGNED: u32 = 3;
const LOCAL_ID: u32 = 6;
const TARGET_ID: u32 = 7;
const TYPE_EXISTS: u32 = 8;
const TYPE_SIZE: u32 = 9;
const VARIANT_EXISTS: u32 = 10;
const VARIANT_VALUE: u32 = 11;

/// Replaces accesses that the kernel lacks.
const UNRESOLVED: Insn = Insn::new(op::CALL, 0, 0, 0, 0x0bad_2310);

/// The types of the object. 1: int; 2: unsigned int; 3: struct task { int state; unsigned pid; int
/// threads[4]; }; 4: int[4]; 5: enum kind { A = 1, B = 2 }; 6: struct task___old { int tid; }
fn types() -> Types {
    let mut types = Types::new();
    let int = types.integer("int", 4, SIGNED);
    let unsigned = types.integer("unsigned int", 4, UNSIGNED);
    let members = [("state", int, 0), ("pid", unsigned, 32), ("threads", 4, 64)];
    types.structure("task", 24, &members);
    types.array(int, 4);
    types.enumeration("kind", &[("A", 1), ("B", 2)]);
    types.structure("task___old", 4, &[("tid", int, 0)]);
    types
}

/// The object with one access, at its first instruction: type, path, kind.
fn object(insns: &[Insn], (id, path, kind): (u32, &str, u32)) -> Object {
    let (mut object, _) = main(&[insns, &[EXIT]].concat());
    let mut types = types();
    let (section, path) = (types.text("xdp"), types.text(path));
    let accesses = vec![(section, vec![[0, id, path, kind]])];
    object.note(".BTF", &types.bytes());
    object.note(".BTF.ext", &Extension { accesses, ..Extension::default() }.bytes());
    object
}

/// A kernel with one `task` of these members (name, type, offset in bytes), or none, and the
/// enumeration `kind` with B alone. Types 1 to 5: int, unsigned, unsigned long, int[9], pointer.
fn kernel(size: u32, members: Option<&[(&str, u32, u32)]>) -> Types {
    let mut types = Types::new();
    let int = types.integer("int", 4, SIGNED);
    types.integer("unsigned int", 4, UNSIGNED);
    types.integer("unsigned long", 8, UNSIGNED);
    types.array(int, 9);
    types.pointer(0);
    types.enumeration("kind", &[("B", 7)]);
    if let Some(members) = members {
        let members: Vec<_> = members.iter().map(|&(name, id, at)| (name, id, 8 * at)).collect();
        types.structure("task", size, &members);
    }
    types
}

fn fit(insns: &[Insn], access: (u32, &str, u32), kernel: &Types) -> Result<Vec<Insn>, String> {
    let spec = parse(&object(insns, access).write());
    let kernel = KernelTypes::parse(&kernel.bytes()).expect("a kernel's types");
    let linked = spec.link_program("main", Some(&kernel)).map_err(|error| error.to_string())?;
    Ok(linked.code.insns[..insns.len()].to_vec())
}

#[track_caller]
fn check(insns: &[Insn], access: (u32, &str, u32), kernel: &Types, expected: &[Insn]) {
    assert_eq!(fit(insns, access, kernel).as_deref(), Ok(expected));
}

#[test]
fn fields_that_lie_elsewhere() {
    let moved = kernel(64, Some(&[("pid", 2, 8), ("state", 1, 16), ("threads", 4, 24)]));
    check(&[load(2, 1, 4)], (3, "0:1", FIELD_OFFSET), &moved, &[load(2, 1, 8)]);
    check(&[load(2, 1, 0)], (3, "0:0", FIELD_OFFSET), &moved, &[load(2, 1, 16)]);
    check(&[load(2, 1, 20)], (3, "0:2:3", FIELD_OFFSET), &moved, &[load(2, 1, 36)]);
    // The second of an array of tasks.
    check(&[load(2, 1, 28)], (3, "1:1", FIELD_OFFSET), &moved, &[load(2, 1, 72)]);
    // As a number, and as a 64-bit one.
    check(&[set(2, 4)], (3, "0:1", FIELD_OFFSET), &moved, &[set(2, 8)]);
    check(&linked(2, 0, 4, 0), (3, "0:1", FIELD_OFFSET), &moved, &linked(2, 0, 8, 0));
}

#[test]
fn fields_of_another_size() {
    let sized = |opcode| Insn::new(op::LDX | op::MEM | opcode, 2, 1, 4, 0);
    let wide = kernel(24, Some(&[("state", 1, 0), ("pid", 3, 8)]));
    let expected = Insn::new(op::LDX | op::MEM | op::DW, 2, 1, 8, 0);
    check(&[sized(op::W)], (3, "0:1", FIELD_OFFSET), &wide, &[expected]);
    check(&[set(2, 4)], (3, "0:1", FIELD_SIZE), &wide, &[set(2, 8)]);
    // A signed one would be read incorrectly.
    let signed = kernel(24, Some(&[("state", 3, 0)]));
    check(&[load(2, 1, 0)], (3, "0:0", FIELD_OFFSET), &signed, &[UNRESOLVED]);
    check(&[set(2, 1)], (3, "0:0", FIELD_SIGNED), &signed, &[set(2, 0)]);
    // A pointer is not an integer.
    let pointer = kernel(24, Some(&[("pid", 5, 0)]));
    check(&[load(2, 1, 4)], (3, "0:1", FIELD_OFFSET), &pointer, &[UNRESOLVED]);
}

#[test]
fn fields_inside_members_without_a_name() {
    let mut nested = kernel(0, None);
    let inner = nested.structure("", 8, &[("other", 1, 0), ("pid", 2, 32)]);
    nested.structure("task", 24, &[("state", 1, 0), ("", inner, 64)]);
    check(&[load(2, 1, 4)], (3, "0:1", FIELD_OFFSET), &nested, &[load(2, 1, 12)]);
}

#[test]
fn what_the_kernel_does_not_have() {
    let lacking = kernel(8, Some(&[("state", 1, 0)]));
    let none = kernel(0, None);
    for kernel in [&lacking, &none] {
        check(&[load(2, 1, 4)], (3, "0:1", FIELD_OFFSET), kernel, &[UNRESOLVED]);
        check(&[set(2, 4)], (3, "0:1", FIELD_SIZE), kernel, &[UNRESOLVED]);
        check(&[set(2, 1)], (3, "0:1", FIELD_EXISTS), kernel, &[set(2, 0)]);
        let wide = [UNRESOLVED, UNRESOLVED];
        check(&linked(2, 0, 4, 0), (3, "0:1", FIELD_OFFSET), kernel, &wide);
    }
    check(&[set(2, 1)], (3, "0:0", FIELD_EXISTS), &lacking, &[set(2, 1)]);
    check(&[set(2, 1)], (3, "0", TYPE_EXISTS), &lacking, &[set(2, 1)]);
    check(&[set(2, 1)], (3, "0", TYPE_EXISTS), &none, &[set(2, 0)]);
    check(&[set(2, 24)], (3, "0", TYPE_SIZE), &lacking, &[set(2, 8)]);
    check(&[set(2, 24)], (3, "0", TYPE_SIZE), &none, &[set(2, 0)]);
}

#[test]
fn ids_of_types() {
    let kernel = kernel(8, Some(&[("state", 1, 0)]));
    check(&[set(2, 3)], (3, "0", LOCAL_ID), &kernel, &[set(2, 3)]);
    check(&[set(2, 3)], (3, "0", TARGET_ID), &kernel, &[set(2, 7)]);
    check(&linked(2, 0, 3, 0), (3, "0", TARGET_ID), &kernel, &linked(2, 0, 7, 0));
}

#[test]
fn values_of_enumerations() {
    let kernel = kernel(0, None);
    check(&[set(2, 2)], (5, "1", VARIANT_VALUE), &kernel, &[set(2, 7)]);
    check(&[set(2, 1)], (5, "1", VARIANT_EXISTS), &kernel, &[set(2, 1)]);
    check(&[set(2, 1)], (5, "0", VARIANT_EXISTS), &kernel, &[set(2, 0)]);
    check(&[set(2, 1)], (5, "0", VARIANT_VALUE), &kernel, &[UNRESOLVED]);
}

#[test]
fn flavours_are_the_same_type() {
    let old = kernel(8, Some(&[("state", 1, 0), ("tid", 1, 4)]));
    check(&[load(2, 1, 0)], (6, "0:0", FIELD_OFFSET), &old, &[load(2, 1, 4)]);
    let new = kernel(8, Some(&[("state", 1, 0), ("pid", 2, 4)]));
    check(&[set(2, 1)], (6, "0:0", FIELD_EXISTS), &new, &[set(2, 0)]);
}

#[test]
fn kernels_with_several_such_types() {
    let mut same = kernel(8, Some(&[("pid", 2, 8)]));
    same.structure("task", 8, &[("state", 1, 0)]);
    same.structure("task", 99, &[("pid", 2, 64)]);
    check(&[load(2, 1, 4)], (3, "0:1", FIELD_OFFSET), &same, &[load(2, 1, 8)]);
    same.structure("task", 8, &[("pid", 2, 0)]);
    let error = fit(&[load(2, 1, 4)], (3, "0:1", FIELD_OFFSET), &same).unwrap_err();
    let expected = "a.o: cannot link main: in main: access to task 0:1 at instruction 0: the \
                    target has several such types, which differ in it";
    assert_eq!(error, expected);
}

#[test]
fn accesses_that_are_wrong() {
    #[track_caller]
    fn check(insn: Insn, access: (u32, &str, u32), expected: &str) {
        let kernel = kernel(8, Some(&[("state", 1, 0), ("pid", 2, 4), ("threads", 4, 8)]));
        let error = fit(&[insn], access, &kernel).unwrap_err();
        let name = match access.0 {
            3 => "task",
            5 => "kind",
            _ => "",
        };
        let access = format!("access to {name} {} at instruction 0", access.1);
        assert_eq!(error, format!("a.o: cannot link main: in main: {access}: {expected}"));
    }
    let other = "the instruction does not hold 4, the value by the object's types";
    check(load(2, 1, 5), (3, "0:1", FIELD_OFFSET), other);
    check(EXIT, (3, "0:1", FIELD_OFFSET), "the instruction is not of a kind that can be relocated");
    check(load(2, 1, 4), (3, "0:9", 0), "there is no such member");
    check(load(2, 1, 4), (3, "0:1:0", 0), "its path leads into a type without members");
    check(load(2, 1, 24), (3, "0:2:4", 0), "element 4 of an array of 4");
    let member = "it names a member where only a type is allowed";
    check(set(2, 1), (3, "0:1", TYPE_EXISTS), member);
    check(set(2, 1), (3, "0", VARIANT_VALUE), "it is not that of an enumeration");
    check(set(2, 1), (5, "2", VARIANT_VALUE), "there is no such value");
    check(set(2, 1), (4, "0", TYPE_EXISTS), "its type has no name");
}
