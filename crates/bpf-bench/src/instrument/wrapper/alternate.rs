//! Alternates two programs within one run, and times short bursts of calls of each.
//!
//! Two programs that run one after the other meet different conditions: another program wakes up on
//! the sibling thread, or the frequency steps down, both for longer than a batch. Bursts of a few
//! microseconds that alternate within one run meet the same conditions, so the difference of
//! neighbouring bursts is due to the programs.
//!
//! The loops use `may_goto` (Linux 6.9), with which the verifier explores a program two or three
//! times, regardless of the number of calls; a counted loop would be followed to the end.
//! `bpf_loop` was tried: its callback costs one more call and return per iteration (19 ns per
//! iteration with an empty program, where a loop takes 11), and requires type information. The
//! loader makes the two programs global functions
//! ([`Loader::load_image`](wingbeat_bpf_loader::loader::Loader::load_image)), so that the verifier
//! explores each of them once and not from each call.

use wingbeat_bpf_loader::code::{Code, FunctionInfo, Insn, op};

use super::{
    KTIME_GET_NS, NotWrappable, Options, Restored, WRAPPER_NAME, alu, alu_immediate, call_helper,
    call_local, check_callable, exit, instructions, load, load_map_value, store,
};

pub const BURSTS_MAX: usize = 1024;

/// Sides that have bursts: the two programs, then, if packets are restored, an empty function with
/// and without restoring.
pub const SIDES: usize = 4;

/// Size of the map's value if no packets are restored; otherwise [`Restored::value_size`] is added.
/// [`BurstPlan::to_value`] creates one.
pub const VALUE_SIZE: usize = TIMES as usize + 8 * BURSTS_MAX;

/// Offset of the next burst, 8 bytes.
const POSITION: i16 = 0;
/// Offset of the number of bursts to run, 8 bytes.
const BURSTS: i16 = 8;
/// Calls in a burst of each side, 8 bytes each.
const CALLS: [i16; SIDES] = [16, 24, 32, 40];
/// Return value of the last call of each program, 8 bytes each; only if packets are restored.
const RETURNED: [i16; 2] = [48, 56];
/// Side of each burst, one byte each.
const ORDER: i16 = 64;
/// Duration of each burst in nanoseconds, 8 bytes each.
const TIMES: i16 = ORDER + BURSTS_MAX as i16;
/// State to restore between calls.
const KEPT: i16 = VALUE_SIZE as i16;

/// Two programs with a function in front that alternates between them. They need a map whose value has [`VALUE_SIZE`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alternated {
    /// The program: the function in front, the first program, the second.
    pub code: Code,
    /// Function numbers in `code` of the entries of the two programs.
    pub called: [usize; 2],
}

/// The bursts of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BurstPlan {
    /// Calls in a burst of each side, at least 1.
    pub calls: [u32; SIDES],
    /// Side by burst; at most [`BURSTS_MAX`].
    pub order: Vec<u8>,
}

