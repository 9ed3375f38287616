//! Accounts of threads that call `exec` or leave the CPU unseen.

use wingbeat_profiler_abi::off_cpu::{CachedStack, Waker};

use super::*;
use crate::{
    model::State,
    recorder::{
        Scope,
        event::{Event, EventKind},
    },
};

/// A PID that does not exist.
const PID: u32 = 4_200_000;
const MS: u64 = 1_000_000;

fn block(start_ns: u64, end_ns: u64) -> Block {
    Block {
        pid: PID,
        tid: PID,
        state: State::Sleeping,
        slot: NO_SLOT,
        kernel_slot: NO_SLOT,
        user_ns: 0,
        kernel_ns: 0,
        waker: None,
        start_ns,
        end_ns,
        is_open: false,
    }
}

fn end(begun_ns: u64, end_ns: u64, on_cpu_ns: u64) -> Span {
    let off = Off::default();
    Span { pid: PID, tid: PID, begun_ns, end_ns, on_cpu_ns, off, below: 0, below_ns: 0 }
}

fn named(name: &str, exec: bool, time_ns: u64) -> Event {
    let name = name.to_owned();
    Event { time_ns, kind: EventKind::Name { pid: PID, tid: PID, name, exec } }
}

fn recorder() -> Recorder {
    let mut recorder = Recorder::new(0, Scope::All);
    recorder.watch_blocks();
    recorder.event(named("sh", false, MS));
    recorder
}

/// Each account's name, start, end, on-CPU time and off-CPU time, in milliseconds.
fn accounts(recorder: &Recorder) -> Vec<(&str, [u64; 4])> {
    let accounts = recorder.blocks.accounts.iter();
    let of = |account: &crate::recorder::blocks::Account| {
        let thread = &recorder.threads.threads[account.thread as usize];
        let span = account.span;
        let times =
            [span.begun_ns, span.end_ns, span.on_cpu_ns, span.off.total_ns].map(|ns| ns / MS);
        (thread.name.as_str(), times)
    };
    accounts.map(of).collect()
}

#[test]
fn a_program_begins_with_its_name() {
    // Its account begins when the program is loaded, 5 ms later, 3 of them asleep.
    let mut recorder = recorder();
    recorder.block(&block(10 * MS, 40 * MS));
    recorder.event(named("ls", true, 100 * MS));
    recorder.block(&block(101 * MS, 104 * MS));
    recorder.thread_ended(end(10 * MS, 105 * MS, 62 * MS), true);
    recorder.block(&block(110 * MS, 160 * MS));
    recorder.thread_ended(end(105 * MS, 200 * MS, 45 * MS), false);
    assert_eq!(accounts(&recorder), [("sh", [10, 100, 60, 30]), ("ls", [100, 200, 47, 53])]);
}

#[test]
fn a_program_that_never_blocked_keeps_its_name() {
    let mut recorder = recorder();
    recorder.event(named("ls", true, 20 * MS));
    recorder.thread_ended(end(10 * MS, 21 * MS, 11 * MS), true);
    recorder.thread_ended(end(21 * MS, 30 * MS, 9 * MS), false);
    assert_eq!(accounts(&recorder), [("sh", [10, 20, 10, 0]), ("ls", [20, 30, 10, 0])]);
}

#[test]
fn a_block_may_reach_over_the_change_of_the_program() {
    let mut recorder = recorder();
    recorder.event(named("ls", true, 30 * MS));
    recorder.block(&block(10 * MS, 40 * MS));
    recorder.thread_ended(end(5 * MS, 40 * MS, 5 * MS), true);
    recorder.thread_ended(end(40 * MS, 45 * MS, 5 * MS), false);
    assert_eq!(accounts(&recorder), [("sh", [5, 10, 5, 0]), ("ls", [10, 45, 5, 30])]);
}

#[test]
fn an_account_that_begins_with_the_program_is_whole() {
    // A launched command: its time before `exec` is not recorded.
    let mut recorder = recorder();
    recorder.event(named("ls", true, 20 * MS));
    recorder.thread_ended(end(21 * MS, 30 * MS, 9 * MS), false);
    assert_eq!(accounts(&recorder), [("ls", [21, 30, 9, 0])]);
}

