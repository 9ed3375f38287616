//! Stubs on aarch64 that functions' rules do not cover: signal returns, and the procedure linkage table.

use wingbeat_profiler_abi::unwind::Rule;

use super::stubs::StubRange;
use crate::interpret::Registers;

const BYTES: u64 = 4;

/// `mov x8, #139; svc #0`, the system call that returns from a signal handler: in the kernel's vdso
/// (arch/arm64/kernel/vdso/sigreturn.S), which omits call frame information on purpose, and in musl.
const SIGNAL_RETURN: [u32; 2] = [0xd280_1168, 0xd400_0001];

/// `adrp x16; ldr x17, [x16]; add x16, x16; br x17`: instructions with masks of their constant bits. All linkers
/// use this sequence (ELF for the Arm 64-bit Architecture, "PLT Sequences and Usage Models").
const JUMP: [(u32, u32); 4] = [
    (0x9f00_001f, 0x9000_0010),
    (0xffc0_03ff, 0xf940_0211),
    (0xffc0_03ff, 0x9100_0210),
    (u32::MAX, 0xd61f_0220),
];

/// `stp x16, x30, [sp, #-16]!`, the start of the first entry, which resolves functions.
const PUSH: u32 = 0xa9bf_7bf0;

/// `bti c`, before a jump in code compiled with branch target identification.
const BTI: u32 = 0xd503_245f;

const NOTHING_PUSHED: Rule = Rule::framed(Registers::AARCH64.sp, 0).returning_to(30);
const PUSHED: Rule = Rule::framed(Registers::AARCH64.sp, 16);

/// Finds all stubs in some code at an address.
pub(super) fn find(code: &[u8], address: u64) -> Vec<StubRange> {
    let (words, _) = code.as_chunks();
    let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let mut found = Vec::new();
    let mut add = |from: u64, to: u64, rule| {
        let [start, end] = [from, to].map(|offset| address.wrapping_add(offset));
        found.push(StubRange { start, end, rule });
    };
    let (mask, first) = JUMP[0];
    for at in 0..words.len() {
        // Samples wait for the rules of a file, so most words are skipped at once.
        if words[at] != SIGNAL_RETURN[0] && words[at] & mask != first {
            continue;
        }
        let (start, rest) = (at as u64 * BYTES, &words[at..]);
        if rest.starts_with(&SIGNAL_RETURN) {
            // Its address is a return address, so a walk looks up the byte before, as for a call. No instruction
            // begins there; it gets the same rule.
            add(start.wrapping_sub(1), start + 2 * BYTES, Rule::SIGNAL);
        } else if is_jump(rest) {
            let before = |distance: usize| at.checked_sub(distance).map(|before| words[before]);
            let end = start + JUMP.len() as u64 * BYTES;
            if before(1) == Some(PUSH) {
                let has_bti = before(2) == Some(BTI);
                let push = start - BYTES;
                add(push - u64::from(has_bti) * BYTES, start, NOTHING_PUSHED);
                add(start, end, PUSHED);
            } else {
                let has_bti = before(1) == Some(BTI);
                add(start - u64::from(has_bti) * BYTES, end, NOTHING_PUSHED);
            }
        }
    }
    found
}

fn is_jump(words: &[u32]) -> bool {
    let is_it = |(&(mask, value), &word): (&(u32, u32), &u32)| word & mask == value;
    words.len() >= JUMP.len() && JUMP.iter().zip(words).all(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_all_their_instructions() {
        let check = |words: &[u32], expected: &[&str]| {
            let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let found: Vec<_> = find(&code, 0x1000)
                .iter()
                .map(|part| format!("{:x}..{:x} {:?}", part.start, part.end, part.rule))
                .collect();
            assert_eq!(found, expected, "{words:x?}");
        };
        const NOP: u32 = 0xd503_201f;
        let [mov, svc] = SIGNAL_RETURN;
        check(&[NOP, mov, svc, NOP], &["1003..100c signal"]);
        check(&[mov, svc], &["fff..1008 signal"]);
        check(&[NOP, mov, NOP], &[]);
        // From `objdump -d` of a program: adrp x16, 1f000; ldr x17, [x16, #4000]; add x16, x16, #0xfa0.
        let jump = [0xf000_00f0, 0xf947_d211, 0x913e_8210, 0xd61f_0220];
        check(&jump, &["1000..1010 cfa=r31+0 ra=r30"]);
        check(&[&[BTI], &jump[..]].concat(), &["1000..1014 cfa=r31+0 ra=r30"]);
        let first = [&[PUSH], &jump[..], &[NOP; 3], &jump[..]].concat();
        let expected = [
            "1000..1004 cfa=r31+0 ra=r30",
            "1004..1014 cfa=r31+16 ra=c-8",
            "1020..1030 cfa=r31+0 ra=r30",
        ];
        check(&first, &expected);
        check(&jump[..3], &[]);
        check(&[jump[0], jump[1], jump[2], NOP], &[]);
    }
}
