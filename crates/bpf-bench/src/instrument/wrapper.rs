//! Times each run of a program from within: a wrapper function reads the clock, calls the program,
//! reads the clock again and counts the difference.
//!
//! `BPF_PROG_TEST_RUN` reports only the mean, and tracing programs (fentry, fexit) that could
//! observe single runs are not available on every machine. A wrapper needs nothing but the load
//! that is due anyway, and the kernel accepts it for nearly every program. It costs two clock reads
//! and a few nanoseconds of counting per run. The measured time contains one clock read, the call
//! and the return; a wrapped empty program measures this overhead.
//!
//! Only the call and three register moves lie between the clock reads; everything else comes before
//! or after. The counts are plain additions, so the program may run on only one CPU at a time.

pub mod alternate;
pub mod histogram;
mod restore;

use thiserror::Error;
use wingbeat_bpf_loader::{
    ProgramType,
    code::{Code, FunctionInfo, Insn, LineInfo, op},
};

pub use alternate::alternate;
pub use histogram::{Recorded, WrongSize, bucket_code, read_histogram};
pub use restore::Restored;

/// Name of the wrapper function.
pub const WRAPPER_NAME: &str = "wingbeat_wrapper";

/// Id of the helper `bpf_ktime_get_ns` (include/uapi/linux/bpf.h, Linux 6.18). It is available to
/// every program type, sleepable or not, under any licence (`bpf_base_func_proto` in
/// kernel/bpf/helpers.c).
pub(super) const KTIME_GET_NS: i32 = 5;

/// Maximum program size that the kernel accepts, in instructions (`BPF_COMPLEXITY_LIMIT_INSNS` in
/// include/linux/bpf.h, Linux 6.18).
const INSNS_MAX: usize = 1_000_000;

/// Parameters of [`wrap`] and [`alternate()`] other than the code.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Reference to the associated map in the code: its descriptor, or the number that a loader replaces by one.
    ///
    /// The map must be a `BPF_MAP_TYPE_ARRAY` with one entry of the size that the result specifies:
    /// only there does the kernel allow direct value addresses (`map_direct_value_addr`).
    pub map_fd: i32,
    pub program_type: ProgramType,
    /// What [`alternate()`] restores after each run, which needs extra room in the map. `None` if
    /// runs may see the effects of previous ones.
    pub restored: Option<Restored>,
}

/// Why a program cannot be wrapped. Other measurements are not affected.
///
/// Does not cover what only the verifier knows: a call chain that is already eight functions deep
/// has no room for one more, and nor does a stack of more than 480 bytes without JIT (with JIT the
/// wrapper uses none of the 512 bytes).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotWrappable {
    #[error("the program has no function at its first instruction: the object may be damaged")]
    NoEntry,
    #[error(
        "the program has {insn_count} instructions, which leaves no room for a function in front \
         of it: the kernel takes {INSNS_MAX}"
    )]
    TooLong { insn_count: usize },
    /// The kernel calls each function of a `struct_ops` with its own signature.
    #[error(
        "a struct_ops program may return nothing or a pointer, which a function in front of it \
         cannot pass on: measure it in place with `wingbeat live`"
    )]
    StructOps,
    #[error(
        "an extension (freplace) has the arguments of the function that it replaces, which a \
         function in front of it cannot pass on: measure the program that it extends"
    )]
    Extension,
    /// The kernel allows tail calls and `LD_ABS` or `LD_IND` below the entry only if it knows that
    /// the function returns a number (`check_abnormal_return` in kernel/bpf/verifier.c, Linux
    /// 6.18).
    #[error(
        "instruction {insn_index} is {what}, which the kernel allows in a called function only with \
         type information, and the object has none: compile it with -g"
    )]
    NeedsTypes {
        insn_index: usize,
        /// Description with an article.
        what: &'static str,
    },
    /// All calls of one run share one tail call limit (`MAX_TAIL_CALL_CNT`). For [`alternate()`].
    #[error(
        "instruction {insn_index} is a tail call, of which the kernel allows 33 per run: repeated \
         calls would soon behave differently from single ones"
    )]
    TailCall { insn_index: usize },
}