#[test]
fn a_thread_that_takes_over_the_number_of_the_first_keeps_its_account() {
    // It is off the CPU once more before its `exec` is reported.
    let mut recorder = recorder();
    let name = "worker".to_owned();
    let kind = EventKind::Name { pid: PID, tid: PID + 1, name, exec: false };
    recorder.event(Event { time_ns: 2 * MS, kind });
    recorder.thread_ended(end(5 * MS, 19 * MS, 14 * MS), false);
    recorder.block(&block(20 * MS, 22 * MS));
    recorder.event(named("ls", true, 23 * MS));
    recorder.thread_ended(Span { tid: PID + 1, ..end(10 * MS, 20 * MS, 10 * MS) }, false);
    recorder.thread_ended(end(20 * MS, 24 * MS, 2 * MS), true);
    recorder.thread_ended(end(24 * MS, 30 * MS, 6 * MS), false);
    let expected = [("sh", [5, 19, 14, 0]), ("worker", [10, 23, 11, 2]), ("ls", [23, 30, 7, 0])];
    assert_eq!(accounts(&recorder), expected);
}

#[test]
fn a_stack_that_was_lost_is_missing_in_each_block() {
    let check = |slot, kernel_slot, missing, completeness| {
        let mut recorder = recorder();
        for start in [10, 20] {
            let block = block(start * MS, (start + 1) * MS);
            recorder.block(&Block { slot, kernel_slot, ..block });
        }
        assert_eq!(recorder.blocks.stacks_missing, missing, "{slot} {kernel_slot}");
        let stacks = recorder.stacks.in_order();
        assert_eq!(stacks.len(), 1);
        assert_eq!(stacks[0].completeness, completeness, "{slot} {kernel_slot}");
    };
    let not_taken = Completeness::Broken(BrokenReason::NotTaken);
    check(0, NO_SLOT, 2, not_taken);
    check(NO_SLOT, 1, 2, Completeness::Complete);
    check(NO_SLOT, NO_SLOT, 0, Completeness::Complete);
    check(NEW_THREAD, NO_SLOT, 0, Completeness::Complete);
    check(UNSEEN, NO_SLOT, 0, not_taken);
}

#[test]
fn a_block_over_the_end_of_a_window_is_in_both() {
    let check = |(start_ms, end_ms), state: BlockState, expected_ms: [u64; 2]| {
        let record = BlockRecord {
            kind: 0,
            state: state as u8,
            slot: NO_SLOT,
            kernel_slot: NO_SLOT,
            pid: PID,
            tid: PID,
            waker_tid: 0,
            start_ns: start_ms * MS,
            end_ns: end_ms * MS,
            user_ns: 0,
            kernel_ns: 0,
            waker_ns: 0,
        };
        let mut recorder = recorder();
        recorder.start_at(10 * MS);
        let sum = |recorder: &Recorder| -> u64 {
            recorder.blocks.rows.iter().map(|row| row.total_ns).sum()
        };
        // The window ended at 100 ms, and the block is read a little later.
        recorder.block_so_far(&record, 100 * MS);
        let first_ns = sum(&recorder);
        recorder.next_window(100 * MS);
        recorder.block(&Block::from(&record));
        assert_eq!([first_ns / MS, sum(&recorder) / MS], expected_ms, "{start_ms} {end_ms}");
    };
    check((30, 120), BlockState::Sleeping, [70, 20]);
    check((100, 120), BlockState::Sleeping, [0, 20]);
    check((5, 120), BlockState::Sleeping, [0, 20]);
    check((5, 120), BlockState::Preempted, [90, 20]);
}

#[test]
fn who_ran_too_little_has_gone() {
    let check = |ran_ms: u64, elapsed_ms: u64, expected| {
        let mut thread = Thread {
            pid: PID,
            whereabouts: ON_CPU,
            state: 0,
            slot: 0,
            next_slot: 0,
            since_ns: 1_000 * MS,
            begun_ns: 0,
            on_cpu_ns: 7 * MS,
            below_ns: 0,
            below: 0,
            kernel_slot: 0,
            next_kernel_slot: 0,
            is_final: 0,
            reserved: 0,
            waker: Waker { tid: 0, reserved: 0, key: 0, stack_ns: 0 },
            runtime_ns: 500 * MS,
            users: [CachedStack::EMPTY; SLOTS],
            kernels: [CachedStack::EMPTY; SLOTS],
        };
        let end_ns = thread.since_ns + elapsed_ms * MS;
        let is_gone = reconstruct_leaving(&mut thread, (500 + ran_ms) * MS, end_ns);
        assert_eq!(is_gone, expected, "{ran_ms} of {elapsed_ms}");
        let ran_ms = if is_gone { ran_ms } else { 0 };
        assert_eq!(thread.on_cpu_ns, (7 + ran_ms) * MS);
        assert_eq!(thread.since_ns, (1_000 + ran_ms) * MS);
    };
    check(0, 1_000, true);
    check(4, 1_000, true);
    check(700, 1_000, true);
    // A pending tick, or a hypervisor.
    check(0, 4, false);
    check(900, 1_000, false);
    check(1_000, 1_000, false);
    // Queried after the end.
    check(1_100, 1_000, false);
}