/// Combines two programs with a function in front that alternates between them as the map's value says.
///
/// All calls get the same context. Each sees the packet as left by the previous call, perhaps of
/// the other program, unless `options` restore it. The run returns `result`. Maps are those of the
/// first program, those of the second, and the map of `options`; map references of the second are
/// offset by `first_maps`. `home`, 0 or 1, is the program whose object will load both: its
/// functions keep their types. `padding` no-ops come first, to shift the programs to another
/// address. Fails like [`wrap`](super::wrap), except for missing types, and for programs with tail
/// calls.
pub fn alternate(
    programs: [&Code; 2],
    first_maps: i32,
    home: usize,
    result: i32,
    padding: usize,
    options: Options,
) -> Result<Alternated, NotWrappable> {
    for code in programs {
        check_callable(code, options)?;
        if let Some((insn_index, _)) = instructions(code).find(|(_, insn)| insn.is_tail_call()) {
            return Err(NotWrappable::TailCall { insn_index });
        }
    }
    let [first, mut second] = programs.map(Code::clone);
    let references: Vec<usize> = instructions(&second)
        .filter(|(_, insn)| {
            insn.is_ldimm64() && matches!(insn.src(), op::PSEUDO_MAP_FD | op::PSEUDO_MAP_VALUE)
        })
        .map(|(index, _)| index)
        .collect();
    for index in references {
        second.insns[index].immediate += first_maps;
    }
    let mut insns = front(options, result, padding.min(PADDING_MAX));
    let mut functions = vec![function(0, WRAPPER_NAME)];
    let empty = insns.len();
    if options.restored.is_some() {
        functions.push(function(empty, EMPTY_NAME));
        insns.extend([alu_immediate(op::MOV, 0, result), exit()]);
    }
    let starts = [insns.len(), insns.len() + first.insns.len()];
    let too_long = || NotWrappable::TooLong { insn_count: first.insns.len() + second.insns.len() };
    let calls = insns.iter_mut().enumerate().filter(|(_, insn)| **insn == call_local(0));
    for ((at, call), start) in calls.zip([starts[0], starts[1], empty, empty]) {
        *call = call_local(i32::try_from(start - at - 1).map_err(|_| too_long())?);
    }
    let called = [functions.len(), functions.len() + first.functions.len()];
    for (number, (start, code)) in starts.into_iter().zip([&first, &second]).enumerate() {
        functions.extend(code.functions.iter().map(|function| FunctionInfo {
            insn_index: function.insn_index.saturating_add(start as u32),
            name: function.name.clone(),
            type_id: function.type_id.filter(|_| number == home),
        }));
        insns.extend_from_slice(&code.insns);
    }
    if insns.len() > super::INSNS_MAX {
        return Err(too_long());
    }
    let code = Code { insns, functions, lines: Vec::new() };
    Ok(Alternated { code, called })
}

/// A generated function without type.
fn function(insn_index: usize, name: &str) -> FunctionInfo {
    FunctionInfo { insn_index: insn_index as u32, name: name.to_owned(), type_id: None }
}

/// Name of the empty function.
const EMPTY_NAME: &str = "wingbeat_empty";

/// Maximum number of padding instructions.
const PADDING_MAX: usize = 64;

/// r6 holds the context, r7 the remaining calls, r8 the map's value, r9 the start time.
fn front(options: Options, result: i32, padding: usize) -> Vec<Insn> {
    let jump =
        |operation, dst, src, offset| Insn::new(op::JMP | operation | op::X, dst, src, offset, 0);
    let last = BURSTS_MAX as i32 - 1;
    let mut insns = vec![alu(op::MOV, 6, 1)];
    // Distinct immediates, so that the verifier keeps each instruction.
    insns.extend((0..padding).map(|number| Insn::new(op::ALU64 | op::MOV, 2, 0, 0, number as i32)));
    insns.extend(load_map_value(8, options.map_fd, 0));
    let restored = options.restored;
    // State that each side restores.
    let sides = match restored {
        None => vec![None; 2],
        Some(_) => vec![restored, restored, restored, None],
    };
    insns.extend(restored.iter().flat_map(|it| it.keep(KEPT)));
    let record = record();
    let (mut bursts, mut from_end) = (Vec::new(), Vec::new());
    // From the last on: each needs its distance to the code behind all of them.
    for (number, restored) in sides.into_iter().enumerate().rev() {
        let burst = burst(number, restored, bursts.len() as i16);
        bursts.splice(0..0, burst);
        from_end.push(bursts.len() as i16);
    }
    let length = bursts.len() as i16;
    let behind_choice = length + record.len() as i16 + 1;
    // The first one needs no selection.
    let starts: Vec<i16> = from_end.iter().rev().skip(1).map(|it| length - it).collect();
    let chosen = starts.len() as i16;
    let mut choice = vec![
        may_goto(7 + chosen + behind_choice),
        load(1, 8, POSITION),
        load(2, 8, BURSTS),
        jump(op::JGE, 1, 2, 4 + chosen + behind_choice),
        jump_immediate(op::JGT, 1, last, 3 + chosen + behind_choice),
        alu(op::MOV, 2, 8),
        alu(op::ADD, 2, 1),
        Insn::new(op::LDX | op::MEM | op::B, 2, 2, ORDER, 0),
    ];
    choice.extend(
        (1_i16..)
            .zip(starts)
            .map(|(side, start)| jump_immediate(op::JEQ, 2, side.into(), chosen - side + start)),
    );
    let back = goto(-(choice.len() as i16 + behind_choice));
    insns.extend(choice);
    insns.extend(bursts);
    insns.extend(record);
    insns.extend([back, alu_immediate(op::MOV, 0, result), exit()]);
    insns
}