/// Wraps a program in a function that times each run.
///
/// The result returns what the original returns, and needs a map whose value has
/// [`histogram::VALUE_SIZE_BYTES`]. Function and line information is moved along; if there are
/// lines, the wrapper gets the first line of the original entry. The wrapper is the first function
/// and has the type of the original entry, which is the second. If the `BTF_KIND_FUNC` of the entry
/// is not static, it must get a static copy before loading: the verifier checks global functions
/// separately, assumes any return value, and rejects that where only 0 or 1 is allowed.
///
/// Rejects programs that cannot be called as a function, see [`NotWrappable`]. Programs that throw
/// exceptions (`bpf_throw`) must not be passed: they would unwind the wrapper too and skip the
/// measurement.
pub fn wrap(code: &Code, options: Options) -> Result<Code, NotWrappable> {
    check_callable(code, options)?;
    // The kernel accepts function information for all functions or for none.
    let is_typed = code.functions.iter().all(|function| function.type_id.is_some());
    let found = instructions(code).find_map(|(index, insn)| Some((index, needs_types(insn)?)));
    match found {
        Some((insn_index, what)) if !is_typed => Err(NotWrappable::NeedsTypes { insn_index, what }),
        _ => Ok(prepend(timer(options.map_fd), code)),
    }
}

/// Rejects programs that cannot be called as a function, regardless of types.
fn check_callable(code: &Code, options: Options) -> Result<(), NotWrappable> {
    if code.insns.is_empty() || code.functions.first().is_none_or(|entry| entry.insn_index != 0) {
        return Err(NotWrappable::NoEntry);
    }
    if code.insns.len() > INSNS_MAX - FRONT_INSNS_MAX {
        return Err(NotWrappable::TooLong { insn_count: code.insns.len() });
    }
    match options.program_type {
        ProgramType::STRUCT_OPS => Err(NotWrappable::StructOps),
        ProgramType::EXT => Err(NotWrappable::Extension),
        _ => Ok(()),
    }
}

/// The instructions without the second halves of `ldimm64`.
fn instructions(code: &Code) -> impl Iterator<Item = (usize, Insn)> {
    let mut is_second_half = false;
    code.insns.iter().copied().enumerate().filter(move |(_, insn)| {
        let is_whole = !is_second_half;
        is_second_half = is_whole && insn.is_ldimm64();
        is_whole
    })
}

fn needs_types(insn: Insn) -> Option<&'static str> {
    if insn.is_tail_call() {
        return Some("a tail call");
    }
    let mode = insn.opcode & op::MODE;
    let is_packet_load = insn.class() == op::LD && matches!(mode, op::ABS | op::IND);
    is_packet_load.then_some("a packet load of classic BPF (LD_ABS or LD_IND)")
}

/// Maximum instructions inserted in front.
const FRONT_INSNS_MAX: usize = 512;

/// The timing function: r6 holds the context and later the result, r7 the start time. The callee follows directly.
fn timer(map_fd: i32) -> Vec<Insn> {
    let mut insns = vec![
        alu(op::MOV, 6, 1),
        call_helper(KTIME_GET_NS),
        alu(op::MOV, 7, 0),
        alu(op::MOV, 1, 6),
        call_local(0),
        alu(op::MOV, 6, 0),
        call_helper(KTIME_GET_NS),
        alu(op::SUB, 0, 7),
    ];
    insns.extend(load_map_value(3, map_fd, 0));
    insns.extend(record_at_r3());
    insns.extend([alu(op::MOV, 0, 6), exit()]);
    let behind_call = insns.len() as i32 - 5;
    insns[4] = call_local(behind_call);
    insns
}

