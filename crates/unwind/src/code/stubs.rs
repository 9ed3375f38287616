//! Stubs that functions' rules do not cover: starts of programs and threads, and signal returns.
//!
//! Each is recognized by its exact bytes, as assembled from the C libraries' sources: musl's
//! src/{process,signal,thread}/x86_64/*.s (seen in 1.2.3), glibc's sysdeps/unix/sysv/linux/x86_64/{clone,clone3}.S
//! (seen in 2.36). Other bytes are not matched.

use wingbeat_profiler_abi::unwind::Rule;

use crate::interpret::Registers;

/// Bytes with a rule, as offsets from the start of the stub.
#[derive(Debug, Clone, Copy)]
pub(super) struct StubRange {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) rule: Rule,
}

/// Bytes of a pattern; `None` matches any.
type Pattern = &'static [Option<u8>];

macro_rules! pattern {
    (@ _) => { None };
    (@ $byte:literal) => { Some($byte) };
    ($($byte:tt)*) => { &[$(pattern!(@ $byte)),*] };
}

struct Stub {
    pattern: Pattern,
    parts: &'static [StubRange],
}

const fn part(start: u64, end: u64, rule: Rule) -> StubRange {
    StubRange { start, end, rule }
}

const STUBS: [Stub; 5] = [
    // glibc's clone3 and clone, whose call frame information ends before the system call: syscall; test
    // rax, rax; jl; je child; ret.
    Stub {
        pattern: pattern![0x0f 0x05 0x48 0x85 0xc0 0x7c _ 0x74 0x01 0xc3],
        parts: &[part(0, 10, Rule::CLONE)],
    },
    // musl's clone: xor eax, eax; mov al, 56; ...; syscall; test eax, eax; jnz parent; xor ebp, ebp; pop rdi;
    // call r9; mov edi, eax; xor eax, eax; mov al, 60; syscall; hlt; parent: ret.
    Stub {
        pattern: pattern![
            0x31 0xc0 0xb0 0x38 0x49 0x89 0xfb 0x48 0x89 0xd7 0x4c 0x89 0xc2 0x4d 0x89 0xc8
            0x4c 0x8b 0x54 0x24 0x08 0x4d 0x89 0xd9 0x48 0x83 0xe6 0xf0 0x48 0x83 0xee 0x08
            0x48 0x89 0x0e 0x0f 0x05 0x85 0xc0 0x75 0x0f 0x31 0xed 0x5f 0x41 0xff 0xd1 0x89
            0xc7 0x31 0xc0 0xb0 0x3c 0x0f 0x05 0xf4 0xc3
        ],
        parts: &[
            part(0, 35, Rule::framed(Registers::X86_64.sp, 8)),
            part(35, 41, Rule::CLONE),
            part(41, 56, Rule::END),
            part(56, 57, Rule::framed(Registers::X86_64.sp, 8)),
        ],
    },
    // musl's __unmapself, which no longer has a stack: mov eax, 11; syscall; xor rdi, rdi; mov eax, 60; syscall.
    Stub {
        pattern: pattern![
            0xb8 0x0b 0x00 0x00 0x00 0x0f 0x05 0x48 0x31 0xff 0xb8 0x3c 0x00 0x00 0x00 0x0f
            0x05
        ],
        parts: &[part(0, 7, Rule::framed(Registers::X86_64.sp, 8)), part(7, 17, Rule::END)],
    },
    // musl's __restore_rt, with a byte before it: nop; mov rax, 15; syscall. Its address is a return address, so a
    // walk looks up the byte before, as for a call.
    Stub {
        pattern: pattern![0x90 0x48 0xc7 0xc0 0x0f 0x00 0x00 0x00 0x0f 0x05],
        parts: &[part(0, 10, Rule::SIGNAL)],
    },
    // musl's vfork, which keeps its return address in rdx: pop rdx; mov eax, 58; syscall; push rdx.
    Stub {
        pattern: pattern![0x5a 0xb8 0x3a 0x00 0x00 0x00 0x0f 0x05 0x52],
        parts: &[
            part(0, 1, Rule::framed(Registers::X86_64.sp, 8)),
            part(1, 9, Rule::framed(Registers::X86_64.sp, 0).returning_to(RDX)),
        ],
    },
];

/// DWARF number of `rdx`.
const RDX: i16 = 1;

