//! Objects from compilers: Rust, from the kernel half of an example, and C, from clang.
//!
//! Without clang the C tests are skipped; with `CI=true` that is a failure.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

use wingbeat_bpf_loader::{
    KernelTypes, ProgramType,
    code::{Code, op},
    spec::{Linked, MapType, Spec},
};
use wingbeat_bpf_testing::object::btf::{SIGNED, Types};

use super::support::{exercise, kernel, parse};

/// Compiles a file in `c` with clang; `None` without clang.
fn compile(source: &str, flags: &[&str]) -> Option<Vec<u8>> {
    let version = Command::new("clang").arg("--version").stdout(Stdio::null()).status();
    if version.is_err() {
        assert!(env::var_os("CI").is_none(), "CI must have clang; install the package clang");
        eprintln!("skipped: there is no clang");
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/spec/c").join(source);
    let folder = tempfile::tempdir().expect("a folder");
    let object = folder.path().join("object.o");
    let status = Command::new("clang")
        .args(["-target", "bpf", "-O2", "-g", "-Wall", "-Wno-unused-parameter", "-c"])
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(&object)
        .status();
    assert!(status.expect("clang").success(), "clang failed");
    Some(fs::read(object).expect("an object"))
}

fn functions(code: &Code) -> Vec<&str> {
    code.functions.iter().map(|function| function.name.as_str()).collect()
}

/// Texts of a program's lines, without duplicates, in order.
fn lines(spec: &Spec, code: &Code) -> Vec<String> {
    let types = spec.types();
    let texts = code.lines.iter().filter_map(|line| types.string(line.text_offset));
    texts.map(|text| text.trim().to_owned()).collect()
}

/// A kernel whose `task` has other offsets of `pid` and `info` than the object.
fn other_kernel() -> KernelTypes {
    let mut types = Types::new();
    let int = types.integer("int", 4, SIGNED);
    let info = types.structure("thread_info", 12, &[("flags", int, 0), ("status", int, 64)]);
    let members = [("info", info, 0), ("state", int, 128), ("pid", int, 8 * 200)];
    types.structure("task", 204, &members);
    KernelTypes::parse(&types.bytes()).expect("types")
}

#[test]
fn programs_and_maps_of_clang() {
    let Some(bytes) = compile("style.bpf.c", &[]) else { return };
    let spec = parse(&bytes);
    let programs: Vec<_> =
        spec.programs().iter().map(|p| (p.name.as_str(), p.section.as_str(), p.r#type)).collect();
    let expected = [
        ("count", "xdp", ProgramType::XDP),
        ("pid", "raw_tp/sched_switch", ProgramType::RAW_TRACEPOINT),
    ];
    assert_eq!(programs, expected);
    assert_eq!(spec.license(), Some(c"Dual MIT/GPL"));
    let maps: Vec<_> = spec
        .maps()
        .iter()
        .map(|map| (map.name.as_str(), map.r#type, (map.key_size, map.value_size), map.entries_max))
        .collect();
    let expected = [
        (".bss", MapType::ARRAY, (4, 4), 1),
        (".data", MapType::ARRAY, (4, 4), 1),
        (".rodata", MapType::ARRAY, (4, 16), 1),
        ("counts", MapType::HASH, (8, 8), 1024),
        ("events", MapType::RINGBUF, (0, 0), 4096),
    ];
    assert_eq!(maps, expected);
    let words = [2_u32, 3, 5, 7].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    assert_eq!(spec.maps()[2].initial, Some(words));
    assert!(spec.maps()[2].is_constant);
}

#[test]
fn calls_of_clang() {
    let Some(bytes) = compile("style.bpf.c", &[]) else { return };
    let spec = parse(&bytes);
    let Linked { code, .. } = spec.link_program("count", None).unwrap();
    // `weigh` is static and called twice, from two sections; `is_over` is not static.
    assert_eq!(functions(&code), ["count", "weigh", "is_over"]);
    let calls = code.insns.iter().filter(|insn| insn.is_local_call()).count();
    assert_eq!(calls, 3);
    let sources: Vec<_> = code
        .insns
        .iter()
        .filter(|insn| insn.is_ldimm64() && insn.src() != 0)
        .map(|insn| (insn.src(), insn.immediate))
        .collect();
    for expected in [
        (op::PSEUDO_MAP_FD, 3),
        (op::PSEUDO_MAP_VALUE, 0),
        (op::PSEUDO_MAP_VALUE, 1),
        (op::PSEUDO_MAP_VALUE, 2),
    ] {
        assert!(sources.contains(&expected), "{expected:?} in {sources:?}");
    }
    let lines = lines(&spec, &code);
    assert!(lines.iter().any(|line| line == "u64 *found = map_lookup(&counts, &key);"));
    assert!(lines.iter().any(|line| line == "return weight + weigh(weight) > limit;"));
    assert!(code.functions.iter().all(|function| function.type_id.is_some()));
}

#[test]
fn accesses_and_callbacks_of_clang() {
    let Some(bytes) = compile("style.bpf.c", &[]) else { return };
    let spec = parse(&bytes);
    assert!(spec.link_program("pid", None).is_err());
    let Linked { code, .. } = spec.link_program("pid", Some(&other_kernel())).unwrap();
    assert_eq!(functions(&code), ["pid", "add"]);
    let callback = code.insns.iter().position(|insn| insn.is_ldimm64() && insn.src() == 4);
    let at = callback.expect("the address of the callback");
    let target = at as i64 + 1 + i64::from(code.insns[at].immediate);
    assert_eq!(target, i64::from(code.functions[1].insn_index));
    // Both fields have the offsets of that kernel.
    let holds = |value: i32| {
        let is_set = |opcode: u8| opcode & op::CLASS == op::ALU64;
        code.insns.iter().any(|insn| is_set(insn.opcode) && insn.immediate == value)
    };
    assert!(holds(200) && holds(8), "{:?}", code.insns);
}

#[test]
fn globals_of_clang() {
    let Some(bytes) = compile("style.bpf.c", &[]) else { return };
    let mut spec = parse(&bytes);
    spec.set_global("limit", &20_u32.to_le_bytes()).unwrap();
    spec.set_global("weights", &[1; 16]).unwrap();
    spec.set_global("total", &[9; 4]).unwrap();
    let initial: Vec<_> = spec.maps().iter().filter_map(|map| map.initial.clone()).collect();
    assert_eq!(initial, [vec![9; 4], vec![20, 0, 0, 0], vec![1; 16]]);
}

#[test]
fn objects_of_clang_without_type_information() {
    let Some(bytes) = compile("style.bpf.c", &["-g0"]) else { return };
    let error = Spec::parse("a.o", &bytes).unwrap_err().to_string();
    let expected = "a.o is damaged: section .maps: its maps are described by types, and there is \
                    no .BTF; was the object stripped?";
    assert_eq!(error, expected);
}

#[test]
fn objects_of_clang_for_another_machine() {
    let Some(bytes) = compile("style.bpf.c", &["-target", "bpfeb"]) else { return };
    let error = Spec::parse("a.o", &bytes).unwrap_err().to_string();
    assert!(error.starts_with("a.o is not an eBPF object: it was built for big-endian"), "{error}");
}

#[test]
fn programs_of_rust() {
    for object in [fun_xdp::OBJECT, fun_xdp::OBJECT_WITH_LOG] {
        let spec = parse(object);
        let names: Vec<_> = spec.programs().iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["v0", "v1", "v2", "v3", "v4"].map(|v| format!("fun_xdp_{v}")));
        assert!(spec.programs().iter().all(|program| program.r#type == ProgramType::XDP));
        assert_eq!(spec.license(), Some(c"Dual MIT/GPL"));
        let queue = spec.maps().iter().find(|map| map.name == "SOURCE_ADDR_QUEUE").unwrap();
        assert_eq!((queue.r#type, queue.key_size), (MapType::QUEUE, 0));
        for Linked { program, code, .. } in spec.link(None).unwrap() {
            assert_eq!(code.functions[0].name, program.name);
            let lines = lines(&spec, &code);
            assert!(!lines.is_empty(), "{}", program.name);
        }
    }
}

#[test]
fn damaged_objects_of_compilers() {
    let mut objects = vec![fun_xdp::OBJECT.to_vec()];
    objects.extend(compile("style.bpf.c", &[]));
    let kernel = kernel();
    for object in objects {
        // A prime, to hit all kinds of places.
        for at in (0..object.len()).step_by(97) {
            let mut changed = object.clone();
            changed[at] ^= 0x41;
            exercise(&changed, &kernel);
            exercise(&object[..at], &kernel);
        }
    }
}
