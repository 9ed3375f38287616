//! Tracks the return address and the caller's frame pointer from instruction to instruction.
//!
//! Offsets count from the canonical frame address, the stack pointer before the call, as in [`Rule`]. iced knows
//! every instruction and all registers that it writes. If one writes the stack pointer in a way not modelled here,
//! the stack pointer becomes unknown.

use iced_x86::{
    Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};
use wingbeat_profiler_abi::unwind::{FramePointer, Rule};

use crate::interpret::Registers;

/// Maximum frame size, so that offsets never overflow.
const FRAME_BYTES_MAX: i32 = 1 << 28;
const WORD_BYTES: i32 = 8;

/// Contents of the frame pointer register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// The caller's value.
    Callers,
    /// An address this many bytes below the canonical frame address.
    Frame(i32),
    Other,
}

/// State before an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    /// Offset of the stack pointer below the canonical frame address.
    sp: Option<i32>,
    fp: Held,
    /// Offset of the saved frame pointer below it.
    saved: Option<i32>,
}

/// The code is not a function that returns normally: all results are discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Contradiction;

impl State {
    /// State directly after a call.
    pub(super) const ENTRY: Self = Self { sp: Some(WORD_BYTES), fp: Held::Callers, saved: None };

    /// Whether the function could return here: the return address is on top of the stack, and the frame pointer is
    /// the caller's.
    pub(super) fn can_return(&self) -> bool {
        self.sp == Self::ENTRY.sp && self.fp == Held::Callers
    }

    /// Whether there is a rule here.
    pub(super) fn is_known(&self) -> bool {
        self.sp.is_some() || matches!(self.fp, Held::Frame(_))
    }

    /// Merges the states of two paths. They must agree about the stack, or the code is not a function.
    pub(super) fn meet(&self, other: &Self) -> Result<Self, Contradiction> {
        let sp = match (self.sp, other.sp) {
            (Some(one), Some(two)) if one != two => return Err(Contradiction),
            (one, two) => one.and(two),
        };
        let fp = if self.fp == other.fp { self.fp } else { Held::Other };
        let saved = self.saved.filter(|_| self.saved == other.saved);
        Ok(Self { sp, fp, saved })
    }

    /// The rule, if there is one.
    pub(super) fn rule(&self) -> Option<Rule> {
        let plain = match (self.sp, self.fp) {
            (Some(bytes), _) => Rule::framed(Registers::X86_64.sp, bytes),
            (None, Held::Frame(bytes)) => Rule::framed(Registers::X86_64.fp, bytes),
            (None, _) => return None,
        };
        let saved = self.saved.filter(|bytes| bytes % WORD_BYTES == 0);
        let words = saved.and_then(|bytes| i16::try_from(-bytes / WORD_BYTES).ok());
        Some(match (self.fp, words) {
            (Held::Callers, _) => plain,
            (_, Some(words)) => plain.saving_fp(words),
            (_, None) => Rule { fp: FramePointer::Lost, ..plain },
        })
    }

