//! One step of a walk: from a frame to its caller, by a rule.

use super::rule::{Cfa, FramePointer, ReturnAddress, Rule};

/// DWARF's number of the stack pointer (psABI of x86-64, figure 3.36; DWARF for the Arm 64-bit
/// Architecture, 4.1).
pub const SP: u8 = if cfg!(target_arch = "aarch64") { 31 } else { 7 };
/// DWARF's number of the frame pointer.
pub const FP: u8 = if cfg!(target_arch = "aarch64") { 29 } else { 6 };

/// What a walker can see of a thread that stands still.
pub trait Thread {
    /// A word of its memory.
    fn word(&mut self, address: u64) -> Option<u64>;

    /// A register of its innermost frame, by its DWARF number.
    fn register(&mut self, number: u8) -> Option<u64>;
}

/// Where the registers of a frame come from that it may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The thread itself: the innermost frame.
    Thread,
    /// The kernel's frame of a signal, at this address: what the signal interrupted.
    Signal(u64),
    /// None: it called, and what it had in other registers is gone. Its address is the one behind the
    /// call, which may belong to another function.
    Call,
}

/// A function's activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    pub ip: u64,
    pub sp: u64,
    /// None if it is not known.
    pub fp: Option<u64>,
    pub source: Source,
}

impl Frame {
    /// The address whose rule and whose line are this frame's.
    pub fn address(&self) -> u64 {
        match self.source {
            Source::Call => self.ip.wrapping_sub(1),
            Source::Thread | Source::Signal(_) => self.ip,
        }
    }
}

/// Why a walk cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// No call frame information covers the address.
    NoRule,
    /// The rule needs more than a walker knows.
    Unsupported,
    /// The rule needs a register whose value is gone.
    RegisterLost,
    /// A word of the stack that cannot be read.
    Unreadable,
    /// The caller would lie no higher on the stack than what it called.
    NotHigher,
    /// The return address is none.
    NotAReturn,
}

/// The kernel's frame of a signal, `struct rt_sigframe` behind its return address
/// (arch/x86/include/asm/sigframe.h, `struct sigcontext` of asm/sigcontext.h, Linux 6.18). Offsets of
/// the registers in bytes, by their DWARF numbers; the instruction pointer's is the one behind them.
#[cfg(not(target_arch = "aarch64"))]
mod signal {
    /// Of `r8`.
    const REGISTERS: u64 = 40;
    const ORDER: [u8; 17] = [13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7, 16];
    pub(super) const IP: u8 = 16;

    pub(super) fn place(frame: u64, number: u8) -> Option<u64> {
        let index = *ORDER.get(usize::from(number))?;
        frame.checked_add(REGISTERS + 8 * u64::from(index))
    }
}

/// The kernel's frame of a signal, `struct rt_sigframe` (arch/arm64/kernel/signal.c, Linux 6.18): a
/// `siginfo` of 128 bytes, then a `ucontext` whose registers begin at 184.
#[cfg(target_arch = "aarch64")]
mod signal {
    /// Of `x0`.
    const REGISTERS: u64 = 128 + 184;
    pub(super) const IP: u8 = 32;

    pub(super) fn place(frame: u64, number: u8) -> Option<u64> {
        (number <= IP).then(|| frame.checked_add(REGISTERS + 8 * u64::from(number))).flatten()
    }
}

/// The canonical frame address by a rule that has one, as those of plain functions do.
#[inline(always)]
pub fn canonical(frame: &Frame, rule: &Rule, thread: &mut impl Thread) -> Result<u64, Problem> {
    let base = match rule.cfa {
        Cfa::Gap | Cfa::End | Cfa::Signal => return Err(Problem::NoRule),
        Cfa::Unsupported => return Err(Problem::Unsupported),
        Cfa::Plt => {
            let has_pushed = frame.ip & 15 >= bytes(rule.offset);
            return Ok(frame.sp.wrapping_add(if has_pushed { 16 } else { 8 }));
        }
        Cfa::Register | Cfa::Memory => register(frame, rule.register, thread)?,
    };
    let place = base.wrapping_add(bytes(rule.offset));
    if rule.cfa == Cfa::Register {
        return Ok(place);
    }
    let word = thread.word(place).ok_or(Problem::Unreadable)?;
    Ok(word.wrapping_add(bytes(rule.addend)))
}

/// The caller of a frame by the rule at its [`address`](Frame::address); `None` at the end of the
/// stack.
#[inline(always)]
pub fn caller(
    frame: &Frame,
    rule: &Rule,
    thread: &mut impl Thread,
) -> Result<Option<Frame>, Problem> {
    match rule.cfa {
        Cfa::End => return Ok(None),
        Cfa::Signal => return interrupted(frame.sp, thread).map(Some),
        _ => {}
    }
    let cfa = canonical(frame, rule, thread)?;
    // A function that was called has at least its return address on the stack, where calls put it
    // there; one that runs may have none, or have given it up already.
    if cfa < frame.sp || cfa == frame.sp && frame.source == Source::Call {
        return Err(Problem::NotHigher);
    }
    let ip = match rule.ra {
        ReturnAddress::Saved => {
            thread.word(cfa.wrapping_add(words(rule.return_words))).ok_or(Problem::Unreadable)?
        }
        ReturnAddress::Register => register(frame, rule.return_words as u8, thread)?,
    };
    // One that is not where it should be is missed by who needs it: gcc's rules for functions that align
    // their stack say that it is in memory still when it is back in its register.
    let mut saved = |base: u64| thread.word(base.wrapping_add(words(rule.fp_words)));
    let fp = match rule.fp {
        FramePointer::Same => frame.fp,
        FramePointer::Saved => saved(cfa),
        FramePointer::SavedAtFp => frame.fp.and_then(saved),
        FramePointer::SavedAtSp => saved(frame.sp),
        FramePointer::Lost => None,
    };
    if ip == 0 {
        return Err(Problem::NotAReturn);
    }
    Ok(Some(Frame { ip, sp: cfa, fp, source: Source::Call }))
}

/// The frame that a signal interrupted.
#[inline(always)]
fn interrupted(at: u64, thread: &mut impl Thread) -> Result<Frame, Problem> {
    let mut word = |number| {
        signal::place(at, number).and_then(|place| thread.word(place)).ok_or(Problem::Unreadable)
    };
    let (ip, sp, fp) = (word(signal::IP)?, word(SP)?, word(FP)?);
    Ok(Frame { ip, sp, fp: Some(fp), source: Source::Signal(at) })
}

/// A register of a frame, by its DWARF number.
#[inline(always)]
fn register(frame: &Frame, number: u8, thread: &mut impl Thread) -> Result<u64, Problem> {
    match (number, frame.source) {
        (SP, _) => Ok(frame.sp),
        (FP, _) => frame.fp.ok_or(Problem::RegisterLost),
        (_, Source::Thread) => thread.register(number).ok_or(Problem::RegisterLost),
        (_, Source::Signal(at)) => {
            let place = signal::place(at, number).ok_or(Problem::RegisterLost)?;
            thread.word(place).ok_or(Problem::Unreadable)
        }
        (_, Source::Call) => Err(Problem::RegisterLost),
    }
}

/// A signed distance, to be added with wrap-around.
#[inline(always)]
fn bytes(offset: i32) -> u64 {
    i64::from(offset) as u64
}

#[inline(always)]
fn words(count: i16) -> u64 {
    (i64::from(count) * 8) as u64
}
