//! Calls two programs in turns within one run, and times short bursts of calls of each.
//!
//! Two programs that are run one after the other meet two machines: another program wakes up on the
//! CPU's other thread, the frequency steps down, and both last for longer than a batch. Bursts of some
//! microseconds that take turns within one run meet the same machine, and the difference of two
//! neighbours is what the programs make of it.
//!
//! The loops begin with `may_goto` (Linux 6.9), with which the verifier looks at a program two or three
//! times, however often it is called; a counted loop it would follow to the end. `bpf_loop` was tried:
//! its callback costs one more call and return per turn (19 ns a turn with an empty program, where a
//! loop takes 11), and works only with type information. The loader makes global functions of the two
//! programs ([`Loader::load_image`](wingbeat_bpf::loader::Loader::load_image)), so that the verifier
//! looks at each of them once and not from each call.

use wingbeat_bpf::code::{Code, FunctionInfo, Insn, op};

use super::{
    KTIME_GET_NS, NotWrappable, Options, WRAPPER_NAME, check_callable,
    emit::{alu, alu_immediate, call_helper, call_local, exit, load, load_map_value, store},
    instructions,
};

pub const BURSTS_MAX: usize = 1024;

/// Size of the map's value: [`Turns::to_value`] makes one.
pub const VALUE_SIZE: usize = TIMES as usize + 8 * BURSTS_MAX;

/// The next burst, 8 bytes, at this offset.
const POSITION: i16 = 0;
/// How many bursts to make, 8 bytes.
const BURSTS: i16 = 8;
/// Calls in a burst of the first program, and of the second, 8 bytes each.
const CALLS: [i16; 2] = [16, 24];
/// Which program each burst calls, a byte each.
const ORDER: i16 = 32;
/// How long each burst took in nanoseconds, 8 bytes each.
const TIMES: i16 = ORDER + BURSTS_MAX as i16;

/// Two programs with a function in front that lets them take turns. They need a map whose value has
/// [`VALUE_SIZE`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alternated {
    /// The program: the function in front, the first program, the second.
    pub code: Code,
    /// The functions of `code` that are the entries of the two programs, by number.
    pub called: [usize; 2],
}

/// Which bursts a run shall make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turns {
    /// Calls in a burst of each program, at least 1.
    pub calls: [u32; 2],
    /// Which program, 0 or 1, by burst; at most [`BURSTS_MAX`].
    pub order: Vec<u8>,
}

/// Puts a function in front of two programs that calls them in turns, as the map's value says.
///
/// All calls get the same context. Each finds the packet as the one before has left it, which may have
/// been of the other program. The run returns `result`. Maps are those of the first program, those of
/// the second, and the map of `options`; the references of the second are moved by `first_maps`. `home`,
/// 0 or 1, is the program whose object will load both: its functions keep their types. `padding`
/// instructions without effect come first, so that the programs begin at another place.
/// Fails as [`wrap`](super::wrap), but for missing types, and for programs with tail calls.
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
    let mut insns = front(options.map_fd, result, padding.min(PADDING_MAX));
    let starts = [insns.len(), insns.len() + first.insns.len()];
    let too_long = || NotWrappable::TooLong { insn_count: first.insns.len() + second.insns.len() };
    let calls = insns.iter_mut().enumerate().filter(|(_, insn)| **insn == call_local(0));
    for ((at, call), start) in calls.zip(starts) {
        *call = call_local(i32::try_from(start - at - 1).map_err(|_| too_long())?);
    }
    let front = FunctionInfo { insn_index: 0, name: WRAPPER_NAME.to_owned(), type_id: None };
    let mut functions = vec![front];
    let called = [1, 1 + first.functions.len()];
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

/// Most instructions without effect.
const PADDING_MAX: usize = 64;

