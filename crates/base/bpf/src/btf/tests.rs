//! Hand-made types, damaged types, and those of the kernel that runs the tests.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

const STRUCT: u32 = 4;
const UNION: u32 = 5;

/// Builds BTF: types in order of their ids, from 1.
#[derive(Default)]
struct Builder {
    types: Vec<u8>,
    strings: Vec<u8>,
}

impl Builder {
    fn new() -> Self {
        Self { types: Vec::new(), strings: vec![0] }
    }

    fn string(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let offset = self.strings.len() as u32;
        self.strings.extend(name.as_bytes());
        self.strings.push(0);
        offset
    }

    fn words(&mut self, words: &[u32]) {
        self.types.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    }

    fn int(mut self, name: &str) -> Self {
        let name = self.string(name);
        self.words(&[name, 1 << 24, 4, 32]);
        self
    }

    fn refer(mut self, kind: u32, name: &str, target: u32) -> Self {
        let name = self.string(name);
        self.words(&[name, kind << 24, target]);
        self
    }

    /// Members are (name, type id, raw offset).
    fn composite(mut self, kind: u32, name: &str, flag: u32, members: &[(&str, u32, u32)]) -> Self {
        let name = self.string(name);
        self.words(&[name, flag << 31 | kind << 24 | members.len() as u32, 64]);
        for &(member, type_id, offset) in members {
            let member = self.string(member);
            self.words(&[member, type_id, offset]);
        }
        self
    }

    fn bytes(self) -> Vec<u8> {
        let type_len = self.types.len() as u32;
        let mut bytes = Vec::new();
        bytes.extend(0xeb9f_u16.to_ne_bytes());
        bytes.extend([1, 0]);
        for word in [24, 0, type_len, type_len, self.strings.len() as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(self.types);
        bytes.extend(self.strings);
        bytes
    }
}

fn sample() -> Vec<u8> {
    Builder::new()
        .int("int")
        .composite(STRUCT, "", 0, &[("deep", 1, 32)])
        .composite(UNION, "", 0, &[("alias", 1, 0), ("", 2, 0)])
        .refer(8, "wrapped_t", 3)
        .refer(10, "", 4)
        .composite(STRUCT, "task", 0, &[("pid", 1, 0), ("", 5, 64), ("tail", 1, 256)])
        .composite(STRUCT, "bits", 1, &[("a", 1, 3 << 24), ("b", 1, 5 << 24 | 19), ("c", 1, 64)])
        .composite(STRUCT, "", 0, &[("", 8, 8), ("", 6, 0)])
        .composite(STRUCT, "looped", 0, &[("", 8, 0)])
        .composite(STRUCT, "task", 0, &[("second", 1, 96)])
        .refer(12, "a_function", 0)
        .refer(8, "btf_trace_x", 1)
        .bytes()
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
fn finds_ids() {
    let types = KernelTypes::parse(&sample()).unwrap();
    assert_eq!(types.len(), 12);
    assert_eq!(types.function_id("a_function"), Some(11));
    assert_eq!(types.function_id("btf_trace_x"), None);
    assert_eq!(types.typedef_id("btf_trace_x"), Some(12));
}

#[test]
fn says_what_is_wrong_with_the_bytes() {
    fn check(bytes: &[u8], expected: &str) {
        let error = KernelTypes::parse(bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let good = sample();
    check(b"", "the header at byte 0");
    check(&good[..12], "the header at byte 0");
    check(b"\x7fELF and so on", "expected magic 0xeb9f");
    check(&good[..good.len() - 1], "the string section at byte");
    check(&good[..40], "the type section at byte 24");
    check(&Builder::new().int("int").refer(31, "", 0).bytes(), "type 2 of the kernel's BTF has");
    let mut cut = Builder::new().composite(STRUCT, "s", 0, &[("m", 0, 0)]);
    cut.types.truncate(20);
    check(&cut.bytes(), "a type at byte 24");
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
    // 15 ms is the aim of a release build; the bound is for a debug build on a busy machine.
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
            // The magic stays, or nothing behind it would be reached.
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
