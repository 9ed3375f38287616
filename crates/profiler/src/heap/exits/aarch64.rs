//! Instructions of aarch64 (Arm ARM, C4.1). Only returns count as exits: the kernel emulates them here
//! (arch/arm64/kernel/probes/simulate-insn.c, Linux 6.18).

use super::{Stack, Step};
use crate::heap::code::Text;

pub(super) fn step(bytes: &[u8], address: u64, stack: Stack) -> Option<(Step, Stack)> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let code = word(0)?;
    let next = address.wrapping_add(4);
    // An offset in words, of `bits` bits from bit `from` on.
    let target = |bits: u32, from: u32| {
        let offset = (code >> from << (32 - bits)).cast_signed() >> (32 - bits);
        address.wrapping_add_signed(i64::from(offset) * 4)
    };
    let mut step = Step { depth: stack.depth, writes: u32::MAX, ..Step::default() };
    let is_never_reached =
        |code: u32| code == 0xd503_201f || code & 0xffe0_001f == 0xd420_0000 || code >> 16 == 0;
    match code {
        // ret, retaa, retab
        _ if code & 0xffff_fc1f == 0xd65f_0000 || matches!(code, 0xd65f_0bff | 0xd65f_0fff) => {
            (step.returns, step.is_emulated) = (true, true);
        }
        // br of a register that only linkage tables use
        0xd61f_0200 | 0xd61f_0220 => step.leaves = true,
        _ if code & 0xffff_fc1f == 0xd61f_0000 => return None,
        // b
        _ if code >> 26 == 0b00_0101 => {
            step.is_jump = true;
            step.next.push(target(26, 0));
        }
        // bl, blr
        _ if code >> 26 == 0b10_0101 || code & 0xffff_fc1f == 0xd63f_0000 => {
            step.call = (code >> 26 == 0b10_0101).then(|| target(26, 0));
            if !word(4).is_none_or(is_never_reached) {
                step.next.push(next);
            }
        }
        // b.cond, cbz, cbnz
        _ if code & 0xff00_0000 == 0x5400_0000 || code & 0x7e00_0000 == 0x3400_0000 => {
            step.is_jump = true;
            step.next.extend([target(19, 5), next]);
        }
        // tbz, tbnz
        _ if code & 0x7e00_0000 == 0x3600_0000 => {
            step.is_jump = true;
            step.next.extend([target(14, 5), next]);
        }
        // brk, udf
        _ if code != 0xd503_201f && is_never_reached(code) => {}
        _ => step.next.push(next),
    }
    Some((step, stack))
}

/// The slot from which the linkage table loads the target of `br x17`: adrp x16, ldr x17, add x16, br x17.
pub(super) fn slot(text: &Text<'_>, address: u64) -> Option<u64> {
    let page_at = address.checked_sub(12)?;
    let words: Vec<u32> = text
        .from(page_at)?
        .as_chunks()
        .0
        .iter()
        .take(4)
        .map(|it| u32::from_le_bytes(*it))
        .collect();
    let &[page, load, _, 0xd61f_0220] = &words[..] else { return None };
    if page & 0x9f00_001f != 0x9000_0010 || load & 0xffc0_03ff != 0xf940_0211 {
        return None;
    }
    let pages = (page >> 5 & 0x7ffff) << 2 | page >> 29 & 3;
    let pages = i64::from((pages << 11).cast_signed() >> 11);
    let offset = u64::from(load >> 10 & 0xfff) * 8;
    Some((page_at & !0xfff).wrapping_add_signed(pages << 12).wrapping_add(offset))
}
