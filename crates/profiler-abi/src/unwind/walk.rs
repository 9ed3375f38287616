//! Steps of a stack walk, from a frame to its caller.
//!
//! A step changes the frame in place. In the kernel half the frame is in a map value, whose contents the verifier
//! does not track, so it does not explore the paths of a step separately.

use super::rule::{Cfa, FP, FramePointer, REGISTERS, ReturnAddress, Rule, SP};

/// DWARF number of the result register of system calls on x86-64.
const RAX: u8 = 0;
/// DWARF number of the link register on aarch64.
#[cfg(machine = "aarch64")]
const LINK: u8 = 30;

/// One past the highest user space address: 2^47 on x86-64 with four-level page tables. With five levels and on
/// aarch64, stacks are still below 2^52 unless a program asks for more.
const USER_END: u64 = 1 << 52;
/// The first page is never mapped.
const USER_START: u64 = 4096;
/// Callers are above their callees. A pointer that goes down by less than this stays on the same stack and is
/// invalid. Further down may be another stack, such as a coroutine's.
const SAME_STACK_BYTES: u64 = 1 << 20;

/// Memory of a stopped thread.
pub trait Memory {
    fn word(&mut self, address: u64) -> Option<u64>;

    /// Same as `word`, for words that no ordinary function saves: in the kernel half, reading them through the
    /// window would cost the verifier more paths than they are worth.
    #[inline(always)]
    fn word_apart(&mut self, address: u64) -> Option<u64> {
        self.word(address)
    }
}

/// A function activation, with the known registers.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Instruction pointer. In a caller, the address after the call, which may belong to another function.
    pub ip: u64,
    /// 1: this frame made a call.
    pub is_call: u32,
    /// Bit mask of the registers with known values.
    known: u32,
    /// Indexed by DWARF number.
    values: [u64; REGISTERS],
}

impl Frame {
    /// Creates a frame with only these registers known.
    pub const fn new(ip: u64, sp: u64, fp: Option<u64>, is_call: bool) -> Self {
        let mut values = [0; REGISTERS];
        values[SP as usize] = sp;
        let mut known = 1 << SP;
        if let Some(fp) = fp {
            values[FP as usize] = fp;
            known |= 1 << FP;
        }
        Self { ip, is_call: is_call as u32, known, values }
    }

    /// Creates the innermost frame with all registers known.
    pub const fn innermost(ip: u64, values: [u64; REGISTERS]) -> Self {
        Self { ip, is_call: 0, known: u32::MAX, values }
    }

    /// Resets to an innermost frame with only these registers known.
    #[inline(always)]
    pub fn begin(&mut self, ip: u64, sp: u64, fp: u64) {
        self.ip = ip;
        self.is_call = 0;
        self.known = 1 << SP | 1 << FP;
        self.values[SP as usize] = sp;
        self.values[FP as usize] = fp;
    }

    /// Sets all registers.
    #[inline(always)]
    pub fn set_all(&mut self, values: [u64; REGISTERS]) {
        self.values = values;
        self.known = u32::MAX;
    }

    /// State that another walker needs to continue from here, apart from stack and frame pointer.
    #[inline(always)]
    pub fn extra_register(&self) -> ExtraRegister {
        #[cfg(machine = "aarch64")]
        return self.register(LINK).map_or(ExtraRegister::UNKNOWN, ExtraRegister::link);
        #[cfg(not(machine = "aarch64"))]
        self.register(RAX).map_or(ExtraRegister::UNKNOWN, |rax| ExtraRegister::is_zero(rax == 0))
    }

    /// Restores the state returned by [`extra_register()`](Self::extra_register).
    pub fn set_extra_register(&mut self, extra_register: ExtraRegister) {
        #[cfg(machine = "aarch64")]
        let (number, value) = (LINK, extra_register.as_link());
        #[cfg(not(machine = "aarch64"))]
        let (number, value) = (RAX, extra_register.as_is_zero().map(|is_zero| u64::from(!is_zero)));
        if let Some(value) = value {
            self.values[usize::from(number)] = value;
            self.known |= 1 << number;
        }
    }