/// Loop of one side; `behind` instructions lie between it and the recording.
fn burst(number: usize, restored: Option<Restored>, behind: i16) -> Vec<Insn> {
    let mut inner = vec![alu(op::MOV, 1, 6), call_local(0)];
    if let Some(restored) = restored {
        inner.extend(RETURNED.get(number).map(|&at| store(8, at, 0)));
        inner.extend(restored.put_back(KEPT));
    }
    let length = inner.len() as i16;
    let mut insns = vec![load(7, 8, CALLS[number]), call_helper(KTIME_GET_NS)];
    insns.extend([alu(op::MOV, 9, 0), may_goto(3 + length + behind)]);
    insns.push(jump_immediate(op::JEQ, 7, 0, 2 + length + behind));
    insns.extend(inner);
    insns.extend([alu_immediate(op::ADD, 7, -1), goto(-(length + 4))]);
    insns
}

/// Records the duration of a burst.
fn record() -> [Insn; 11] {
    let last = BURSTS_MAX as i32 - 1;
    [
        call_helper(KTIME_GET_NS),
        // Terminated by the kernel in the middle of a burst, which does not count.
        jump_immediate(op::JNE, 7, 0, 10),
        alu(op::SUB, 0, 9),
        load(1, 8, POSITION),
        jump_immediate(op::JGT, 1, last, 7),
        alu(op::MOV, 2, 1),
        alu_immediate(op::LSH, 2, 3),
        alu(op::ADD, 2, 8),
        store(2, TIMES, 0),
        alu_immediate(op::ADD, 1, 1),
        store(8, POSITION, 1),
    ]
}

const fn jump_immediate(operation: u8, dst: u8, value: i32, offset: i16) -> Insn {
    Insn::new(op::JMP | operation, dst, 0, offset, value)
}

const fn may_goto(offset: i16) -> Insn {
    Insn::new(op::JCOND, 0, 0, offset, 0)
}

const fn goto(offset: i16) -> Insn {
    Insn::new(op::JA, 0, 0, offset, 0)
}

impl BurstPlan {
    /// Bursts of the two programs only.
    #[must_use]
    pub fn of_two([first, second]: [u32; 2], order: Vec<u8>) -> Self {
        Self { calls: [first, second, 1, 1], order }
    }

    /// Initial map value of a run.
    #[must_use]
    pub fn to_value(&self) -> Vec<u8> {
        let order = &self.order[..self.order.len().min(BURSTS_MAX)];
        let mut value = Vec::with_capacity(VALUE_SIZE);
        for word in [0, order.len() as u64].into_iter().chain(self.calls.map(u64::from)) {
            value.extend_from_slice(&word.to_le_bytes());
        }
        value.resize(ORDER as usize, 0);
        value.extend_from_slice(order);
        value.resize(VALUE_SIZE, 0);
        value
    }

    /// Side and nanoseconds per call of each completed burst.
    pub fn read<'a>(&'a self, value: &'a [u8]) -> impl Iterator<Item = (u8, f64)> + 'a {
        let done = usize::try_from(word(value, POSITION)).unwrap_or(0).min(self.order.len());
        self.order[..done].iter().zip((TIMES as usize..).step_by(8)).map(move |(&side, at)| {
            let calls = self.calls.get(usize::from(side)).map_or(1, |&calls| calls.max(1));
            (side, word_at(value, at) as f64 / f64::from(calls))
        })
    }
}

/// Return value of a program's last call, if packets are restored.
#[must_use]
pub fn last_returned(value: &[u8], program: usize) -> u32 {
    RETURNED.get(program).map_or(0, |&at| word(value, at)) as u32
}

fn word(value: &[u8], at: i16) -> u64 {
    word_at(value, at as usize)
}

fn word_at(value: &[u8], at: usize) -> u64 {
    value.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |&word| u64::from_le_bytes(word))
}

/// Times of neighbouring bursts of all `N` sides, by side.
pub fn neighbours<const N: usize>(times: &[(u8, f64)]) -> impl Iterator<Item = [f64; N]> {
    times.chunks_exact(N).map(|group| {
        let mut sides = [0.0; N];
        for &(side, ns) in group {
            if let Some(place) = sides.get_mut(usize::from(side)) {
                *place = ns;
            }
        }
        sides
    })
}

