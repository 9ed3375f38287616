//! Programs that the verifier does not accept, and what it says of those that it does.

use wingbeat_bpf::{
    ProgramType,
    code::{Insn, op},
    loader::{LoadError, Loader, LoaderOptions, Rejection, VerifierStatistics},
};

use crate::{
    bytecode::{EXIT, call, call_local, copy, give, jump, load, set, store_value},
    object::{Function, ObjectFile},
    support::{can_load, code, load as load_program, program, since},
};

/// What a rejected program's error holds, and its text.
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
    let check = |insns: &[Insn], insn_index, reason: &str| {
        let error = load_program(&program(ProgramType::XDP), insns, &[]).expect_err(reason);
        let (rejection, text) = rejection(error);
        assert_eq!(rejection.reason(), Some(reason));
        assert_eq!(rejection.insn_index, insn_index, "{reason}\n{}", rejection.log);
        assert_eq!((rejection.limit, &rejection.source), (None, &None), "{reason}");
        let begin =
            format!("the verifier rejects by_hand: {reason}\n  the end of the verifier's log:\n");
        assert!(text.starts_with(&begin), "{text}");
        assert!(text.ends_with(&format!("\n    {reason}")), "{text}");
        // The statistics are for the log only.
        assert!(rejection.log.contains("processed ") && !text.contains("processed "), "{text}");
    };
    let no_pointer = [set(1, 0), load(op::W, 0, 1, 0), EXIT];
    check(&no_pointer, Some(1), "R1 invalid mem access 'scalar'");
    check(&[EXIT], Some(0), "R0 !read_ok");
    check(&[load(op::W, 0, 1, 300), EXIT], Some(0), "invalid bpf_context access off=300 size=4");
    // Unknown helpers, and code that nothing leads to, are told before anything is followed.
    check(&[call(9999), EXIT], Some(0), "invalid func unknown#9999");
    check(&[EXIT, EXIT], None, "unreachable insn 1");
    check(&[set(0, 0)], None, "last insn is not an exit or jmp");
    let out_of_packet = [load(op::W, 2, 1, 0), load(op::B, 0, 2, 0), EXIT];
    let reason = "R2 offset is outside of the packet";
    check(&out_of_packet, Some(1), reason);
}

/// An object with a program of two lines, the second of which is wrong.
fn with_lines(insns: &[Insn], lines: &[(u32, u32, &str)]) -> Result<VerifierStatistics, LoadError> {
    let mut file = ObjectFile::new();
    let type_id = file.types.program("wrong");
    file.code("xdp", &[Function { name: "wrong", insns, type_id, is_global: true }]);
    file.lines("xdp", lines);
    let spec = file.spec();
    let loader = Loader::new(&spec, LoaderOptions::default()).expect("a loader");
    assert!(loader.has_types(), "the kernel takes the types");
    let linked = spec.link_program("wrong", None).expect("it is linked");
    loader.load(&linked.program, &linked.code, &[]).map(|loaded| loaded.verifier)
}

#[test]
fn the_source_line() {
    let Some(()) = can_load() else { return };
    let insns = [set(0, 7), set(1, 0), load(op::W, 0, 1, 0), EXIT];
    let lines = [(0, 3, "int found = 7;"), (1, 5, "  found = *(int *)0;"), (3, 6, "return found;")];
    let (rejection, text) = rejection(with_lines(&insns, &lines).expect_err("no pointer"));
    assert_eq!(rejection.insn_index, Some(2));
    // Linux 6.12 tells the file too, 6.1 does not.
    let source = match since(6, 12, "the file in the verifier's log") {
        true => "found = *(int *)0; @ by_hand.c:5",
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
    let mut insns = vec![set(0, 0); 100];
    insns.extend([load(op::W, 0, 0, 0), EXIT]);
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
    let check = |insns: &[Insn], starts: &[u32], processed, stack_depths: &[u32]| {
        let spec = program(ProgramType::XDP);
        let loaded = Loader::without_object().load(&spec, &code(insns, starts), &[]);
        let loaded = loaded.expect("it loads");
        let found = loaded.verifier;
        assert_eq!(found.processed_instructions, Some(processed), "{insns:?}");
        assert_eq!(loaded.info.verified_instructions, processed as u32, "{insns:?}");
        assert_eq!(found.stack_depths, stack_depths, "{insns:?}");
        assert_eq!(found.stack_depth(), stack_depths.iter().sum(), "{insns:?}");
        assert!(found.verification_time_us.is_some(), "{insns:?}");
        let states = [found.total_states, found.peak_states, found.max_states_per_instruction];
        assert!(states.iter().all(Option::is_some), "{insns:?}: {states:?}");
        assert!(found.peak_states <= found.total_states, "{insns:?}: {states:?}");
    };
    check(&give(0), &[0], 2, &[0]);
    let stores = [store_value(op::DW, 10, -24, 1), set(0, 0), EXIT];
    check(&stores, &[0], 3, &[24]);
    // Both branches of a condition that nothing is known of, and what follows once for each.
    let branches = [
        load(op::W, 2, 1, 0),
        load(op::W, 3, 1, 16),
        jump(op::JEQ, 3, 1, 1),
        copy(3, 2),
        set(0, 0),
        EXIT,
    ];
    check(&branches, &[0], 8, &[0]);
    // A function with a stack of its own.
    let calls = [
        store_value(op::DW, 10, -8, 1),
        call_local(1),
        EXIT,
        store_value(op::DW, 10, -32, 2),
        set(0, 0),
        EXIT,
    ];
    check(&calls, &[0, 3], 6, &[8, 32]);
    // Turns of a loop are followed one by one, and states are kept on the way.
    let turns = 1000;
    let looping =
        [set(0, 0), crate::bytecode::alu(op::ADD, 0, 1), jump(op::JLT, 0, turns, -2), EXIT];
    check(&looping, &[0], 2 + 2 * turns as u64, &[0]);
}
