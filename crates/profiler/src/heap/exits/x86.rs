//! Instructions of x86-64.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register,
};

use super::{Stack, Step};
use crate::heap::{code::Text, probe_site::is_emulated};

const WORD: u64 = 8;

pub(super) fn step(bytes: &[u8], address: u64, stack: Stack) -> Option<(Step, Stack)> {
    let bytes = &bytes[..bytes.len().min(32)];
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if instruction.is_invalid() {
        return None;
    }
    let mut step = Step {
        depth: stack.depth,
        writes: written(&instruction),
        copies: copied(&instruction),
        is_emulated: is_emulated(&instruction),
        ..Step::default()
    };
    let next = instruction.next_ip();
    let target = || instruction.near_branch_target();
    match instruction.flow_control() {
        FlowControl::Next => step.next.push(next),
        FlowControl::Return => step.returns = true,
        FlowControl::ConditionalBranch => {
            step.is_jump = true;
            step.next.extend([target(), next]);
        }
        FlowControl::UnconditionalBranch => {
            step.is_jump = true;
            step.next.push(target());
        }
        // Through a memory slot.
        FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {
            step.leaves = true;
        }
        FlowControl::IndirectBranch => return None,
        FlowControl::Call | FlowControl::IndirectCall => {
            step.writes = CALLER_SAVED;
            if instruction.is_call_near() {
                step.call = Some(target());
            }
            if !is_padding(&mut decoder) {
                step.next.push(next);
            }
        }
        // A trap: the program terminates.
        FlowControl::Interrupt | FlowControl::Exception => {}
        FlowControl::XbeginXabortXend => return None,
    }
    let after = after(&instruction, stack);
    Some((step, after))
}

/// The memory slot of an indirect jump.
pub(super) fn slot(text: &Text<'_>, address: u64) -> Option<u64> {
    let mut decoder = Decoder::with_ip(64, text.from(address)?, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    instruction.is_ip_rel_memory_operand().then(|| instruction.ip_rel_memory_address())
}

/// Whether the code after a call is padding, since the call does not return.
fn is_padding(decoder: &mut Decoder<'_>) -> bool {
    if !decoder.can_decode() {
        return true;
    }
    let next = decoder.decode();
    let is_long_nop = next.mnemonic() == Mnemonic::Nop && next.len() > 1;
    is_long_nop || matches!(next.mnemonic(), Mnemonic::Int3 | Mnemonic::Ud2 | Mnemonic::Hlt)
}

/// Registers that a called function may change: rax, rcx, rdx, rsi, rdi, r8 to r11 (psABI of x86-64, 3.2.1).
const CALLER_SAVED: u32 = 0b1111_1100_0111;

fn written(instruction: &Instruction) -> u32 {
    let mut infos = InstructionInfoFactory::new();
    let used = infos.info(instruction).used_registers().iter();
    used.filter(|used| !matches!(used.access(), OpAccess::Read | OpAccess::CondRead))
        .map(|used| used.register().full_register())
        .filter(|register| register.is_gpr())
        .fold(0, |all, register| all | 1 << register.number())
}

fn writes(instruction: &Instruction, register: Register) -> bool {
    written(instruction) & (1 << register.number()) != 0
}

/// A full register copy: to and from.
fn copied(instruction: &Instruction) -> Option<(u8, u8)> {
    let is_copy = matches!(instruction.code(), Code::Mov_r64_rm64 | Code::Mov_rm64_r64)
        && instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register;
    // Numbers up to 15.
    let number = |register: Register| register.number() as u8;
    is_copy.then(|| (number(instruction.op0_register()), number(instruction.op1_register())))
}

/// The stack after an instruction.
fn after(instruction: &Instruction, stack: Stack) -> Stack {
    let Stack { depth, mut frame_depth } = stack;
    let immediate = || match instruction.op1_kind() {
        OpKind::Immediate8to64 | OpKind::Immediate32to64 => {
            Some(instruction.immediate(1).cast_signed())
        }
        _ => None,
    };
    let deeper = |by: i64| depth.and_then(|depth| depth.checked_add_signed(by));
    let is_mov = matches!(instruction.code(), Code::Mov_r64_rm64 | Code::Mov_rm64_r64);
    if is_mov && instruction.op0_register() == Register::RBP {
        let is_stack = instruction.op1_register() == Register::RSP;
        frame_depth = if is_stack { depth } else { None };
    } else if writes(instruction, Register::RBP) && instruction.mnemonic() != Mnemonic::Leave {
        frame_depth = None;
    }
    let depth = if !writes(instruction, Register::RSP) {
        depth
    } else {
        match instruction.mnemonic() {
            Mnemonic::Call => depth,
            Mnemonic::Push | Mnemonic::Pop => {
                deeper(-i64::from(instruction.stack_pointer_increment()))
            }
            Mnemonic::Sub => immediate().and_then(deeper),
            Mnemonic::Add => immediate().and_then(|by| deeper(-by)),
            Mnemonic::Lea => {
                let by = instruction.memory_displacement64().cast_signed();
                let is_plain = instruction.memory_index() == Register::None;
                match instruction.memory_base() {
                    Register::RSP if is_plain => deeper(-by),
                    Register::RBP if is_plain => {
                        stack.frame_depth.and_then(|depth| depth.checked_add_signed(-by))
                    }
                    _ => None,
                }
            }
            Mnemonic::Leave => stack.frame_depth.and_then(|depth| depth.checked_sub(WORD)),
            Mnemonic::Mov if instruction.op1_register() == Register::RBP => stack.frame_depth,
            _ => None,
        }
    };
    Stack { depth, frame_depth }
}
