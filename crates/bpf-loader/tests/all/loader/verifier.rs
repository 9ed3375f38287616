//! The verifier: rejections, limits, statistics of accepted programs, and programs that are loaded differently.

use std::time::{Duration, Instant};

use wingbeat_bpf_loader::{
    ProgramType,
    code::{Code, FunctionInfo, Insn, LineInfo},
    loader::{
        Alarm, Effort, Explained, LoadError, Loader, Rejection, Remarks, VerifierLimit,
        VerifierStatistics,
    },
    spec::Spec,
};
use wingbeat_bpf_testing::object::{btf::Types, typed::TypedObject};

use super::support::{
    asm, can_load, code, give, load as load_program, load_linked, program, since, value,
};

/// The rejection in an error, and the error's text.
pub(crate) fn rejection(error: LoadError) -> (Rejection, String) {
    let text = error.to_string();
    match error {
        LoadError::Rejected { rejection, .. } => (*rejection, text),
        other => panic!("it is not rejected: {other}"),
    }
}

#[test]
fn where_and_why() {
    let Some(()) = can_load() else { return };
    let check = |code: &str, insn_index, reason: &str| {
        let error = load_program(&program(ProgramType::XDP), &asm(code), &[]).expect_err(reason);
        let (rejection, text) = rejection(error);
        assert_eq!(rejection.reason(), Some(reason));
        assert_eq!(rejection.insn_index, insn_index, "{reason}\n{}", rejection.log);
        assert_eq!((rejection.limit, &rejection.source), (None, &None), "{reason}");
        let begin =
            format!("the verifier rejects by_hand: {reason}\n  the end of the verifier's log:\n");
        assert!(text.starts_with(&begin), "{text}");
        assert!(text.ends_with(&format!("\n    {reason}")), "{text}");
        // The statistics are only for the log.
        assert!(rejection.log.contains("processed ") && !text.contains("processed "), "{text}");
    };
    check("r1 = 0; r0 = *(u32 *)(r1 + 0); exit", Some(1), "R1 invalid mem access 'scalar'");
    check("exit", Some(0), "R0 !read_ok");
    let beyond = "invalid bpf_context access off=300 size=4";
    check("r0 = *(u32 *)(r1 + 300); exit", Some(0), beyond);
    // Unknown helpers and unreachable code are reported before paths are explored.
    check("call 9999; exit", Some(0), "invalid func unknown#9999");
    check("exit; exit", None, "unreachable insn 1");
    check("r0 = 0", None, "last insn is not an exit or jmp");
    let out_of_packet = "r2 = *(u32 *)(r1 + 0); r0 = *(u8 *)(r2 + 0); exit";
    let reason = match since(7, 2, "new words for accesses beyond a packet") {
        true => "R2 min value is outside of the allowed memory range",
        false => "R2 offset is outside of the packet",
    };
    check(out_of_packet, Some(1), reason);
}

/// An object with a program of two lines, the second of which is invalid.
fn with_lines(insns: &[Insn], lines: &[(u32, u32, &str)]) -> Result<VerifierStatistics, LoadError> {
    let mut file = TypedObject::new();
    file.program("xdp", "wrong", insns);
    file.lines("xdp", lines);
    load_linked(&file.spec(), "wrong").map(|(loaded, _)| loaded.verifier)
}

#[test]
fn the_source_line() {
    let Some(()) = can_load() else { return };
    let insns = asm("r0 = 7; r1 = 0; r0 = *(u32 *)(r1 + 0); exit");
    let lines = [(0, 3, "int found = 7;"), (1, 5, "  found = *(int *)0;"), (3, 6, "return found;")];
    let (rejection, text) = rejection(with_lines(&insns, &lines).expect_err("no pointer"));
    assert_eq!(rejection.insn_index, Some(2));
    // Linux 6.12 also reports the file, 6.1 does not.
    let source = match since(6, 12, "the file in the verifier's log") {
        true => "found = *(int *)0; @ program.c:5",
        false => "found = *(int *)0;",
    };
    assert_eq!(rejection.source.as_deref(), Some(source));
    let begin = "the verifier rejects wrong: R1 invalid mem access 'scalar'";
    assert!(text.starts_with(&format!("{begin}\n  at: {source}\n")), "{text}");
    with_lines(&give(0), &lines[..1]).expect("nothing is wrong with this one");
}