    /// Address used to look up this frame's rule and line.
    #[inline(always)]
    pub fn address(&self) -> u64 {
        self.ip.wrapping_sub(u64::from(self.is_call))
    }

    /// This frame's entry in a list of return addresses: one past the current instruction.
    #[inline(always)]
    pub fn return_address(&self) -> u64 {
        self.ip.wrapping_add(u64::from(self.is_call ^ 1))
    }

    #[inline(always)]
    pub fn sp(&self) -> u64 {
        self.values[SP as usize]
    }

    /// The frame pointer, if known.
    #[inline(always)]
    pub fn fp(&self) -> Option<u64> {
        self.register(FP)
    }

    #[inline(always)]
    fn set_fp(&mut self, fp: Option<u64>) {
        self.known &= !(1 << FP);
        if let Some(fp) = fp {
            self.values[FP as usize] = fp;
            self.known |= 1 << FP;
        }
    }

    #[inline(always)]
    fn register(&self, number: u8) -> Option<u64> {
        let number = usize::from(number) & (REGISTERS - 1);
        (self.known >> number & 1 != 0).then(|| self.values[number])
    }

    /// Becomes the caller's frame, with only the stack pointer known and, if it was known before, the frame pointer.
    #[inline(always)]
    fn return_to(&mut self, ip: u64, sp: u64) {
        self.ip = ip;
        self.is_call = 1;
        self.known &= 1 << FP;
        self.known |= 1 << SP;
        self.values[SP as usize] = sp;
    }
}

/// Why a walk cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// No call frame information covers the address.
    NoRule,
    /// The walker does not support the rule.
    Unsupported,
    /// The rule needs a register whose value is lost.
    RegisterLost,
    /// A word of the stack cannot be read.
    Unreadable,
    /// The caller would not be higher on the stack than its callee.
    NotHigher,
    /// The return address is invalid.
    NotAReturn,
    /// The code's table is not loaded yet.
    NoTable,
}

/// The kernel's signal frame: `struct rt_sigframe` after its return address (arch/x86/include/asm/sigframe.h,
/// `struct sigcontext` of asm/sigcontext.h, Linux 6.18). Byte offsets of the registers by DWARF number, followed
/// by that of the instruction pointer.
#[cfg(not(machine = "aarch64"))]
mod signal {
    /// Offset of `r8`.
    const START: u64 = 40;
    /// Slots of the first eight registers, four bits each. The verifier does not follow the bounds of a table.
    const SLOTS: u64 = 0xfa89_becd;
    /// Number of registers, without the instruction pointer.
    pub(super) const COUNT: u8 = 16;

    #[inline(always)]
    pub(super) fn offset(number: u8) -> u64 {
        let number = u64::from(number);
        let index = match number {
            0..8 => SLOTS >> (4 * number) & 15,
            8..16 => number - 8,
            _ => number,
        };
        START + 8 * index
    }
}

/// The kernel's signal frame: `struct rt_sigframe` (arch/arm64/kernel/signal.c, Linux 6.18), a `siginfo` of 128
/// bytes followed by a `ucontext` with its registers at offset 184.
#[cfg(machine = "aarch64")]
mod signal {
    /// Offset of `x0`.
    const START: u64 = 128 + 184;
    /// Number of registers, without the instruction pointer.
    pub(super) const COUNT: u8 = 32;

    #[inline(always)]
    pub(super) fn offset(number: u8) -> u64 {
        START + 8 * u64::from(number)
    }
}

