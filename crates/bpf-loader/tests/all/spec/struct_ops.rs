//! struct_ops programs: which member of which structure they implement.

use wingbeat_bpf_loader::{
    ProgramType,
    spec::{Attachment, Spec},
};
use wingbeat_bpf_testing::object::{
    Object, R_BPF_64_ABS64, Relocation,
    btf::{GLOBAL, SIGNED, Types},
    insns::give,
};

use super::support::parse;

/// Size of the structure in bytes.
const SIZE: u64 = 24;

/// `struct congestion___mine { int key; void *init; void *done; }`, and two variables of it in
/// `section` where `fill` assigns programs: offset and symbol, and the addend there.
fn object(section: &str, fill: impl Fn(&mut Object, &[usize]) -> Vec<(u64, usize, u64)>) -> Spec {
    let mut object = Object::new();
    let symbols: Vec<_> = ["init", "done", "orphan"]
        .into_iter()
        .map(|name| {
            let code = object.code(&format!("struct_ops/{name}_in_a_section"));
            object.function(code, name, &give(0))
        })
        .collect();
    let filled = fill(&mut object, &symbols);
    let data = object.data(section, &[0; 2 * SIZE as usize]);
    object.variable(data, "first", 0, SIZE);
    object.variable(data, "second", SIZE, SIZE);
    for (offset, symbol, addend) in filled {
        let at = offset as usize;
        object.at(data).data[at..at + 8].copy_from_slice(&addend.to_le_bytes());
        object.at(data).relocations.push(Relocation { offset, symbol, kind: R_BPF_64_ABS64 });
    }
    let mut types = Types::new();
    let int = types.integer("int", 4, SIGNED);
    let pointer = types.pointer(0);
    let members = [("key", int, 0), ("init", pointer, 64), ("done", pointer, 128)];
    let structure = types.structure("congestion___mine", SIZE as u32, &members);
    let first = types.variable("first", GLOBAL, structure);
    let second = types.variable("second", GLOBAL, structure);
    let size = SIZE as u32;
    types.data_section(section, 2 * size, &[[first, 0, size], [second, size, size]]);
    object.note(".BTF", &types.bytes());
    parse(&object.write())
}

/// The members of `init`, `done` and `orphan`.
#[track_caller]
fn check(spec: &Spec, expected: [Option<&str>; 3]) {
    let found: Vec<_> = spec
        .programs()
        .iter()
        .map(|program| {
            assert_eq!(program.r#type, ProgramType::STRUCT_OPS);
            match program.attachment.as_ref()? {
                Attachment::Member { structure, member } => {
                    assert_eq!(structure, "congestion");
                    Some(member.as_str())
                }
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn members_by_relocations() {
    let whole = |_: &mut Object, it: &[usize]| vec![(8, it[0], 0), (SIZE + 16, it[1], 0)];
    for section in [".struct_ops", ".struct_ops.link", "?.struct_ops", "?.struct_ops.link"] {
        check(&object(section, whole), [Some("init"), Some("done"), None]);
    }
    check(&object(".data", whole), [None, None, None]);
    // The first structure counts.
    let twice = |_: &mut Object, it: &[usize]| vec![(8, it[0], 0), (SIZE + 16, it[0], 0)];
    check(&object(".struct_ops", twice), [Some("init"), None, None]);
}

#[test]
fn members_by_the_section_of_the_function() {
    let spec = object(".struct_ops", |object, _| {
        // After the first function of its section.
        let code = object.code("struct_ops/two");
        object.function(code, "before", &give(0));
        let section = object.section_symbol(code);
        object.function(code, "behind", &give(0));
        vec![(8, section, 16), (16, section, 8)]
    });
    let found = |name: &str| spec.program(name).expect("it is there").attachment.is_some();
    assert!(found("behind") && !found("before"));
}

#[test]
fn what_is_no_member() {
    let key = |_: &mut Object, it: &[usize]| vec![(SIZE, it[0], 0), (16, it[1], 8)];
    // `key` is a member, although not a function; the kernel decides about that.
    check(&object(".struct_ops", key), [Some("key"), None, None]);
}
