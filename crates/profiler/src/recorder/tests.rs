//! Processes that started before the recorder, and walks that end at once.

use wingbeat_profiler_abi::RecordKind;

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
fn a_stack_that_was_copied_is_walked_to_its_end() {
    let pid = std::process::id();
    let mut recorder = Recorder::new(0, Scope::All);
    recorder.adopt(pid);
    // The first instruction of a function: the caller's address is on top of the stack, or in the link register on
    // aarch64. The caller is the same function one byte on, and the thread ends after that; on aarch64 the link
    // register is unknown by then.
    let ip = first_instruction as fn() as usize as u64;
    let (sp, caller) = (0x7ffe_0000_u64, ip + 1);
    let (extra_register, end) = match cfg!(target_arch = "aarch64") {
        true => (caller << 16, Completeness::Broken(BrokenReason::Unsupported)),
        false => (0, Completeness::Complete),
    };
    for bytes in [copy(pid, sp, [caller, 0]), sample(pid, [sp, 3, extra_register, ip])] {
        recorder.record(decode(&bytes).expect("record"));
    }
    let stacks = recorder.stacks.in_order();
    assert_eq!(stacks[0].user, [ip, caller]);
    assert_eq!(stacks[0].completeness, end);
    assert_eq!(recorder.wanted, [(pid, ip), (pid, caller - 1)]);
}

#[test]
fn a_mapping_that_becomes_known_late_counts() {
    let pid = std::process::id();
    let mut recorder = Recorder::new(0, Scope::All);
    recorder.spaces.clear(pid);
    let ip = first_instruction as fn() as usize as u64;
    let generation = recorder.generation(pid);
    assert_eq!(rule(&mut recorder, generation, ip), None);
    for file in proc::executable_mappings(pid) {
        recorder.event(Event { time_ns: 1, kind: EventKind::Map { pid, file } });
    }
    assert_eq!(recorder.generation(pid), generation);
    assert!(rule(&mut recorder, generation, ip).is_some_and(|rule| rule != Rule::GAP));
}

fn first_instruction() {
    std::hint::black_box(1);
}

fn rule(recorder: &mut Recorder, generation: GenerationId, address: u64) -> Option<Rule> {
    let Recorder { rules, spaces, binaries, .. } = recorder;
    look_up_rule(rules, spaces, binaries, generation, address).map(|rule| rule.unwrap_or(Rule::GAP))
}

/// Two words of stack.
fn copy(pid: u32, address: u64, words: [u64; 2]) -> Vec<u8> {
    let mut bytes = vec![RecordKind::Copy as u8, 0, 2, 0];
    bytes.extend(pid.to_le_bytes());
    bytes.extend([1, address].into_iter().chain(words).flat_map(u64::to_le_bytes));
    bytes
}

/// A sample with one user frame without a table: its stack and frame pointer, the state of the extra register, its
/// address.
fn sample(pid: u32, [sp, fp, extra_register, ip]: [u64; 4]) -> Vec<u8> {
    let mut bytes = vec![RecordKind::Sample as u8, Stop::NoTable as u8, 0, 0, 1, 0, 0, 0];
    bytes.extend([pid, pid].into_iter().flat_map(u32::to_le_bytes));
    bytes.extend([1, sp, fp, extra_register, 0, ip].into_iter().flat_map(u64::to_le_bytes));
    bytes
}