/// Steps to the caller: by the rule at the frame's [`address`](Frame::address), or by the frame pointer if no call
/// frame information covers it. Returns false at the end of the stack. After an error or the end, only the frame's
/// stack pointer and address are valid.
#[inline(always)]
pub fn step(frame: &mut Frame, rule: &Rule, memory: &mut impl Memory) -> Result<bool, Problem> {
    match rule.cfa {
        Cfa::Gap => follow(frame, SAME_STACK_BYTES, memory),
        Cfa::OtherStack => follow(frame, 0, memory),
        _ => caller(frame, rule, memory),
    }
}

/// Steps to the caller by the frame record at the frame pointer: the caller's frame pointer, then the return
/// address. The layout is the same on x86-64 and aarch64. Code without call frame information marks the end of the
/// stack with a frame pointer of zero.
#[inline(always)]
pub fn along_frame_pointer(frame: &mut Frame, memory: &mut impl Memory) -> Result<bool, Problem> {
    follow(frame, SAME_STACK_BYTES, memory)
}

/// Same as [`along_frame_pointer`], rejecting frame pointers that go down by less than `same_stack_bytes`.
#[inline(always)]
fn follow(
    frame: &mut Frame,
    same_stack_bytes: u64,
    memory: &mut impl Memory,
) -> Result<bool, Problem> {
    let fp = frame.fp().ok_or(Problem::NoRule)?;
    if fp == 0 {
        return Ok(false);
    }
    let sp = frame.sp();
    if fp & 7 != 0 || !is_user(fp) || fp < sp && sp - fp < same_stack_bytes {
        return Err(Problem::NoRule);
    }
    let next_fp = memory.word(fp).ok_or(Problem::Unreadable)?;
    let ip = address_of(memory.word(fp + 8).ok_or(Problem::Unreadable)?);
    if ip == 0 {
        return Ok(false);
    }
    if !is_user(ip) {
        return Err(Problem::NotAReturn);
    }
    frame.values[FP as usize] = next_fp;
    frame.return_to(ip, fp + 16);
    Ok(true)
}

/// Strips the pointer authentication signature from a saved return address. aarch64 functions may sign it in the
/// bits above the address: from 48 on, unless a program asked for memory beyond (Documentation/arch/arm64,
/// pointer-authentication.rst and memory.rst, Linux 6.18).
#[inline(always)]
pub(super) const fn address_of(word: u64) -> u64 {
    if cfg!(machine = "aarch64") { word & ((1 << 48) - 1) } else { word }
}

fn is_user(address: u64) -> bool {
    (USER_START..USER_END).contains(&address)
}

/// Steps to the caller by a rule. Returns false at the end of the stack.
#[inline(always)]
pub fn caller(frame: &mut Frame, rule: &Rule, memory: &mut impl Memory) -> Result<bool, Problem> {
    match rule.cfa {
        Cfa::End => return Ok(false),
        Cfa::Signal => return interrupted(frame, memory),
        Cfa::Gap => return Err(Problem::NoRule),
        // The two stacks may be adjacent.
        Cfa::OtherStack => return follow(frame, 0, memory),
        Cfa::Unsupported => return Err(Problem::Unsupported),
        Cfa::Clone => match frame.register(RAX) {
            None => return Err(Problem::RegisterLost),
            // The system call's result in the child.
            Some(0) => return Ok(false),
            Some(_) => {}
        },
        Cfa::Register | Cfa::Memory | Cfa::Plt => {}
    }
    let sp = frame.sp();
    let cfa = canonical(frame, rule, memory)?;
    // Where calls push the return address, a called function has at least that on the stack. The innermost
    // function may have none, or have popped it already.
    if cfa < sp.wrapping_add(u64::from(frame.is_call)) {
        return Err(Problem::NotHigher);
    }
    let base = match rule.fp {
        FramePointer::Saved => cfa,
        FramePointer::SavedAtFp => frame.fp().unwrap_or(0),
        FramePointer::SavedAtSp => sp,
        FramePointer::Same | FramePointer::Lost => 0,
    };
    // Read before the return address, which is usually next to it. A value that is not where the rule says is only
    // missed if it is needed: gcc's rules for functions that align their stack say "in memory" after it is back in
    // its register.
    let fp = match rule.fp {
        FramePointer::Same => frame.fp(),
        _ if base != 0 => memory.word(base.wrapping_add(words(rule.fp_words))),
        _ => None,
    };
    let ip = match rule.ra {
        ReturnAddress::Saved => {
            memory.word(cfa.wrapping_add(words(rule.return_words))).ok_or(Problem::Unreadable)?
        }
        ReturnAddress::Register => {
            frame.register(rule.return_words as u8).ok_or(Problem::RegisterLost)?
        }
    };
    let ip = address_of(ip);
    // The outermost frame may be marked only by a zero return address.
    if ip == 0 {
        return Ok(false);
    }
    frame.set_fp(fp);
    frame.return_to(ip, cfa);
    Ok(true)
}