    /// State after an instruction, on the path that continues.
    pub(super) fn after(
        &self,
        instruction: &Instruction,
        factory: &mut InstructionInfoFactory,
    ) -> Result<Self, Contradiction> {
        let info = factory.info(instruction);
        let (first, second) = (operand(instruction, 0), operand(instruction, 1));
        // The memory barrier `lock or [rsp], 0` stores what was there before.
        let is_barrier = instruction.mnemonic() == Mnemonic::Or && second == Operand::Immediate(0);
        let mut next = if is_barrier { *self } else { self.after_stores(info)? };
        match (instruction.mnemonic(), first, second) {
            (Mnemonic::Push, _, _) => {
                next.move_sp(instruction.stack_pointer_increment())?;
                if first == Operand::Register(Register::RBP) && self.fp == Held::Callers {
                    next.saved = next.sp;
                }
            }
            (Mnemonic::Pop, Operand::Register(Register::RBP), _) => {
                next.fp = self.load(self.sp);
                next.move_sp(WORD_BYTES)?;
            }
            (Mnemonic::Leave, ..) => {
                let Held::Frame(bytes) = self.fp else { return Err(Contradiction) };
                next.fp = self.load(Some(bytes));
                next.set_sp(Some(bytes))?;
                next.move_sp(WORD_BYTES)?;
            }
            (Mnemonic::Add, Operand::Register(Register::RSP), Operand::Immediate(bytes)) => {
                next.move_sp(bytes)?;
            }
            (Mnemonic::Sub, Operand::Register(Register::RSP), Operand::Immediate(bytes)) => {
                next.move_sp(bytes.checked_neg().ok_or(Contradiction)?)?;
            }
            (Mnemonic::Mov | Mnemonic::Lea, Operand::Register(Register::RSP), from) => {
                let offset = self.offset(from, instruction.mnemonic() == Mnemonic::Lea);
                next.set_sp(offset)?;
            }
            (Mnemonic::Mov, Operand::Register(Register::RBP), Operand::Memory(..)) => {
                next.fp = self.load(self.offset(second, true));
            }
            (Mnemonic::Mov | Mnemonic::Lea, Operand::Register(Register::RBP), from) => {
                let offset = self.offset(from, instruction.mnemonic() == Mnemonic::Lea);
                next.fp = offset.map_or(Held::Other, Held::Frame);
            }
            (Mnemonic::Mov, Operand::Memory(..), Operand::Register(Register::RBP))
                if self.fp == Held::Callers =>
            {
                if let Some(offset) = self.offset(first, true) {
                    next.saved = Some(offset);
                }
            }
            _ => next.after_any(instruction, info)?,
        }
        Ok(next)
    }

    /// Effect on the two registers of instructions without a case of their own.
    fn after_any(
        &mut self,
        instruction: &Instruction,
        info: &InstructionInfo,
    ) -> Result<(), Contradiction> {
        let is_written = |register: Register| {
            let writes = |access| !matches!(access, OpAccess::Read | OpAccess::CondRead);
            info.used_registers()
                .iter()
                .any(|used| used.register().full_register() == register && writes(used.access()))
        };
        if is_written(Register::RBP) {
            self.fp = Held::Other;
        }
        // A call's push is undone when it returns.
        let is_call = instruction.is_call_near() || instruction.is_call_near_indirect();
        if !is_call && is_written(Register::RSP) {
            let by = instruction.stack_pointer_increment();
            let is_explicit = instruction.op_count() > 0
                && operand(instruction, 0) == Operand::Register(Register::RSP);
            match by == 0 || is_explicit {
                true => self.set_sp(None)?,
                false => self.move_sp(by)?,
            }
        }
        Ok(())
    }

    /// Invalidates what a store overwrites. If it is the return address, a return becomes a jump.
    fn after_stores(&self, info: &InstructionInfo) -> Result<Self, Contradiction> {
        let mut next = *self;
        for used in info.used_memory() {
            let is_read = matches!(
                used.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
            );
            if is_read || used.index() != Register::None {
                continue;
            }
            let displacement = used.displacement() as i64;
            let Some(offset) = self.distance(used.base(), displacement) else { continue };
            let bytes = i32::try_from(used.memory_size().size()).unwrap_or(0).max(1);
            let overlaps = |word: i32| offset > word - WORD_BYTES && offset - bytes < word;
            if overlaps(WORD_BYTES) {
                return Err(Contradiction);
            }
            if next.saved.is_some_and(overlaps) {
                next.saved = None;
            }
        }
        Ok(next)
    }

    fn move_sp(&mut self, bytes: i32) -> Result<(), Contradiction> {
        match self.sp {
            Some(sp) => self.set_sp(Some(sp.checked_sub(bytes).ok_or(Contradiction)?)),
            None => Ok(()),
        }
    }