#[test]
fn the_tail_of_a_long_log() {
    let Some(()) = can_load() else { return };
    let mut insns = asm("r0 = 0").repeat(100);
    insns.extend(asm("r0 = *(u32 *)(r0 + 0); exit"));
    let error = load_program(&program(ProgramType::XDP), &insns, &[]).expect_err("no pointer");
    let (rejection, text) = rejection(error);
    assert_eq!(rejection.insn_index, Some(100));
    let tail = rejection.tail();
    assert_eq!(tail.lines().count(), 12, "{tail}");
    assert!(text.ends_with(&tail.replace('\n', "\n    ")), "{text}");
    assert!(!tail.contains("\n0: (b7)") && rejection.log.contains("0: (b7) r0 = 0"));
    assert_eq!(VerifierStatistics::parse(&rejection.log).processed_instructions, Some(101));
}

#[test]
fn statistics_of_programs_that_are_accepted() {
    let Some(()) = can_load() else { return };
    let check = |insns: &str, starts: &[u32], processed, stack_depths: &[u32]| {
        let spec = program(ProgramType::XDP);
        let loaded = Loader::without_object().load(&spec, &code(&asm(insns), starts), &[]);
        let loaded = loaded.expect("it loads");
        let found = loaded.verifier;
        assert_eq!(found.processed_instructions, Some(processed), "{insns}");
        assert_eq!(loaded.info.verified_instructions, processed as u32, "{insns}");
        assert_eq!(found.stack_depths, stack_depths, "{insns}");
        assert_eq!(found.stack_depth(), stack_depths.iter().sum::<u32>(), "{insns}");
        assert!(found.verification_time_us.is_some(), "{insns}");
        let states = [found.total_states, found.peak_states, found.max_states_per_instruction];
        assert!(states.iter().all(Option::is_some), "{insns}: {states:?}");
        assert!(found.peak_states <= found.total_states, "{insns}: {states:?}");
    };
    check("r0 = 0; exit", &[0], 2, &[0]);
    check("*(u64 *)(r10 - 24) = 1; r0 = 0; exit", &[0], 3, &[24]);
    // Both branches of an unknown condition, and the code after them once for each.
    let branches = "r2 = *(u32 *)(r1 + 0); r3 = *(u32 *)(r1 + 16); if r3 == 1 goto +1; r3 = r2; r0 = 0; \
                    exit";
    check(branches, &[0], 8, &[0]);
    // A function with its own stack frame.
    let calls = "*(u64 *)(r10 - 8) = 1; call +1; exit; *(u64 *)(r10 - 32) = 2; r0 = 0; exit";
    check(calls, &[0, 3], 6, &[8, 32]);
    // Iterations of a loop are followed one by one, with states kept on the way.
    check("r0 = 0; r0 += 1; if r0 < 1000 goto -2; exit", &[0], 2 + 2 * 1000, &[0]);
}

// Verifier limits, each exceeded by a program as small as possible.

/// Maximum time to report a rejection; the longest log takes some seconds.
const PATIENCE: Duration = Duration::from_secs(60);

fn check(insns: &[Insn], starts: &[u32], limit: Option<VerifierLimit>, reason: &str) {
    let begun = Instant::now();
    let loader = Loader::without_object();
    let error = loader.load(&program(ProgramType::SOCKET_FILTER), &code(insns, starts), &[]);
    let (rejection, text) = rejection(error.expect_err(reason));
    assert!(rejection.reason().is_some_and(|found| found.contains(reason)), "{text}");
    assert_eq!(rejection.limit, limit, "{text}");
    if let Some(limit) = limit {
        assert!(
            text.lines().next().is_some_and(|line| line.ends_with(&limit.to_string())),
            "{text}"
        );
    }
    assert!(text.len() < 4096, "the text is to be read by people: {} bytes", text.len());
    assert!(begun.elapsed() < PATIENCE, "{reason}: {:?}", begun.elapsed());
}

