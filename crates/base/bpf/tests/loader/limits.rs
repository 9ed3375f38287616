//! Limits of the verifier, each run into by a program that is as small as can be.

use std::time::{Duration, Instant};

use wingbeat_bpf::{
    ProgramType,
    code::{Insn, op},
    loader::{Loader, VerifierLimit},
};

use crate::{
    bytecode::{EXIT, alu, alu_reg, call_local, copy, give, go, jump, load, set, store_value},
    rejected::rejection,
    support::{can_load, code, program},
};

/// How long telling of a rejection may take; the longest log takes some seconds.
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
    let turns = 1_000_000;
    let looping = [set(0, 0), alu(op::ADD, 0, 1), jump(op::JLT, 0, turns, -2), EXIT];
    let reason = "BPF program is too large. Processed 1000001 insn";
    check(&looping, &[0], Some(VerifierLimit::Instructions), reason);
}

#[test]
fn pending_branches() {
    let Some(()) = can_load() else { return };
    let count: i16 = 9000;
    let mut insns = vec![load(op::W, 2, 1, 0)];
    // Each may be taken or not, for all that the verifier knows.
    insns.extend((0..count).map(|at| jump(op::JEQ, 2, i32::from(at), count - 1 - at)));
    insns.extend(give(0));
    check(&insns, &[0], Some(VerifierLimit::Jumps), "jumps is too complex");
}

#[test]
fn stack() {
    let Some(()) = can_load() else { return };
    let check_access = |insns: &[Insn], limit, reason| check(insns, &[0], limit, reason);
    let over = [store_value(op::DW, 10, -520, 0), set(0, 0), EXIT];
    check_access(&over, Some(VerifierLimit::Stack), "invalid write to stack R10 off=-520 size=8");
    let over = [load(op::DW, 0, 10, -520), EXIT];
    check_access(&over, Some(VerifierLimit::Stack), "invalid read from stack R10 off=-520 size=8");
    // An unknown place on the stack, of which some are beyond the limit.
    let somewhere = [
        load(op::W, 2, 1, 0),
        alu(op::AND, 2, 0xfff),
        // Not by a negation: before 6.17 the verifier forgot all bounds at one.
        alu(op::ADD, 2, -4096),
        copy(3, 10),
        alu_reg(op::ADD, 3, 2),
        store_value(op::B, 3, -8, 0),
        set(0, 0),
        EXIT,
    ];
    check_access(&somewhere, None, "invalid variable-offset write to stack R3");
    // Above the frame, and not yet written: wrong, but not for want of room.
    let above = [store_value(op::DW, 10, 0, 0), set(0, 0), EXIT];
    check_access(&above, None, "invalid write to stack R10 off=0 size=8");
    // Two functions that fit alone, and not together.
    let two = [
        store_value(op::DW, 10, -272, 1),
        call_local(1),
        EXIT,
        store_value(op::DW, 10, -272, 2),
        set(0, 0),
        EXIT,
    ];
    check(&two, &[0, 3], Some(VerifierLimit::Stack), "combined stack size of 2 calls is ");
}

#[test]
fn call_frames() {
    let Some(()) = can_load() else { return };
    // Each of nine calls the next one.
    let mut insns: Vec<Insn> = (0..9).flat_map(|_| [call_local(1), EXIT]).collect();
    insns.extend(give(0));
    let starts: Vec<u32> = (0..10).map(|number| 2 * number).collect();
    check(&insns, &starts, Some(VerifierLimit::CallDepth), "frames is too deep");
}

#[test]
fn loops_without_an_end() {
    let Some(()) = can_load() else { return };
    check(&[set(0, 0), go(-1), EXIT], &[0], None, "unreachable insn 2");
    let endless = [set(0, 0), load(op::W, 2, 1, 0), jump(op::JNE, 2, 5, -2), EXIT];
    check(&endless, &[0], Some(VerifierLimit::Loop), "infinite loop detected at insn 1");
}