    /// Memory below the stack pointer no longer belongs to the function.
    fn set_sp(&mut self, sp: Option<i32>) -> Result<(), Contradiction> {
        if let Some(bytes) = sp {
            if !(WORD_BYTES..FRAME_BYTES_MAX).contains(&bytes) {
                return Err(Contradiction);
            }
            self.saved = self.saved.filter(|saved| *saved <= bytes);
        }
        self.sp = sp;
        Ok(())
    }

    /// Contents of a stack word.
    fn load(&self, offset: Option<i32>) -> Held {
        if offset.is_some() && offset == self.saved { Held::Callers } else { Held::Other }
    }

    /// The stack offset of an operand, or of the address in it.
    fn offset(&self, operand: Operand, is_address: bool) -> Option<i32> {
        match operand {
            Operand::Memory(base, displacement) if is_address => self.distance(base, displacement),
            Operand::Register(register) if !is_address => self.distance(register, 0),
            _ => None,
        }
    }

    fn distance(&self, base: Register, displacement: i64) -> Option<i32> {
        let from = match (base, self.fp) {
            (Register::RSP, _) => self.sp?,
            (Register::RBP, Held::Frame(bytes)) => bytes,
            _ => return None,
        };
        let bytes = i32::try_from(displacement).ok().and_then(|by| from.checked_sub(by))?;
        (-FRAME_BYTES_MAX..FRAME_BYTES_MAX).contains(&bytes).then_some(bytes)
    }
}

/// An operand, as far as relevant here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operand {
    Register(Register),
    Immediate(i32),
    /// Memory at a register's value plus an offset.
    Memory(Register, i64),
    Other,
}