#[test]
fn instructions_over_all_paths() {
    let Some(()) = can_load() else { return };
    let looping = asm("r0 = 0; r0 += 1; if r0 < 1000000 goto -2; exit");
    let reason = "BPF program is too large. Processed 1000001 insn";
    check(&looping, &[0], Some(VerifierLimit::Instructions), reason);
}

#[test]
fn pending_branches() {
    let Some(()) = can_load() else { return };
    let count: i16 = 9000;
    let mut insns = asm("r2 = *(u32 *)(r1 + 0)");
    // The verifier cannot know whether each is taken.
    insns.extend((0..count).flat_map(|at| asm(&format!("if r2 == {at} goto {}", count - 1 - at))));
    insns.extend(give(0));
    check(&insns, &[0], Some(VerifierLimit::Jumps), "jumps is too complex");
}

#[test]
fn stack() {
    let Some(()) = can_load() else { return };
    let check_access = |insns: &[Insn], limit, reason| check(insns, &[0], limit, reason);
    let over = asm("*(u64 *)(r10 - 520) = 0; r0 = 0; exit");
    check_access(&over, Some(VerifierLimit::Stack), "invalid write to stack R10 off=-520 size=8");
    let over = asm("r0 = *(u64 *)(r10 - 520); exit");
    check_access(&over, Some(VerifierLimit::Stack), "invalid read from stack R10 off=-520 size=8");
    // An unknown stack offset, partly beyond the limit. Without negation: before 6.17 the verifier
    // lost all bounds there.
    let somewhere = asm("r2 = *(u32 *)(r1 + 0); r2 &= 0xfff; r2 += -4096; r3 = r10; r3 += r2; \
                         *(u8 *)(r3 - 8) = 0; r0 = 0; exit");
    check_access(&somewhere, None, "invalid variable-offset write to stack R3");
    // Above the frame, and uninitialised: an error, but not due to the limit.
    let above = asm("*(u64 *)(r10 + 0) = 0; r0 = 0; exit");
    check_access(&above, None, "invalid write to stack R10 off=0 size=8");
    // Two functions that fit separately, but not together.
    let two = asm("*(u64 *)(r10 - 272) = 1; call +1; exit; *(u64 *)(r10 - 272) = 2; r0 = 0; exit");
    check(&two, &[0, 3], Some(VerifierLimit::Stack), "combined stack size of 2 calls is ");
}

#[test]
fn call_frames() {
    let Some(()) = can_load() else { return };
    let frames = if since(7, 2, "room for sixteen frames") { 16 } else { 8 };
    // Each calls the next one; one more than allowed, not counting the program itself.
    let mut insns = asm("call +1; exit").repeat(frames + 1);
    insns.extend(give(0));
    let starts: Vec<u32> = (0..frames as u32 + 2).map(|number| 2 * number).collect();
    let limit = VerifierLimit::CallDepth(frames as u32);
    check(&insns, &starts, Some(limit), "frames is too deep");
    let (insns, starts) = (&insns[4..], &starts[..frames]);
    let loaded = Loader::without_object().load(
        &program(ProgramType::SOCKET_FILTER),
        &code(insns, starts),
        &[],
    );
    assert!(loaded.is_ok(), "{frames} frames: {}", loaded.expect_err("refused"));
}

#[test]
fn loops_without_an_end() {
    let Some(()) = can_load() else { return };
    check(&asm("r0 = 0; goto -1; exit"), &[0], None, "unreachable insn 2");
    let endless = asm("r0 = 0; r2 = *(u32 *)(r1 + 0); if r2 != 5 goto -2; exit");
    check(&endless, &[0], Some(VerifierLimit::Loop), "infinite loop detected at insn 1");
}

// Programs loaded differently than the object says: without a licence, or with types that the kernel rejects.

