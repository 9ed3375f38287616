//! Times each run of a program from within: a function in front of it reads the clock, calls it, reads
//! the clock again and counts the difference.
//!
//! `BPF_PROG_TEST_RUN` tells the mean only, and tracing programs (fentry, fexit) that could see single
//! runs are not to be had on every machine. A function in front needs nothing but the load that is due
//! anyway, and the kernel takes it for nearly every program. It costs two clock reads and a few
//! nanoseconds of counting per run, of which the measured time contains one clock read, the call and
//! the return; a wrapped program that does nothing tells how much that is.
//!
//! Between the clock reads lie the call and three moves between registers. Everything else comes
//! before or after. The counts are plain additions, so the program may run on one CPU at a time only.

pub mod alternate;
mod bucket;
pub(super) mod emit;
pub mod histogram;
mod restore;
#[cfg(test)]
mod tests;

use thiserror::Error;
use wingbeat_bpf::{
    ProgramType,
    code::{Code, FunctionInfo, Insn, LineInfo, op},
};

pub use alternate::alternate;
pub use bucket::bucket_code;
use emit::{alu, alu_immediate, call_helper, call_local, exit, load, load_map_value, store};
pub use histogram::{Recorded, WrongSize, read_histogram};
pub use restore::Restored;

/// Name of the function in front.
pub const WRAPPER_NAME: &str = "wingbeat_wrapper";

/// Number of the helper `bpf_ktime_get_ns` (include/uapi/linux/bpf.h, Linux 6.18). Every type of
/// program has it, sleepable or not, under any licence (`bpf_base_func_proto` in kernel/bpf/helpers.c).
pub(super) const KTIME_GET_NS: i32 = 5;

/// Most instructions of a program that the kernel accepts (`BPF_COMPLEXITY_LIMIT_INSNS` in
/// include/linux/bpf.h, Linux 6.18).
const INSNS_MAX: usize = 1_000_000;

/// What [`wrap`] and [`alternate()`] have to know besides the code.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How the code refers to the map that goes with it: its descriptor, or the number that a loader
    /// will put a descriptor for.
    ///
    /// The map has to be a `BPF_MAP_TYPE_ARRAY` with one entry of the size that the result tells: the
    /// kernel gives the address of a value of no other (`map_direct_value_addr`).
    pub map_fd: i32,
    pub program_type: ProgramType,
    /// What [`alternate()`] puts back after each run, for which the map has more room. `None` if runs may
    /// find what the ones before have left.
    pub restored: Option<Restored>,
}

/// Why nothing can be put in front of a program. What is measured without that is not affected.
///
/// What only the verifier knows is not here: a chain of calls that is eight functions deep already
/// leaves no room for one more, and nor does a stack of more than 480 bytes if there is no JIT (with it
/// the function in front takes nothing from the 512 bytes).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotWrappable {
    #[error("the program has no function at its first instruction: the object may be damaged")]
    NoEntry,
    #[error(
        "the program has {insn_count} instructions, which leaves no room for a function in front \
         of it: the kernel takes {INSNS_MAX}"
    )]
    TooLong { insn_count: usize },
    /// The kernel calls each function of a `struct_ops` with a signature of its own.
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
    /// The kernel allows tail calls and `LD_ABS` or `LD_IND` below the entry only if it knows that the
    /// function returns a number (`check_abnormal_return` in kernel/bpf/verifier.c, Linux 6.18).
    #[error(
        "instruction {insn_index} is {what}, which the kernel allows in a called function only with \
         type information, and the object has none: compile it with -g"
    )]
    NeedsTypes {
        insn_index: usize,
        /// What it is, with an article.
        what: &'static str,
    },
    /// All calls of one run share one allowance of tail calls (`MAX_TAIL_CALL_CNT`). For [`alternate()`].
    #[error(
        "instruction {insn_index} is a tail call, of which the kernel allows 33 per run: repeated \
         calls would soon behave differently from single ones"
    )]
    TailCall { insn_index: usize },
}

/// Puts a function in front of the program that times each run of it.
///
/// The result returns what the original returns, and needs a map whose value has
/// [`histogram::VALUE_SIZE_BYTES`]. Function and line information move along; where there are lines, the
/// wrapper gets the first line of the original entry. It is the first function, with the type of the
/// original entry, which is the second. If the `BTF_KIND_FUNC` of that is not static, it has to get a
/// static copy of it before loading: the verifier looks at global functions by themselves, takes any
/// value for their result, and refuses that where only 0 or 1 may be returned.
///
/// Refuses programs that cannot be called like a function, see [`NotWrappable`]. Programs that throw
/// exceptions (`bpf_throw`) must not get here: they would leave the wrapper too, and the measuring.
pub fn wrap(code: &Code, options: Options) -> Result<Code, NotWrappable> {
    check_callable(code, options)?;
    // The kernel takes function information for all functions or for none.
    let is_typed = code.functions.iter().all(|function| function.type_id.is_some());
    let found = instructions(code).find_map(|(index, insn)| Some((index, needs_types(insn)?)));
    match found {
        Some((insn_index, what)) if !is_typed => Err(NotWrappable::NeedsTypes { insn_index, what }),
        _ => Ok(prepend(timer(options.map_fd), code)),
    }
}

/// Refuses what cannot be called like a function, whatever types it has.
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

/// Most instructions that are put in front.
const FRONT_INSNS_MAX: usize = 512;

/// The function that times: r6 holds the context and later the result, r7 the time of the start. What
/// it calls comes right behind it.
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

/// Adds the value in r0 to the histogram that r3 points to. Destroys r0 to r5.
///
/// The map's value begins as zeros, so the minimum is kept as the maximum of `u64::MAX − value`. The
/// bucket comes before it: the verifier goes through what follows a jump once for each outcome, unless
/// it sees that they do not matter.
///
/// The value goes through memory because that is where the verifier's search for its origin ends. The
/// bucket's precise bounds matter; without the detour it would go back into the original program to
/// find what they depend on, keep more states apart there, and trip over its own feet if that uses
/// `LD_ABS` ("verifier bug: static subprog unexpected regs", Linux 6.18).
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

/// Puts `insns` before the code. Calls, jumps and addresses of functions are relative and stay as they
/// are.
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
    // The kernel wants a line at the beginning of each function, if there are lines at all.
    let first = code.lines.first().map(|&first| LineInfo { insn_index: 0, ..first });
    let mut lines = Vec::from_iter(first);
    lines.extend(
        code.lines.iter().map(|&line| LineInfo { insn_index: moved(line.insn_index), ..line }),
    );
    insns.extend_from_slice(&code.insns);
    Code { insns, functions, lines }
}