fn operand(instruction: &Instruction, number: u32) -> Operand {
    if number >= instruction.op_count() {
        return Operand::Other;
    }
    match instruction.op_kind(number) {
        OpKind::Register => Operand::Register(instruction.op_register(number)),
        OpKind::Memory
            if instruction.memory_index() == Register::None
                && !instruction.has_segment_prefix() =>
        {
            let displacement = instruction.memory_displacement64() as i64;
            Operand::Memory(instruction.memory_base(), displacement)
        }
        _ => match instruction.try_immediate(number).map(|value| i32::try_from(value as i64)) {
            Ok(Ok(value)) => Operand::Immediate(value),
            _ => Operand::Other,
        },
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions};

    use super::*;

    /// Checks the rule after some instructions of a function.
    fn check(code: &[u8], expected: &str) {
        let mut factory = InstructionInfoFactory::new();
        let mut decoder = Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE);
        let mut state = Ok(State::ENTRY);
        while decoder.can_decode() {
            let instruction = decoder.decode();
            state = state.and_then(|state: State| state.after(&instruction, &mut factory));
        }
        let found = match state.map(|state| state.rule()) {
            Ok(Some(rule)) => format!("{rule:?}"),
            Ok(None) => "nothing".to_owned(),
            Err(Contradiction) => "contradiction".to_owned(),
        };
        assert_eq!(found, expected, "{code:02x?}");
    }

    #[test]
    fn rules_behind_instructions() {
        check(&[], "cfa=r7+8 ra=c-8");
        check(&[0x55], "cfa=r7+16 ra=c-8"); // push rbp
        check(&[0x55, 0x31, 0xed], "cfa=r7+16 fp=c-16 ra=c-8"); // xor ebp, ebp
        check(&[0x31, 0xed], "cfa=r7+8 fp=? ra=c-8");
        check(&[0x55, 0x31, 0xed, 0x5d], "cfa=r7+8 ra=c-8"); // pop rbp
        check(&[0x53, 0x5d], "cfa=r7+8 fp=? ra=c-8"); // push rbx; pop rbp
        check(&[0x41, 0x57, 0x48, 0x83, 0xec, 0x18], "cfa=r7+40 ra=c-8"); // push r15; sub rsp, 24
        check(&[0x48, 0x83, 0xec, 0x18, 0x48, 0x83, 0xc4, 0x18], "cfa=r7+8 ra=c-8");
        check(&[0x48, 0x81, 0xec, 0, 1, 0, 0], "cfa=r7+264 ra=c-8");
        check(&[0x66, 0x50], "cfa=r7+10 ra=c-8"); // push ax
        check(&[0x9c], "cfa=r7+16 ra=c-8"); // pushfq
        // push rbp; mov rbp, rsp; then: sub rsp, rax; and rsp, -64; leave; lea rsp, [rbp-8]
        check(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x29, 0xc4], "cfa=r6+16 fp=c-16 ra=c-8");
        check(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xc0], "cfa=r6+16 fp=c-16 ra=c-8");
        check(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x29, 0xc4, 0xc9], "cfa=r7+8 ra=c-8");
        let lea = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x29, 0xc4, 0x48, 0x8d, 0x65, 0xf8];
        check(&lea, "cfa=r7+24 fp=c-16 ra=c-8");
        check(&[0x48, 0x29, 0xc4], "nothing"); // sub rsp, rax
        // sub rsp, 24; mov [rsp+16], rbp; xor ebp, ebp; then: mov rbp, [rsp+16] or [rsp+8]
        let stored = [0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0x6c, 0x24, 0x10, 0x31, 0xed];
        check(&stored, "cfa=r7+32 fp=c-16 ra=c-8");
        let load = |offset| [&stored[..], &[0x48, 0x8b, 0x6c, 0x24, offset]].concat();
        check(&load(0x10), "cfa=r7+32 ra=c-8");
        check(&load(0x08), "cfa=r7+32 fp=c-16 ra=c-8");
        // mov [rsp+16], rax overwrites the saved value.
        check(&[&stored[..], &[0x48, 0x89, 0x44, 0x24, 0x10]].concat(), "cfa=r7+32 fp=? ra=c-8");
    }

    #[test]
    fn code_that_is_not_a_function() {
        check(&[0x58], "contradiction"); // pop rax
        check(&[0x48, 0x83, 0xc4, 0x08], "contradiction"); // add rsp, 8
        check(&[0xc9], "contradiction"); // leave
        check(&[0x48, 0x89, 0x04, 0x24], "contradiction"); // mov [rsp], rax
        check(&[0x88, 0x44, 0x24, 0x07], "contradiction"); // mov [rsp+7], al
        check(&[0x88, 0x44, 0x24, 0x08], "cfa=r7+8 ra=c-8"); // mov [rsp+8], al: an argument
        check(&[0xf0, 0x83, 0x0c, 0x24, 0], "cfa=r7+8 ra=c-8"); // lock or dword ptr [rsp], 0
        check(&[0xf0, 0x83, 0x0c, 0x24, 1], "contradiction");
        check(&[0x48, 0x81, 0xec, 0, 0, 0, 0x7f], "contradiction");
        check(&[0x48, 0x81, 0xec, 0, 0, 0, 0x80], "contradiction");
    }

    #[test]
    fn where_paths_meet() {
        let state = |sp, fp, saved| State { sp, fp, saved };
        let pushed = state(Some(16), Held::Callers, Some(16));
        assert_eq!(State::ENTRY.meet(&pushed), Err(Contradiction));
        let used = state(Some(16), Held::Other, Some(16));
        assert_eq!(pushed.meet(&used), Ok(used));
        let unsaved = state(Some(16), Held::Callers, None);
        assert_eq!(unsaved.meet(&used), Ok(state(Some(16), Held::Other, None)));
        let lost = state(None, Held::Frame(16), Some(16));
        let framed = state(Some(64), Held::Frame(16), Some(16));
        assert_eq!(framed.meet(&lost), Ok(lost));
    }
}