/// Computes the CFA for ordinary rules.
#[inline(always)]
fn canonical(frame: &Frame, rule: &Rule, memory: &mut impl Memory) -> Result<u64, Problem> {
    if rule.cfa == Cfa::Plt {
        let has_pushed = u64::from(frame.ip & 15 >= bytes(rule.offset));
        return Ok(frame.sp().wrapping_add(8 + 8 * has_pushed));
    }
    let base = frame.register(rule.register).ok_or(Problem::RegisterLost)?;
    let address = base.wrapping_add(bytes(rule.offset));
    if rule.cfa != Cfa::Memory {
        return Ok(address);
    }
    let word = memory.word_apart(address).ok_or(Problem::Unreadable)?;
    Ok(word.wrapping_add(bytes(rule.addend)))
}

/// Steps to the frame that a signal interrupted, with all registers known.
#[inline(always)]
fn interrupted(frame: &mut Frame, memory: &mut impl Memory) -> Result<bool, Problem> {
    let at = frame.sp();
    let mut word = |number| {
        memory.word_apart(at.wrapping_add(signal::offset(number))).ok_or(Problem::Unreadable)
    };
    frame.ip = word(signal::COUNT)?;
    for number in 0..signal::COUNT {
        frame.values[usize::from(number)] = word(number)?;
    }
    frame.known = u32::MAX;
    frame.is_call = 0;
    Ok(true)
}

/// Converts a signed offset for wrapping addition.
#[inline(always)]
fn bytes(offset: i32) -> u64 {
    i64::from(offset) as u64
}

#[inline(always)]
fn words(count: i16) -> u64 {
    (i64::from(count) * 8) as u64
}

/// State of one register. On x86-64, whether `rax` is zero, since `clone` returns zero in a new thread; on
/// aarch64, the return address in the link register.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtraRegister([u8; 6]);

const ZERO: u8 = 1;
const OTHER: u8 = 2;

impl ExtraRegister {
    /// The register is unknown.
    pub const UNKNOWN: Self = Self([0; 6]);

    /// Creates a state from whether the register is zero.
    pub const fn is_zero(is_zero: bool) -> Self {
        Self([if is_zero { ZERO } else { OTHER }, 0, 0, 0, 0, 0])
    }

    /// Whether the register is zero, if known.
    pub const fn as_is_zero(self) -> Option<bool> {
        match self.0[0] {
            0 => None,
            known => Some(known == ZERO),
        }
    }

    /// Creates a state from an address. Its upper bits are dropped, and zero counts as no address.
    pub const fn link(link: u64) -> Self {
        let [a, b, c, d, e, f, ..] = address_of(link).to_le_bytes();
        Self([a, b, c, d, e, f])
    }