/// r6 holds the context, r7 the calls that are left, r8 the map's value, r9 the time of the start.
fn front(map_fd: i32, result: i32, padding: usize) -> Vec<Insn> {
    let jump =
        |operation, dst, src, offset| Insn::new(op::JMP | operation | op::X, dst, src, offset, 0);
    let jump_immediate =
        |operation, dst, value, offset| Insn::new(op::JMP | operation, dst, 0, offset, value);
    let may_goto = |offset| Insn::new(op::JCOND, 0, 0, offset, 0);
    let goto = |offset| Insn::new(op::JA, 0, 0, offset, 0);
    let last = BURSTS_MAX as i32 - 1;
    let mut insns = vec![alu(op::MOV, 6, 1)];
    // Immediates of their own, so that the verifier leaves each of them in.
    insns.extend((0..padding).map(|number| Insn::new(op::ALU64 | op::MOV, 2, 0, 0, number as i32)));
    insns.extend(load_map_value(8, map_fd, 0));
    // One program's loop; `behind` instructions lie between it and the recording.
    let burst = |side: usize, behind: i16| {
        [
            load(7, 8, CALLS[side]),
            call_helper(KTIME_GET_NS),
            alu(op::MOV, 9, 0),
            may_goto(5 + behind),
            jump_immediate(op::JEQ, 7, 0, 4 + behind),
            alu(op::MOV, 1, 6),
            call_local(0),
            alu_immediate(op::ADD, 7, -1),
            goto(-6),
        ]
    };
    let length = burst(0, 0).len() as i16;
    let record = [
        call_helper(KTIME_GET_NS),
        // Ended by the kernel in the middle of a burst: it does not count.
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
    ];
    let behind_choice = 2 * length + record.len() as i16 + 1;
    let choice = [
        may_goto(8 + behind_choice),
        load(1, 8, POSITION),
        load(2, 8, BURSTS),
        jump(op::JGE, 1, 2, 5 + behind_choice),
        jump_immediate(op::JGT, 1, last, 4 + behind_choice),
        alu(op::MOV, 2, 8),
        alu(op::ADD, 2, 1),
        Insn::new(op::LDX | op::MEM | op::B, 2, 2, ORDER, 0),
        jump_immediate(op::JNE, 2, 0, length),
    ];
    insns.extend(choice);
    insns.extend(burst(0, length));
    insns.extend(burst(1, 0));
    insns.extend(record);
    insns.push(goto(-(choice.len() as i16 + behind_choice)));
    insns.extend([alu_immediate(op::MOV, 0, result), exit()]);
    insns
}

impl Turns {
    /// The value that the map must have before the run.
    #[must_use]
    pub fn to_value(&self) -> Vec<u8> {
        let order = &self.order[..self.order.len().min(BURSTS_MAX)];
        let mut value = Vec::with_capacity(VALUE_SIZE);
        for word in [0, order.len() as u64, self.calls[0].into(), self.calls[1].into()] {
            value.extend_from_slice(&word.to_le_bytes());
        }
        value.extend_from_slice(order);
        value.resize(VALUE_SIZE, 0);
        value
    }

    /// Nanoseconds per call and burst, as far as the run came: which program, and how long.
    pub fn read<'a>(&'a self, value: &'a [u8]) -> impl Iterator<Item = (u8, f64)> + 'a {
        let word = |at: usize| {
            value
                .get(at..)
                .and_then(<[u8]>::first_chunk)
                .map_or(0, |&word| u64::from_le_bytes(word))
        };
        let done = usize::try_from(word(POSITION as usize)).unwrap_or(0).min(self.order.len());
        self.order[..done].iter().enumerate().map(move |(index, &side)| {
            let calls = self.calls[usize::from(side != 0)].max(1);
            (side, word(TIMES as usize + 8 * index) as f64 / f64::from(calls))
        })
    }
}

/// Times of neighbouring bursts, that of the first program first.
pub fn neighbours(times: &[(u8, f64)]) -> impl Iterator<Item = [f64; 2]> {
    times.chunks_exact(2).map(|two| match two[0].0 {
        0 => [two[0].1, two[1].1],
        _ => [two[1].1, two[0].1],
    })
}

#[cfg(test)]
mod tests {
    use wingbeat_bpf::{ProgramType, code::disassemble::Listing};

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
        let options = Options { map_fd: 2, program_type: ProgramType::XDP };
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
   11: r2 = *(u8 *)(r2 + 32)
   12: if r2 != 0 goto +9 <22>
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
   39: *(u64 *)(r2 + 1056) = r0
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
        let options = Options { map_fd: 2, program_type: ProgramType::XDP };
        for programs in [[&bad, &code(2)], [&code(2), &bad]] {
            let found = alternate(programs, 1, 1, 3, 0, options);
            assert_eq!(found, Err(NotWrappable::TailCall { insn_index: 2 }));
        }
    }

    #[test]
    fn values() {
        let turns = Turns { calls: [10, 4], order: vec![0, 1, 1] };
        let mut value = turns.to_value();
        assert_eq!(value.len(), VALUE_SIZE);
        assert_eq!(turns.read(&value).count(), 0, "nothing has been done");
        value[0] = 2;
        for (index, time) in [100_u64, 80].into_iter().enumerate() {
            let at = TIMES as usize + 8 * index;
            value[at..at + 8].copy_from_slice(&time.to_le_bytes());
        }
        assert_eq!(turns.read(&value).collect::<Vec<_>>(), [(0, 10.0), (1, 20.0)]);
        assert_eq!(turns.read(&value[..3]).count(), 0);
    }
}
