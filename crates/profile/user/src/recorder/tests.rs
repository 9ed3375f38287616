//! What the recorder makes of processes that it did not see begin, and of walks that end at once.

use wingbeat_profile_common::RecordKind;

use super::*;
use crate::wire::decode;

#[test]
fn with_all_a_process_is_known_whole_at_its_first_mapping() {
    let pid = std::process::id();
    let mappings = proc::executable_mappings(pid);
    let mut recorder = Recorder::new(0, Scope::All);
    let file = mappings.last().expect("a mapping").clone();
    recorder.event(Event { time_ns: 1, kind: EventKind::Map { pid, file } });
    let generation = recorder.generation(pid);
    let known = recorder.spaces.generation(generation).expect("generation");
    for mapping in &mappings {
        assert!(known.find(mapping.start).is_some(), "{mapping:?}");
    }
}

#[test]
fn the_caller_of_a_function_without_a_frame_is_found_once() {
    let pid = std::process::id();
    let mut recorder = Recorder::new(0, Scope::All);
    recorder.adopt(pid);
    // The first instruction of a function: the address of its caller is on top of the stack. The
    // caller is the same function one byte on, and the end of the thread follows.
    let ip = first_instruction as fn() as usize as u64;
    let (sp, caller) = (0x7ffe_0000_u64, ip + 1);
    recorder.record(decode(&tail(pid, sp, &[caller, 0])).expect("tail"));
    recorder.record(decode(&sample(pid, [sp, 3, caller, 0, ip])).expect("sample"));
    let stacks = recorder.stacks.in_order();
    assert_eq!(stacks[0].user, [ip, caller]);
    assert_eq!(stacks[0].completeness, Completeness::Complete);
}

#[test]
fn a_mapping_that_becomes_known_late_counts() {
    let pid = std::process::id();
    let mut recorder = Recorder::new(0, Scope::All);
    recorder.spaces.clear(pid);
    let ip = first_instruction as fn() as usize as u64;
    let generation = recorder.generation(pid);
    assert_eq!(recorder.rule(generation, ip), Rule::GAP);
    for file in proc::executable_mappings(pid) {
        recorder.event(Event { time_ns: 1, kind: EventKind::Map { pid, file } });
    }
    assert_eq!(recorder.generation(pid), generation);
    assert_ne!(recorder.rule(generation, ip), Rule::GAP);
}

fn first_instruction() {
    std::hint::black_box(1);
}

/// What the samples and the tails here have in common.
const CHECKS: u64 = 77;

fn tail(pid: u32, sp: u64, words: &[u64]) -> Vec<u8> {
    let mut bytes = vec![RecordKind::Tail as u8, 0, words.len() as u8, 0];
    bytes.extend([pid, pid, 0].into_iter().flat_map(u32::to_le_bytes));
    bytes.extend([1, sp, CHECKS, CHECKS].iter().chain(words).flat_map(|word| word.to_le_bytes()));
    bytes
}

/// Of one user frame, at which the frame pointer is no use; `words` follow the time.
fn sample(pid: u32, words: [u64; 5]) -> Vec<u8> {
    let mut bytes = vec![RecordKind::Sample as u8, Stop::NotAFrame as u8, 0, 0, 1, 0, 0, 0];
    bytes.extend([pid, pid].into_iter().flat_map(u32::to_le_bytes));
    // The second word of the stack lies before the frames.
    let [sp, bp, leaf, below, ip] = words;
    bytes.extend(
        [1, sp, bp, CHECKS, CHECKS, leaf, below, ip].into_iter().flat_map(u64::to_le_bytes),
    );
    bytes
}
