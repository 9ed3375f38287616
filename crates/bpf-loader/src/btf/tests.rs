//! Hand-made types, damaged types, and those of the running kernel.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{table::FLAG, *};

/// Types in order of their ids, from 1. Members are name, type and raw offset.
fn sample() -> Vec<u8> {
    use TypeKind as Kind;
    type Members<'a> = &'a [(&'a str, u32, u32)];
    let types: [(TypeKind, &str, u32, u32, Members<'_>); 15] = [
        (Kind::INT, "int", 0, 4, &[]),
        (Kind::STRUCT, "", 0, 64, &[("deep", 1, 32)]),
        (Kind::UNION, "", 0, 64, &[("alias", 1, 0), ("", 2, 0)]),
        (Kind::TYPEDEF, "wrapped_t", 0, 3, &[]),
        (Kind::CONST, "", 0, 4, &[]),
        (Kind::STRUCT, "task", 0, 64, &[("pid", 1, 0), ("", 5, 64), ("tail", 1, 256)]),
        (
            Kind::STRUCT,
            "bits",
            FLAG,
            64,
            &[("a", 1, 3 << 24), ("b", 1, 5 << 24 | 19), ("c", 1, 64)],
        ),
        (Kind::STRUCT, "", 0, 64, &[("", 8, 8), ("", 6, 0)]),
        (Kind::STRUCT, "looped", 0, 64, &[("", 8, 0)]),
        (Kind::STRUCT, "task", 0, 64, &[("second", 1, 96)]),
        (Kind::FUNC_PROTO, "", 0, 1, &[]),
        (Kind::FUNC, "a_function", 0, 11, &[]),
        (Kind::TYPEDEF, "btf_trace_x", 0, 1, &[]),
        (Kind::INT, "char", 0, 1, &[]),
        (Kind::STRUCT, "sized", 0, 72, &[("one", 14, 0), ("whole", 5, 32), ("none", 12, 0)]),
    ];
    let mut table = TypeTable::empty();
    for (kind, name, flag, link, members) in types {
        let mut text = |text: &str| if text.is_empty() { 0 } else { table.add_text(text) };
        let name = text(name);
        let tail = members.iter().flat_map(|&(member, id, offset)| [text(member), id, offset]);
        let tail: Vec<u32> = tail.chain((kind == Kind::INT).then_some(32)).collect();
        table.add(kind, name, flag | members.len() as u32, link, &tail);
    }
    table.to_bytes()
}

#[test]
fn finds_members_where_c_would() {
    fn check(structure: &str, member: &str, expected: Result<u32, &str>) {
        let types = KernelTypes::parse(&sample()).unwrap();
        let found = types.member_offset_bytes(structure, member).map_err(|e| e.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{structure}.{member}");
    }
    check("task", "pid", Ok(0));
    check("task", "alias", Ok(8));
    check("task", "deep", Ok(12));
    check("task", "tail", Ok(32));
    check("task", "second", Ok(12));
    check("bits", "b", Ok(2));
    check("bits", "c", Ok(8));
    check("looped", "tail", Ok(32));
    check("looped", "none", Err("`looped` of this kernel has no member `none`"));
    check("task", "", Err("`task` of this kernel has no member ``"));
    check(
        "a_function",
        "x",
        Err("this kernel has no struct or union `a_function` (looked for its member `x`)"),
    );
}

#[test]
fn members_have_the_sizes_of_their_types() {
    let types = KernelTypes::parse(&sample()).unwrap();
    let check = |member: &str, expected: Option<u32>| {
        assert_eq!(types.member_size_bytes("sized", member).ok(), expected, "{member}");
    };
    check("one", Some(1));
    // Through a const typedef.
    check("whole", Some(64));
    check("none", None);
    check("unknown", None);
}

#[test]
fn finds_ids() {
    let types = KernelTypes::parse(&sample()).unwrap();
    assert_eq!(types.len(), 15);
    assert_eq!(types.function_id("a_function"), Some(12));
    assert_eq!(types.function_name(12), Some("a_function"));
    assert_eq!(types.function_id("btf_trace_x"), None);
    assert_eq!(types.typedef_id("btf_trace_x"), Some(13));
}

#[test]
fn reads_the_running_kernel() {
    let start = Instant::now();
    let types = KernelTypes::from_kernel().unwrap();
    let offset = |structure, member| types.member_offset_bytes(structure, member).unwrap();
    let (pid, tgid) = (offset("task_struct", "pid"), offset("task_struct", "tgid"));
    // Declared one after the other, both `pid_t` (include/linux/sched.h).
    assert_eq!(tgid, pid + 4);
    assert_eq!(offset("task_struct", "flags") % 4, 0);
    assert_eq!(offset("task_struct", "signal") % 8, 0);
    assert_eq!(offset("signal_struct", "live") % 4, 0);
    assert_eq!(offset("list_head", "prev"), 8);
    // Inside of an anonymous union of an anonymous struct.
    assert!(offset("page", "mapping") > 0);
    assert!(types.function_id("schedule").is_some());
    assert!(types.typedef_id("btf_trace_sched_switch").is_some());
    // A release build takes about 15 ms; the limit is for a debug build on a busy machine.
    assert!(start.elapsed() < Duration::from_secs(5));
}

proptest! {
    #[test]
    fn any_bytes_are_safe(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(KernelTypes::parse(&bytes));
    }

    #[test]
    fn any_damage_is_safe(hits in proptest::collection::vec((0_usize..512, any::<u8>()), 1..6)) {
        let mut bytes = sample();
        for (place, value) in hits {
            // Keep the magic number, or the rest would not be parsed.
            let place = 2 + place % (bytes.len() - 2);
            bytes[place] = value;
        }
        if let Ok(types) = KernelTypes::parse(&bytes) {
            drop(types.member_offset_bytes("looped", "none"));
            drop(types.member_offset_bytes("task", "deep"));
            types.function_id("a_function");
        }
    }
}
