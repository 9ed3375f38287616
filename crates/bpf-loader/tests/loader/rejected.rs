//! Programs that the verifier rejects, and its statistics for accepted ones.

use wingbeat_bpf_loader::{
    ProgramType,
    code::Insn,
    loader::{LoadError, Loader, Rejection, VerifierStatistics},
};
use wingbeat_bpf_testing::object::typed::TypedObject;

use crate::support::{
    asm, can_load, code, give, load as load_program, load_linked, program, since,
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
    load_linked(&file.spec(), "wrong", false).map(|(loaded, _)| loaded.verifier)
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