/// Finds all stubs in some code at an address.
pub(super) fn find(code: &[u8], address: u64) -> Vec<StubRange> {
    let mut found = Vec::new();
    for at in 0..code.len() {
        let matches = |stub: &&Stub| {
            stub.pattern[0] == Some(code[at])
                && code.len() - at >= stub.pattern.len()
                && stub
                    .pattern
                    .iter()
                    .zip(&code[at..])
                    .all(|(expected, byte)| expected.is_none_or(|expected| expected == *byte))
        };
        if let Some(stub) = STUBS.iter().find(matches) {
            let from = address.wrapping_add(at as u64);
            let at_address = |part: &StubRange| StubRange {
                start: from.wrapping_add(part.start),
                end: from.wrapping_add(part.end),
                ..*part
            };
            found.extend(stub.parts.iter().map(at_address));
        }
    }
    found
}

/// `xor rbp, rbp` and `xor ebp, ebp`, which mark the outermost frame at the start of a program (psABI, 3.4.1).
const FRAME_POINTER_CLEARED: [&[u8]; 2] = [&[0x48, 0x31, 0xed], &[0x31, 0xed]];

/// Whether a program's entry point marks the outermost frame.
pub(super) fn is_entry(code: &[u8]) -> bool {
    FRAME_POINTER_CLEARED.iter().any(|bytes| code.starts_with(bytes))
}

#[cfg(test)]
mod tests {
    use wingbeat_profiler_abi::unwind::{Frame, Memory, Problem, REGISTERS, caller};

    use super::*;

    fn check(code: &[u8], expected: &[&str]) {
        let found: Vec<_> = find(code, 0x1000)
            .iter()
            .map(|part| format!("{:x}..{:x} {:?}", part.start, part.end, part.rule))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn stubs_by_all_their_bytes() {
        let glibc = [0x0f, 0x05, 0x48, 0x85, 0xc0, 0x7c, 0x18, 0x74, 0x01, 0xc3];
        check(&glibc, &["1000..100a clone"]);
        check(&[&[0x90, 0x90][..], &glibc].concat(), &["1002..100c clone"]);
        check(&glibc[..9], &[]);
        let restore = [0x90, 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
        check(&restore, &["1000..100a signal"]);
        check(&restore[1..], &[]);
        let vfork = [0x5a, 0xb8, 0x3a, 0, 0, 0, 0x0f, 0x05, 0x52];
        check(&vfork, &["1000..1001 cfa=r7+8 ra=c-8", "1001..1009 cfa=r7+0 ra=r1"]);
        for at in 0..glibc.len() {
            let mut changed = glibc;
            changed[at] ^= 0x40;
            check(&changed, if at == 6 { &["1000..100a clone"] } else { &[] });
        }
        // The parts of a pattern cover it without gaps.
        for Stub { pattern, parts } in &STUBS {
            assert_eq!(parts[0].start, 0);
            assert_eq!(parts[parts.len() - 1].end, pattern.len() as u64);
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }

    #[test]
    #[cfg(not(target_arch = "aarch64"))]
    fn what_clone_returns_to() {
        struct Stack;
        impl Memory for Stack {
            fn word(&mut self, address: u64) -> Option<u64> {
                (address == 0x7000).then_some(0x5000)
            }
        }
        let frame = |rax| {
            let mut values = [0; REGISTERS];
            (values[0], values[usize::from(Registers::X86_64.sp)]) = (rax, 0x7000);
            Frame::innermost(0x1000, values)
        };
        let check = |mut frame: Frame, expected| {
            assert_eq!(caller(&mut frame, &Rule::CLONE, &mut Stack), expected);
            frame
        };
        check(frame(0), Ok(false));
        let parent = check(frame(4711), Ok(true));
        assert_eq!((parent.ip, parent.sp()), (0x5000, 0x7008));
        // A frame that may be either of the two.
        check(Frame::new(0x1000, 0x7000, None, false), Err(Problem::RegisterLost));
    }

    #[test]
    fn entry_points_by_their_first_instruction() {
        assert!(is_entry(&[0x48, 0x31, 0xed, 0x90]) && is_entry(&[0x31, 0xed]));
        assert!(!is_entry(&[0x48, 0x89, 0xe5]) && !is_entry(&[]));
    }
}