    /// The address, if known.
    pub const fn as_link(self) -> Option<u64> {
        let [a, b, c, d, e, f] = self.0;
        match u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) {
            0 => None,
            link => Some(link),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extra_register_keeps_its_value() {
        assert_eq!(
            (ExtraRegister::UNKNOWN.as_link(), ExtraRegister::UNKNOWN.as_is_zero()),
            (None, None)
        );
        for is_zero in [false, true] {
            assert_eq!(ExtraRegister::is_zero(is_zero).as_is_zero(), Some(is_zero));
        }
        for link in [1, 0xaaaa_bbbb_ccdc, (1 << 48) - 1] {
            assert_eq!(ExtraRegister::link(link).as_link(), Some(link));
        }
    }

    #[cfg(machine = "aarch64")]
    mod aarch64 {
        extern crate std;

        use std::vec::Vec;

        use super::*;

        /// Signature bits above an address.
        const SIGNATURE: u64 = 0x2a << 48;

        struct Stack<'a>(&'a [(u64, u64)]);

        impl Memory for Stack<'_> {
            fn word(&mut self, address: u64) -> Option<u64> {
                self.0.iter().find(|(at, _)| *at == address).map(|(_, word)| *word)
            }
        }

        fn values(sp: u64, fp: u64, link: u64) -> [u64; REGISTERS] {
            let mut values = [0; REGISTERS];
            (values[29], values[30], values[31]) = (fp, link, sp);
            values
        }

        #[test]
        fn return_addresses_lose_their_signature() {
            let words = [(0x7010, 0x7020), (0x7018, 0x5000 | SIGNATURE)];
            let check = |rule: Rule, ip, sp| {
                let mut frame =
                    Frame::innermost(0x4000, values(0x7000, 0x7010, 0x6000 | SIGNATURE));
                assert_eq!(step(&mut frame, &rule, &mut Stack(&words)), Ok(true));
                assert_eq!((frame.is_call, frame.ip, frame.sp()), (1, ip, sp), "{rule:?}");
            };
            check(Rule::framed(SP, 0x20).saving_fp(-2), 0x5000, 0x7020);
            check(Rule::framed(SP, 0).returning_to(30), 0x6000, 0x7000);
            check(Rule::GAP, 0x5000, 0x7020);
        }

        #[test]
        fn the_link_register_is_known_of_what_runs_or_was_interrupted() {
            let leaf = Rule::framed(SP, 0).returning_to(30);
            let mut frame = Frame::innermost(0x4000, values(0x7000, 0, 0x6000 | SIGNATURE));
            let extra_register = frame.extra_register();
            assert_eq!(extra_register.as_link(), Some(0x6000));
            assert_eq!(step(&mut frame, &leaf, &mut Stack(&[])), Ok(true));
            assert_eq!((frame.ip, frame.extra_register()), (0x6000, ExtraRegister::UNKNOWN));
            assert_eq!(step(&mut frame, &leaf, &mut Stack(&[])), Err(Problem::RegisterLost));
            // Where user space continues because the kernel half had no table.
            let mut frame = Frame::new(0x4000, 0x7000, None, false);
            frame.set_extra_register(ExtraRegister::UNKNOWN);
            assert_eq!(step(&mut frame, &leaf, &mut Stack(&[])), Err(Problem::RegisterLost));
            frame.set_extra_register(extra_register);
            assert_eq!(step(&mut frame, &leaf, &mut Stack(&[])), Ok(true));
            assert_eq!(frame.ip, 0x6000);
        }

        #[test]
        fn a_signal_has_all_registers_of_what_it_interrupted() {
            let place = |number: u64| 0x7000 + 312 + 8 * number;
            let mut words: Vec<(u64, u64)> = (0..32).map(|n| (place(n), 0x100 + n)).collect();
            words.push((place(32), 0x4444));
            let mut frame = Frame::new(0x4000, 0x7000, None, true);
            assert_eq!(step(&mut frame, &Rule::SIGNAL, &mut Stack(&words)), Ok(true));
            assert_eq!((frame.ip, frame.is_call), (0x4444, 0));
            assert_eq!((frame.fp(), frame.sp()), (Some(0x100 + 29), 0x100 + 31));
            assert_eq!(frame.extra_register().as_link(), Some(0x100 + 30));
        }
    }
}
