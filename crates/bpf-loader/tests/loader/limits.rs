//! Verifier limits, each exceeded by a program as small as possible.

use std::time::{Duration, Instant};

use wingbeat_bpf_loader::{
    ProgramType,
    code::Insn,
    loader::{Loader, VerifierLimit},
};

use crate::{
    rejected::rejection,
    support::{asm, can_load, code, give, program, since},
};

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