/// Adds the value in r0 to the histogram at r3. Clobbers r0 to r5.
///
/// The map's value is initially zero, so the minimum is stored as the maximum of `u64::MAX −
/// value`. The bucket is computed before it: the verifier explores code after a jump once per
/// outcome, unless it sees that the outcome does not matter.
///
/// The value goes through memory to end the verifier's backtracking there. The precise bounds of
/// the bucket matter; without the detour the verifier would backtrack into the original program,
/// keep more states apart there, and fail if that uses `LD_ABS` ("verifier bug: static subprog
/// unexpected regs", Linux 6.18).
pub(super) fn record_at_r3() -> Vec<Insn> {
    let mut insns = vec![
        store(3, histogram::LAST, 0),
        load(0, 3, histogram::LAST),
        load(1, 3, histogram::SUM),
        alu(op::ADD, 1, 0),
        store(3, histogram::SUM, 1),
        alu(op::MOV, 4, 0),
        alu(op::MOV, 5, 3),
    ];
    insns.extend(bucket_code());
    insns.extend([
        alu_immediate(op::LSH, 0, 3),
        alu(op::ADD, 5, 0),
        load(1, 5, histogram::BUCKETS_START),
        alu_immediate(op::ADD, 1, 1),
        store(5, histogram::BUCKETS_START, 1),
        load(1, 3, histogram::MAX),
        Insn::new(op::JMP | op::JLE | op::X, 4, 1, 1, 0),
        store(3, histogram::MAX, 4),
        alu_immediate(op::XOR, 4, -1),
        load(1, 3, histogram::MIN_COMPLEMENT),
        Insn::new(op::JMP | op::JLE | op::X, 4, 1, 1, 0),
        store(3, histogram::MIN_COMPLEMENT, 4),
    ]);
    insns
}

/// Prepends `insns` to the code. Calls, jumps and function addresses are relative and need no change.
fn prepend(mut insns: Vec<Insn>, code: &Code) -> Code {
    // At most FRONT_INSNS_MAX.
    let front = insns.len() as u32;
    let moved = |insn_index: u32| insn_index.saturating_add(front);
    let type_id = code.functions.first().and_then(|entry| entry.type_id);
    let mut functions =
        vec![FunctionInfo { insn_index: 0, name: WRAPPER_NAME.to_owned(), type_id }];
    functions.extend(code.functions.iter().map(|function| FunctionInfo {
        insn_index: moved(function.insn_index),
        ..function.clone()
    }));
    // The kernel requires a line at the beginning of each function, if there are lines at all.
    let first = code.lines.first().map(|&first| LineInfo { insn_index: 0, ..first });
    let mut lines = Vec::from_iter(first);
    lines.extend(
        code.lines.iter().map(|&line| LineInfo { insn_index: moved(line.insn_index), ..line }),
    );
    insns.extend_from_slice(&code.insns);
    Code { insns, functions, lines }
}

/// 64-bit arithmetic with a register: `dst += src` for [`op::ADD`].
pub(in crate::instrument) const fn alu(operation: u8, dst: u8, src: u8) -> Insn {
    Insn::new(op::ALU64 | operation | op::X, dst, src, 0, 0)
}

/// 64-bit arithmetic with an immediate.
pub(in crate::instrument) const fn alu_immediate(operation: u8, dst: u8, immediate: i32) -> Insn {
    Insn::new(op::ALU64 | operation, dst, 0, 0, immediate)
}

/// `dst = *(u64 *)(base + offset)`
pub(in crate::instrument) const fn load(dst: u8, base: u8, offset: i16) -> Insn {
    Insn::new(op::LDX | op::MEM | op::DW, dst, base, offset, 0)
}

/// `*(u64 *)(base + offset) = src`
pub(in crate::instrument) const fn store(base: u8, offset: i16, src: u8) -> Insn {
    Insn::new(op::STX | op::MEM | op::DW, base, src, offset, 0)
}

/// The address of a byte in the value of a map.
pub(in crate::instrument) const fn load_map_value(dst: u8, map_fd: i32, offset: i32) -> [Insn; 2] {
    [Insn::new(op::LDIMM64, dst, op::PSEUDO_MAP_VALUE, 0, map_fd), Insn::new(0, 0, 0, 0, offset)]
}

pub(in crate::instrument) const fn exit() -> Insn {
    Insn::new(op::EXIT, 0, 0, 0, 0)
}

pub(in crate::instrument) const fn call_helper(number: i32) -> Insn {
    Insn::new(op::CALL, 0, 0, 0, number)
}

