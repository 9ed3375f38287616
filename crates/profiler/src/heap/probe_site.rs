//! Finds the cheapest probe position in a function.
//!
//! A probe is a breakpoint. The kernel emulates some of the instructions that it replaces; any other is
//! single-stepped out of line, which takes twenty times as long on a virtual machine. So this looks for the first
//! emulated instruction (arch/x86/kernel/uprobes.c, Linux 6.18) before which the arguments and the return address
//! are still where they were at the entry.

/// A function's bytes, and their address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code<'a> {
    pub bytes: &'a [u8],
    pub address: u64,
}

/// A probe position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProbeSite {
    /// Bytes from the entry.
    pub offset: u64,
    pub is_emulated: bool,
}

/// The entry itself.
const ENTRY: ProbeSite = ProbeSite { offset: 0, is_emulated: false };

/// Bytes from the entry to consider.
const REACH: u64 = 128;

/// Bytes of a function to search for jumps.
const SEARCHED_BYTES: usize = 4096;

/// The position to probe. For a function that frees, only the first argument must be intact.
#[cfg(target_arch = "x86_64")]
pub(crate) fn probe_site(code: &Code<'_>, is_free: bool) -> ProbeSite {
    x86::probe_site(code, is_free)
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn probe_site(_code: &Code<'_>, _is_free: bool) -> ProbeSite {
    ENTRY
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::is_emulated;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use iced_x86::{
        Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
        OpAccess, OpKind, Register,
    };

    use super::{Code, ENTRY, ProbeSite, REACH, SEARCHED_BYTES};

    pub(super) fn probe_site(code: &Code<'_>, is_free: bool) -> ProbeSite {
        let mut decoder = decoder(code);
        let mut infos = InstructionInfoFactory::new();
        while decoder.can_decode() {
            let instruction = decoder.decode();
            let offset = instruction.ip() - code.address;
            if offset > REACH || instruction.is_invalid() {
                break;
            }
            if is_emulated(&instruction) {
                let is_met_again =
                    offset > 0 && jumps(code).any(|target| target == instruction.ip());
                if is_met_again {
                    break;
                }
                return ProbeSite { offset, is_emulated: true };
            }
            if instruction.flow_control() != FlowControl::Next {
                break;
            }
            let needed: &[Register] = match is_free {
                true => &[Register::RDI],
                false => &[Register::RDI, Register::RSI, Register::RDX, Register::RSP],
            };
            let info = infos.info(&instruction);
            let is_lost = info.used_registers().iter().any(|used| {
                let is_written = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
                is_written && needed.contains(&used.register().full_register())
            });
            if is_lost {
                break;
            }
        }
        ENTRY
    }

    fn decoder<'a>(code: &Code<'a>) -> Decoder<'a> {
        let bytes = &code.bytes[..code.bytes.len().min(SEARCHED_BYTES)];
        Decoder::with_ip(64, bytes, code.address, DecoderOptions::NONE)
    }

    /// `push` of a register, a direct jump or call, or a no-op. Calls within a function are not used: the callee
    /// may have probes, too.
    pub(crate) fn is_emulated(instruction: &Instruction) -> bool {
        match instruction.mnemonic() {
            Mnemonic::Push => {
                instruction.op0_kind() == OpKind::Register && instruction.op0_register().is_gpr64()
            }
            Mnemonic::Nop => instruction.len() == 1,
            _ => match instruction.flow_control() {
                FlowControl::ConditionalBranch => instruction.is_jcc_short_or_near(),
                FlowControl::UnconditionalBranch => instruction.is_jmp_short_or_near(),
                _ => false,
            },
        }
    }

    /// Jump targets.
    fn jumps(code: &Code<'_>) -> impl Iterator<Item = u64> {
        let is_jump = |instruction: &Instruction| {
            instruction.is_jcc_short_or_near() || instruction.is_jmp_short_or_near()
        };
        let instructions: Vec<Instruction> = decoder(code).into_iter().collect();
        instructions.into_iter().filter(move |it| is_jump(it)).map(|it| it.near_branch_target())
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    fn check(bytes: &[u8], is_free: bool, expected: (u64, bool)) {
        let found = probe_site(&Code { bytes, address: 0x1000 }, is_free);
        let expected = ProbeSite { offset: expected.0, is_emulated: expected.1 };
        assert_eq!(found, expected, "{bytes:x?}");
    }

    #[test]
    fn the_first_instruction_that_is_emulated() {
        // push r12; push rbp
        check(&[0x41, 0x54, 0x55], false, (0, true));
        // test rdi, rdi; je +4
        let test_first = [0x48, 0x85, 0xff, 0x74, 0x04, 0x90, 0x90, 0x90, 0x90, 0xc3];
        check(&test_first, true, (3, true));
        // endbr64; push rbx
        check(&[0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0xc3], false, (4, true));
        // mov rax, rdi; sub rsp, 8; push rbx: the return address is no longer on top
        check(&[0x48, 0x89, 0xf8, 0x48, 0x83, 0xec, 0x08, 0x53], false, (0, false));
        check(&[0x48, 0x89, 0xf8, 0x48, 0x83, 0xec, 0x08, 0x53], true, (7, true));
        // mov rdi, rax; push rbx: the argument is gone
        check(&[0x48, 0x89, 0xc7, 0x53], true, (0, false));
        // mov edi, eax: overwrites the argument too
        check(&[0x89, 0xc7, 0x53], false, (0, false));
        // call rax
        check(&[0xff, 0xd0, 0x53], false, (0, false));
        // push [rax]
        check(&[0xff, 0x30, 0x53], false, (0, false));
        check(&[], false, (0, false));
    }

    #[test]
    fn a_site_that_is_reached_again_is_not_used() {
        // test rdi, rdi; je −2 (itself)
        check(&[0x48, 0x85, 0xff, 0x74, 0xfe, 0xc3], true, (0, false));
    }
}
