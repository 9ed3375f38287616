//! Calls a program many times in one run.
//!
//! A program of a few nanoseconds is lost in its run: `BPF_PROG_TEST_RUN` spends 10 to 30 ns on each
//! and tells whole nanoseconds only. A loop in front of the program costs a third of that per call, and
//! a call's share of the run's time is no longer a whole number.
//!
//! The loop begins with `may_goto` (Linux 6.9), with which the verifier looks at the program two or
//! three times, however often it is called; a counted loop it would follow to the end. `bpf_loop` has
//! that advantage too, and was tried: its callback costs one more call and return per turn (19 ns a
//! turn with an empty program, where this loop takes 11 and the plain run 27), 24 bytes more of stack,
//! and works only with type information.

use wingbeat_bpf::code::{Code, Insn, op};

use super::{
    Front, NotWrappable, Options, Wrapped, check,
    emit::{alu, alu_immediate, call_local, exit, load, load_map_value, store},
    instructions, prepend,
};

/// Size of the map's value: [`repeat_value`] makes one.
pub const VALUE_SIZE: usize = 16;

/// How often the program is called in the loop, 8 bytes, at this offset.
const TURNS: i16 = 0;
/// Turns that were not made, 8 bytes.
const MISSED: i16 = 8;

/// Most calls per run that the kernel makes (`BPF_MAX_LOOPS` in include/linux/bpf.h, Linux 6.18) and
/// one. It also ends the loop after a quarter of a second, see [`missed_calls`].
pub const CALLS_MAX: u32 = 8 * 1024 * 1024 + 1;

/// Puts a function in front of the program that calls it as often as the map's value says.
///
/// All calls get the same context, the result of the last one is returned. As when a run is repeated,
/// each call finds packet and maps as the one before has left them.
/// Fails as [`wrap`](super::wrap), and for programs with tail calls.
pub fn repeat(code: &Code, options: Options) -> Result<Wrapped, NotWrappable> {
    check(code, options)?;
    check_repeatable(code)?;
    prepend(front(options.map_fd), code, VALUE_SIZE as u32)
}

/// Refuses what goes another way when it is called again in the same run.
pub(super) fn check_repeatable(code: &Code) -> Result<(), NotWrappable> {
    match instructions(code).find(|(_, insn)| insn.is_tail_call()) {
        Some((insn_index, _)) => Err(NotWrappable::TailCall { insn_index }),
        None => Ok(()),
    }
}

/// The value that the map must have before a run that shall make so many calls, from 1 to
/// [`CALLS_MAX`], to which others are clamped.
pub fn repeat_value(calls: u32) -> [u8; VALUE_SIZE] {
    let turns = u64::from(calls.clamp(1, CALLS_MAX)) - 1;
    let mut value = [0; VALUE_SIZE];
    if let Some((first, _)) = value.split_first_chunk_mut() {
        *first = turns.to_le_bytes();
    }
    value
}

/// How many calls the kernel has refused since the value was set, in all runs. If it is not 0, the runs
/// were too long, and their time divided by the number of calls means nothing. `None` if the value has
/// the wrong size.
pub fn missed_calls(value: &[u8]) -> Option<u64> {
    let value: &[u8; VALUE_SIZE] = value.try_into().ok()?;
    value.last_chunk().map(|&missed| u64::from_le_bytes(missed))
}

/// r6 holds the context, r7 the turns that are left. The verifier must not know their number.
///
/// The last call lies behind the loop: within it the verifier would have to see that all results that
/// the program can have mean the same to what follows.
fn front(map_fd: i32) -> Front {
    let [first, second] = load_map_value(8, map_fd, 0);
    let insns = vec![
        alu(op::MOV, 6, 1),
        first,
        second,
        load(7, 8, TURNS),
        // The loop:
        Insn::new(op::JCOND, 0, 0, 5, 0),
        Insn::new(op::JMP | op::JEQ, 7, 0, 4, 0),
        alu(op::MOV, 1, 6),
        call_local(0),
        alu_immediate(op::ADD, 7, -1),
        Insn::new(op::JA, 0, 0, -6, 0),
        // Behind it:
        load(1, 8, MISSED),
        alu(op::ADD, 1, 7),
        store(8, MISSED, 1),
        alu(op::MOV, 1, 6),
        call_local(0),
        exit(),
    ];
    Front { insns, calls: &[7, 14] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let check = |calls, turns: u64| {
            let value = repeat_value(calls);
            assert_eq!(value[..8], turns.to_le_bytes(), "{calls}");
            assert_eq!(missed_calls(&value), Some(0));
        };
        check(0, 0);
        check(1, 0);
        check(64, 63);
        check(u32::MAX, 8 * 1024 * 1024);

        let mut value = repeat_value(64);
        value[8] = 3;
        assert_eq!(missed_calls(&value), Some(3));
        assert_eq!(missed_calls(&value[1..]), None);
        assert_eq!(missed_calls(&[0; 17]), None);
    }
}