/// Loads a program of an object without maps.
fn load(loader: &Loader, spec: &Spec, name: &str) -> Result<(), LoadError> {
    let linked = spec.link_program(name, None).expect("it is linked");
    loader.load(&linked.program, &linked.code, &[]).map(drop)
}

/// `free` in section xdp, and in tc `bound`, which calls a GPL-only helper.
fn two_programs(mut file: TypedObject) -> Spec {
    file.program("xdp", "free", &give(2));
    let print = "*(u64 *)(r10 - 8) = 0; r1 = r10; r1 += -8; r2 = 8; call trace_printk; exit";
    file.program("tc", "bound", &asm(print));
    file.spec()
}

#[test]
fn an_object_without_a_licence_has_none_unless_it_needs_one() {
    let Some(()) = can_load() else { return };
    let as_gpl = |file: TypedObject| {
        let spec = two_programs(file);
        let loader = Loader::new(&spec).expect("a loader");
        load(&loader, &spec, "free").expect("it is free");
        assert_eq!(loader.remarks(), Remarks::default());
        // Again, like other forms of a program.
        let bound = load(&loader, &spec, "bound").and_then(|()| load(&loader, &spec, "bound"));
        bound.map(|()| loader.remarks().as_gpl)
    };
    assert_eq!(as_gpl(TypedObject::unlicensed()).expect("it is loaded"), ["bound"]);
    assert_eq!(as_gpl(TypedObject::new()).expect("it is loaded"), [""; 0]);
    let mut other = TypedObject::unlicensed();
    other.data("license", b"Apache\0");
    let error = as_gpl(other).expect_err("it is declared otherwise").to_string();
    assert!(error.contains("from non-GPL compatible program"), "{error}");
}

/// A program and a map with types, to which `spoil` adds one that the kernel refuses.
fn untyped(spoil: fn(&mut Types)) -> Loader {
    let mut file = TypedObject::new();
    file.program("xdp", "main", &give(2));
    let int = file.types.int("unsigned int", 4);
    let numbers = [("type", 2), ("max_entries", 1)];
    file.types.define_map("map", &numbers, &[("key", int), ("value", int)]);
    let maps = file.data(".maps", &[0; 32]);
    file.variable("map", maps, 0, 32);
    spoil(&mut file.types);
    let spec = file.spec();
    let loader = Loader::new(&spec).expect("a loader");
    load(&loader, &spec, "main").expect("it is loaded without");
    assert_eq!(loader.create_maps().expect("they are created without").all().len(), 1);
    loader
}

#[test]
fn types_that_the_kernel_refuses_are_left_out() {
    let Some(()) = can_load() else { return };
    let check = |spoil: fn(&mut Types), expected: &str| {
        let loader = untyped(spoil);
        assert!(!loader.has_types(), "{expected}");
        assert_eq!(loader.remarks().types_refused.as_deref(), Some(expected));
        loader
    };
    // GCC 12 writes this for `char` (`btf_int_check_meta` in kernel/bpf/btf.c, Linux 6.18).
    let unsupported = "it does not support them (ENOTSUPP)";
    check(|types| _ = types.integer("char", 1, 1 | 2), unsupported);
    let invalid = "Invalid argument (os error 22)";
    let loader = check(|types| _ = types.structure("no name", 0, &[]), invalid);
    if !since(6, 8, "a context as an argument of a function") {
        return;
    }
    // The image then gets generated types: neither ids nor lines of the object are valid.
    let function = |insn_index, type_id| FunctionInfo {
        insn_index,
        name: format!("function_{insn_index}"),
        type_id,
    };
    let code = Code {
        insns: [asm("call +1; exit"), give(7)].concat(),
        functions: vec![function(0, None), function(2, Some(3))],
        lines: vec![LineInfo {
            insn_index: 0,
            file_offset: 1,
            text_offset: 1,
            line_column: 1 << 10,
        }],
    };
    let effort = Effort { alarm: &Alarm::never(), explained: Explained::Whole };
    let image = loader.load_image(&program(ProgramType::XDP), &code, &[1], &[], effort);
    assert_eq!(value(&image.expect("it is loaded")), 7);
}