/// Calls the function that begins `distance` after the next instruction.
pub(in crate::instrument) const fn call_local(distance: i32) -> Insn {
    Insn::new(op::CALL, 0, op::PSEUDO_CALL, 0, distance)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wingbeat_bpf_loader::code::disassemble::Listing;

    use super::*;

    fn function(insn_index: u32, name: &str, type_id: Option<u32>) -> FunctionInfo {
        FunctionInfo { insn_index, name: name.to_owned(), type_id }
    }

    fn line(insn_index: u32, number: u32) -> LineInfo {
        LineInfo { insn_index, file_offset: 1, text_offset: 2, line_column: number << 10 | 5 }
    }

    /// An entry that passes a callback's address and calls a local function.
    fn code() -> Code {
        let insns = vec![
            Insn::new(op::LDIMM64, 2, op::PSEUDO_FUNC, 0, 3),
            Insn::default(),
            Insn::new(op::CALL, 0, op::PSEUDO_CALL, 0, 1),
            Insn::new(op::EXIT, 0, 0, 0, 0),
            Insn::new(op::ALU64 | op::MOV, 0, 0, 0, 2),
            Insn::new(op::EXIT, 0, 0, 0, 0),
        ];
        let functions = vec![function(0, "entry", Some(11)), function(4, "callee", Some(12))];
        Code { insns, functions, lines: vec![line(0, 7), line(3, 8), line(4, 3)] }
    }

    fn options(program_type: ProgramType) -> Options {
        Options { map_fd: 9, program_type, restored: None }
    }

    #[test]
    fn the_clock_in_front_of_a_program() {
        let wrapped = wrap(&code(), options(ProgramType::XDP)).expect("wrappable");
        let listing = Listing::new(&wrapped).to_string();
        let lines: Vec<_> = listing.lines().collect();
        let begin = "\
    wingbeat_wrapper:
    0: r6 = r1
    1: call bpf_ktime_get_ns
    2: r7 = r0
    3: r1 = r6
    4: call entry
    5: r6 = r0
    6: call bpf_ktime_get_ns
    7: r0 -= r7
    8: r3 = map[fd:9][0] + 0
   10: *(u64 *)(r3 + 24) = r0
   11: r0 = *(u64 *)(r3 + 24)
   12: r1 = *(u64 *)(r3 + 0)
   13: r1 += r0
   14: *(u64 *)(r3 + 0) = r1
   15: r4 = r0
   16: r5 = r3";
        assert_eq!(lines[..17].join("\n"), begin);
        let end = "   51: r0 <<= 3
   52: r5 += r0
   53: r1 = *(u64 *)(r5 + 32)
   54: r1 += 1
   55: *(u64 *)(r5 + 32) = r1
   56: r1 = *(u64 *)(r3 + 8)
   57: if r4 <= r1 goto +1 <59>
   58: *(u64 *)(r3 + 8) = r4
   59: r4 ^= -1
   60: r1 = *(u64 *)(r3 + 16)
   61: if r4 <= r1 goto +1 <63>
   62: *(u64 *)(r3 + 16) = r4
   63: r0 = r6
   64: exit
entry:
   65: r2 = func callee
   67: call callee
   68: exit
callee:
   69: r0 = 2
   70: exit";
        assert_eq!(lines[lines.len() - 21..].join("\n"), end);
    }

    #[test]
    fn functions_and_lines_move_along() {
        let wrapped = wrap(&code(), options(ProgramType::XDP)).expect("wrappable");
        let expected = [
            function(0, WRAPPER_NAME, Some(11)),
            function(65, "entry", Some(11)),
            function(69, "callee", Some(12)),
        ];
        assert_eq!(wrapped.functions, expected);
        assert_eq!(wrapped.lines, [line(0, 7), line(65, 7), line(68, 8), line(69, 3)]);

        let without_lines = Code { lines: Vec::new(), ..code() };
        let wrapped = wrap(&without_lines, options(ProgramType::XDP)).expect("wrappable");
        assert_eq!(wrapped.lines, []);
    }

    #[test]
    fn what_cannot_be_wrapped() {
        let check = |code: &Code, program_type, expected: Option<NotWrappable>| {
            assert_eq!(wrap(code, options(program_type)).err(), expected);
        };
        let with = |insn| {
            let mut code = code();
            code.insns[4] = insn;
            code
        };
        let without_types = |mut code: Code| {
            code.functions[1].type_id = None;
            code
        };
        let tail_call = Insn::new(op::CALL, 0, 0, 0, 12);
        let load_abs = Insn::new(op::LD | op::ABS | op::B, 0, 0, 0, 12);
        let load_ind = Insn::new(op::LD | op::IND | op::W, 0, 3, 0, 12);
        let needs_types = |what| Some(NotWrappable::NeedsTypes { insn_index: 4, what });
        let packet_load = "a packet load of classic BPF (LD_ABS or LD_IND)";

        check(&code(), ProgramType::SOCKET_FILTER, None);
        check(&without_types(code()), ProgramType::SYSCALL, None);
        check(&code(), ProgramType::STRUCT_OPS, Some(NotWrappable::StructOps));
        check(&code(), ProgramType::EXT, Some(NotWrappable::Extension));
        check(&with(tail_call), ProgramType::XDP, None);
        check(&with(load_abs), ProgramType::SOCKET_FILTER, None);
        check(&without_types(with(tail_call)), ProgramType::XDP, needs_types("a tail call"));
        check(&without_types(with(load_abs)), ProgramType::SCHED_CLS, needs_types(packet_load));
        check(&without_types(with(load_ind)), ProgramType::SCHED_CLS, needs_types(packet_load));

        check(&Code::default(), ProgramType::XDP, Some(NotWrappable::NoEntry));
        let nameless = Code { functions: Vec::new(), ..code() };
        check(&nameless, ProgramType::XDP, Some(NotWrappable::NoEntry));
        let headless = Code { functions: vec![function(4, "callee", None)], ..code() };
        check(&headless, ProgramType::XDP, Some(NotWrappable::NoEntry));
        let long = Code { insns: vec![Insn::default(); 999_990], ..code() };
        check(&long, ProgramType::XDP, Some(NotWrappable::TooLong { insn_count: 999_990 }));
    }

    /// The second half of a `ldimm64` is a number, whatever it looks like.
    #[test]
    fn numbers_are_not_taken_for_instructions() {
        let mut code = code();
        code.functions[0].type_id = None;
        code.insns[1] = Insn::new(op::CALL, 0, 0, 0, 12);
        assert!(wrap(&code, options(ProgramType::XDP)).is_ok());
    }

    #[test]
    fn there_is_room_for_what_is_put_in_front() {
        assert!(timer(0).len() <= FRONT_INSNS_MAX);
    }

    fn any_code() -> impl Strategy<Value = Code> {
        let function = (any::<u32>(), "[a-z]{0,4}", any::<Option<u32>>())
            .prop_map(|(insn_index, name, type_id)| FunctionInfo { insn_index, name, type_id });
        let line =
            (any::<u32>(), 0_u32..9).prop_map(|(insn_index, number)| line(insn_index, number));
        let insns = prop::collection::vec(any::<[u8; 8]>().prop_map(Insn::from_bytes), 0..30);
        let functions = prop::collection::vec(function, 0..4);
        let lines = prop::collection::vec(line, 0..4);
        (insns, functions, lines, any::<bool>()).prop_map(
            |(insns, mut functions, lines, has_entry)| {
                if let Some(entry) = functions.first_mut().filter(|_| has_entry) {
                    entry.insn_index = 0;
                }
                Code { insns, functions, lines }
            },
        )
    }

    proptest! {
        #[test]
        fn the_program_itself_is_not_touched(code in any_code(), program_type in 0_u32..40) {
            let options = options(ProgramType(program_type));
            if let Ok(wrapped) = wrap(&code, options) {
                let entry = wrapped.functions[1].insn_index as usize;
                prop_assert_eq!(&wrapped.insns[entry..], &code.insns);
                prop_assert_eq!(wrapped.functions.len(), code.functions.len() + 1);
                let calls = wrapped.insns[..entry].iter().enumerate().filter(|(_, insn)| {
                    insn.is_local_call()
                });
                for (index, call) in calls {
                    prop_assert_eq!(index as i64 + 1 + i64::from(call.immediate), entry as i64);
                }
            }
        }
    }
}