#[cfg(test)]
mod tests {
    use wingbeat_bpf_loader::{ProgramType, code::disassemble::Listing};

    use super::*;

    fn code(result: i32) -> Code {
        let insns = vec![
            Insn::new(op::LDIMM64, 1, op::PSEUDO_MAP_FD, 0, 0),
            Insn::default(),
            alu_immediate(op::MOV, 0, result),
            exit(),
        ];
        let name = format!("program{result}");
        let functions = vec![FunctionInfo { insn_index: 0, name, type_id: Some(7) }];
        Code { insns, functions, lines: Vec::new() }
    }

    #[test]
    fn two_programs_behind_one_loop() {
        let options = Options { map_fd: 2, program_type: ProgramType::XDP, restored: None };
        let found = alternate([&code(1), &code(2)], 1, 1, 3, 1, options).expect("two programs");
        let expected = "\
wingbeat_wrapper:
    0: r6 = r1
    1: r2 = 0
    2: r8 = map[fd:2][0] + 0
    4: may_goto +38 <43>
    5: r1 = *(u64 *)(r8 + 0)
    6: r2 = *(u64 *)(r8 + 8)
    7: if r1 >= r2 goto +35 <43>
    8: if r1 > 1023 goto +34 <43>
    9: r2 = r8
   10: r2 += r1
   11: r2 = *(u8 *)(r2 + 64)
   12: if r2 == 1 goto +9 <22>
   13: r7 = *(u64 *)(r8 + 16)
   14: call bpf_ktime_get_ns
   15: r9 = r0
   16: may_goto +14 <31>
   17: if r7 == 0 goto +13 <31>
   18: r1 = r6
   19: call program1
   20: r7 += -1
   21: goto -6 <16>
   22: r7 = *(u64 *)(r8 + 24)
   23: call bpf_ktime_get_ns
   24: r9 = r0
   25: may_goto +5 <31>
   26: if r7 == 0 goto +4 <31>
   27: r1 = r6
   28: call program2
   29: r7 += -1
   30: goto -6 <25>
   31: call bpf_ktime_get_ns
   32: if r7 != 0 goto +10 <43>
   33: r0 -= r9
   34: r1 = *(u64 *)(r8 + 0)
   35: if r1 > 1023 goto +7 <43>
   36: r2 = r1
   37: r2 <<= 3
   38: r2 += r8
   39: *(u64 *)(r2 + 1088) = r0
   40: r1 += 1
   41: *(u64 *)(r8 + 0) = r1
   42: goto -39 <4>
   43: r0 = 3
   44: exit
program1:
   45: r1 = map[fd:0]
   47: r0 = 1
   48: exit
program2:
   49: r1 = map[fd:1]
   51: r0 = 2
   52: exit
";
        assert_eq!(Listing::new(&found.code).to_string(), expected);
        let types: Vec<_> = found.code.functions.iter().map(|it| it.type_id).collect();
        assert_eq!((types.as_slice(), found.called), (&[None, None, Some(7)][..], [1, 2]));
    }

    #[test]
    fn what_cannot_be_called_again_is_refused() {
        let mut bad = code(1);
        bad.insns.insert(2, call_helper(op::HELPER_TAIL_CALL));
        let options = Options { map_fd: 2, program_type: ProgramType::XDP, restored: None };
        for programs in [[&bad, &code(2)], [&code(2), &bad]] {
            let found = alternate(programs, 1, 1, 3, 0, options);
            assert_eq!(found, Err(NotWrappable::TailCall { insn_index: 2 }));
        }
    }

    #[test]
    fn values() {
        let plan = BurstPlan::of_two([10, 4], vec![0, 1, 1]);
        let mut value = plan.to_value();
        assert_eq!(value.len(), VALUE_SIZE);
        assert_eq!(plan.read(&value).count(), 0, "nothing has been done");
        value[0] = 2;
        for (index, time) in [100_u64, 80].into_iter().enumerate() {
            let at = TIMES as usize + 8 * index;
            value[at..at + 8].copy_from_slice(&time.to_le_bytes());
        }
        assert_eq!(plan.read(&value).collect::<Vec<_>>(), [(0, 10.0), (1, 20.0)]);
        assert_eq!(plan.read(&value[..3]).count(), 0);
    }
}
