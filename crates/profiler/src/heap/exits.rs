//! Finds where an allocating function returns, with the block in a register.
//!
//! A kernel return probe replaces the return address on the target's stack. Any code that unwinds the stack
//! meanwhile finds an unknown address: an exception that leaves `operator new` terminates the process. So the
//! exits of a function are probed like its entry, and its stack stays unchanged.
//!
//! A probe on `ret` is single-stepped, which is slow where the kernel emulates other instructions
//! ([`super::probe_site`]). Many paths to an exit have a jump from which on a register holds the result in any case:
//! then the probe is there. All code that the function reaches by jumps is followed, including parts that the
//! compiler moved elsewhere.

#[cfg(any(target_arch = "aarch64", test))]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::collections::{HashMap, HashSet};

#[cfg(target_arch = "aarch64")]
use self::aarch64 as arch;
#[cfg(target_arch = "x86_64")]
use self::x86 as arch;
use super::code::Text;

/// A probe position on the path to an exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Exit {
    /// ELF address.
    pub address: u64,
    /// Bytes by which the stack is deeper there than at the entry.
    pub depth: u64,
    pub is_emulated: bool,
    /// Register with the result, by its number in instruction encodings.
    pub register: u8,
    /// Whether it is a jump to another function, possibly the one that fills the block.
    pub leaves: bool,
}

/// All ends of a function.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Ends {
    /// If all of them leave the function, it delegates all work.
    pub exits: Vec<Exit>,
    /// Whether some path jumps to another probed function.
    pub is_handed_on: bool,
    /// Whether it calls one.
    pub calls_other: bool,
}

/// A function that is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Other {
    Probed,
    /// `memset`.
    Fills,
}

/// Follows a function from its entry, through the linkage table where possible. `None` if it has a computed jump
/// or its file has too much code. `other` recognizes entries of other functions. With `by_returns`, the result
/// register alone is not sufficient, so that only returns are exits.
pub(crate) fn ends(
    text: &Text<'_>,
    entry: u64,
    by_returns: bool,
    other: impl Fn(u64) -> Option<Other>,
) -> Option<Ends> {
    let follow = |is_linked| follow(text, entry, by_returns, &other, is_linked);
    follow(true).or_else(|| follow(false))
}

fn follow(
    text: &Text<'_>,
    entry: u64,
    by_returns: bool,
    other: &impl Fn(u64) -> Option<Other>,
    is_linked: bool,
) -> Option<Ends> {
    let own = |slot: Option<u64>| slot.and_then(|slot| text.own(slot)).filter(|_| is_linked);
    let mut steps: HashMap<u64, Step> = HashMap::new();
    let mut found = Ends::default();
    let mut waiting = vec![(entry, Some(0), None)];
    while let Some((address, depth, frame_depth)) = waiting.pop() {
        if let Some(known) = steps.get_mut(&address) {
            // Where paths meet with different stack depths, the depth is unknown.
            if known.depth == depth || known.depth.is_none() {
                continue;
            }
            known.depth = None;
        }
        let stack = Stack { depth: steps.get(&address).map_or(depth, |it| it.depth), frame_depth };
        let (mut step, after) = arch::step(text.from(address)?, address, stack)?;
        found.calls_other |= step.call.and_then(other) == Some(Other::Probed);
        if let (true, &[target]) = (step.is_jump, &step.next[..]) {
            let fills = other(target) == Some(Other::Fills);
            let leaving = leaving(text, target).filter(|_| !fills);
            let function = own(leaving.and_then(|jump| arch::slot(text, jump)));
            step.leaves = function.is_none() && (fills || leaving.is_some());
            if step.leaves || function.is_some() {
                step.next = function.into_iter().collect();
            }
        } else if step.leaves
            && let Some(function) = own(arch::slot(text, address))
        {
            (step.leaves, step.is_jump, step.next) = (false, true, vec![function]);
        }
        step.next.retain(|&target| {
            let is_probed = step.is_jump && target != entry && other(target) == Some(Other::Probed);
            found.is_handed_on |= is_probed;
            step.is_handed_on |= is_probed;
            !is_probed
        });
        waiting.extend(step.next.iter().map(|&next| (next, after.depth, after.frame_depth)));
        steps.insert(address, step);
        text.look()?;
    }
    found.exits = exits(text, &steps, by_returns)?;
    Some(found)
}

/// The jump through a memory slot of a linkage table entry, if this is one.
fn leaving(text: &Text<'_>, mut address: u64) -> Option<u64> {
    const INSTRUCTIONS: usize = 4;
    let stack = Stack { depth: None, frame_depth: None };
    for _ in 0..INSTRUCTIONS {
        let step = text.from(address).and_then(|bytes| arch::step(bytes, address, stack));
        match step {
            Some((step, _)) if step.leaves => return Some(address),
            Some((Step { is_jump: false, next, .. }, _)) if next.len() == 1 => address = next[0],
            _ => return None,
        }
    }
    None
}

/// The stack depth before an instruction, and the depth when the frame pointer was set.
#[derive(Debug, Clone, Copy)]
struct Stack {
    depth: Option<u64>,
    frame_depth: Option<u64>,
}

/// An instruction.
#[derive(Debug, Default)]
struct Step {
    depth: Option<u64>,
    /// Successors; empty after a return, or where the program terminates.
    next: Vec<u64>,
    returns: bool,
    is_jump: bool,
    /// Jumps to a probed function.
    is_handed_on: bool,
    /// Jumps to a function outside the file, or to one that fills the block.
    leaves: bool,
    call: Option<u64>,
    /// Bit mask of the registers that it writes.
    writes: u32,
    /// A register copied to another.
    copies: Option<(u8, u8)>,
    is_emulated: bool,
}

/// The register in which functions return their result.
const RESULT: u8 = 0;

/// Location of the result before an instruction, on all paths from there to a return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// No path to a return is known.
    Unknown,
    Register(u8),
    /// Not computed yet, or in different registers on different paths.
    Nowhere,
}

impl Held {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, held) | (held, Self::Unknown) => held,
            (one, other) if one == other => one,
            _ => Self::Nowhere,
        }
    }

    /// The location before an instruction for this location after it.
    fn before(self, step: &Step) -> Self {
        match (self, step.copies) {
            (Self::Register(register), Some((to, from))) if register == to => Self::Register(from),
            (Self::Register(register), _) if step.writes & (1 << register) != 0 => Self::Nowhere,
            (held, _) => held,
        }
    }
}

/// The probe positions: one on each path from where the result is written to a return.
fn exits(text: &Text<'_>, steps: &HashMap<u64, Step>, by_returns: bool) -> Option<Vec<Exit>> {
    let mut before: HashMap<u64, Vec<u64>> = HashMap::new();
    for (&address, step) in steps {
        step.next.iter().for_each(|&next| before.entry(next).or_default().push(address));
    }
    let held = held(steps, &before);
    let leaving = steps.iter().filter(|(_, step)| step.leaves);
    let mut exits: Vec<Exit> = leaving
        .filter_map(|(&address, step)| {
            let (depth, is_emulated) = (step.depth?, step.is_emulated);
            Some(Exit { address, depth, is_emulated, register: RESULT, leaves: true })
        })
        .collect();
    for (&end, _) in steps.iter().filter(|(_, step)| step.returns) {
        let mut seen = HashSet::from([end]);
        let mut waiting = vec![end];
        let mut cheap = Vec::new();
        let mut is_open = by_returns;
        while let Some(address) = waiting.pop() {
            text.look()?;
            let step = &steps[&address];
            if let (true, Some(depth), Held::Register(register)) =
                (step.is_emulated, step.depth, held[&address])
            {
                cheap.push(Exit { address, depth, is_emulated: true, register, leaves: false });
                continue;
            }
            let sources = before.get(&address).map_or(&[][..], Vec::as_slice);
            for &source in sources {
                if held[&source] == Held::Nowhere {
                    // The result is written there, and no emulated instruction follows.
                    is_open = true;
                } else if seen.insert(source) {
                    waiting.push(source);
                }
            }
            is_open |= sources.is_empty();
        }
        if is_open {
            let is_emulated = steps[&end].is_emulated;
            let (depth, register) = (0, RESULT);
            exits.push(Exit { address: end, depth, is_emulated, register, leaves: false });
        } else {
            exits.extend(cheap);
        }
    }
    exits.sort_unstable();
    exits.dedup();
    Some(exits)
}

/// Location of the result before each instruction.
fn held(steps: &HashMap<u64, Step>, before: &HashMap<u64, Vec<u64>>) -> HashMap<u64, Held> {
    let mut all: HashMap<u64, Held> =
        steps.keys().map(|&address| (address, Held::Unknown)).collect();
    let mut waiting: Vec<u64> = steps.keys().copied().collect();
    while let Some(address) = waiting.pop() {
        let step = &steps[&address];
        let held = if step.returns {
            Held::Register(RESULT)
        } else if step.is_handed_on || step.leaves {
            Held::Nowhere
        } else {
            let after = step.next.iter().filter_map(|next| all.get(next));
            after.fold(Held::Unknown, |one, &other| one.and(other)).before(step)
        };
        if all.insert(address, held) != Some(held) {
            waiting.extend(before.get(&address).into_iter().flatten());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{super::code::LOOKS_MAX, *};

    const PROBED: u64 = 0x2000;

    fn text(bytes: &[u8]) -> Text<'_> {
        Text::at(0x1000, bytes)
    }

    /// Exits as offset, depth, and whether the kernel emulates the instruction.
    #[cfg(target_arch = "x86_64")]
    #[track_caller]
    fn check(
        bytes: &[u8],
        exits: &[(u64, u64, bool)],
        [is_handed_on, leaves, calls_other]: [bool; 3],
    ) {
        let other = |address| (address == PROBED).then_some(Other::Probed);
        let found = ends(&text(bytes), 0x1000, false, other);
        let exit = |&(offset, depth, is_emulated)| Exit {
            address: 0x1000 + offset,
            depth,
            is_emulated,
            register: 0,
            leaves,
        };
        let exits = exits.iter().map(exit).collect();
        let expected = Some(Ends { exits, is_handed_on, calls_other });
        assert_eq!(found, expected, "{bytes:x?}");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn ways_out() {
        // push rbx; mov rax, rdi; test rax, rax; je +2; pop rbx; ret; xor eax, eax; pop rbx; ret
        let both = [
            0x53, 0x48, 0x89, 0xf8, 0x48, 0x85, 0xc0, 0x74, 0x02, 0x5b, 0xc3, 0x31, 0xc0, 0x5b,
            0xc3,
        ];
        // The jump comes before the second path writes its result.
        check(&both, &[(10, 0, false), (14, 0, false)], [false; 3]);
        // push rbx; mov rax, rdi; test rax, rax; je +1; nop; pop rbx; ret
        let one = [0x53, 0x48, 0x89, 0xf8, 0x48, 0x85, 0xc0, 0x74, 0x01, 0x90, 0x5b, 0xc3];
        check(&one, &[(7, 8, true), (9, 8, true)], [false; 3]);
        // mov rbx, rdi; test rdi, rdi; je +1; nop; mov rax, rbx; ret
        let kept = [0x48, 0x89, 0xfb, 0x48, 0x85, 0xff, 0x74, 0x01, 0x90, 0x48, 0x89, 0xd8, 0xc3];
        let found = ends(&text(&kept), 0x1000, false, |_| None).expect("it is followed");
        assert_eq!(found.exits.iter().map(|it| it.register).collect::<Vec<_>>(), [3, 3]);
        // A call that does not return, since padding follows: sub rsp, 8; mov rax, rdi; test rax, rax; je +5; add
        // rsp, 8; ret; call; nopw
        let aborts = [
            0x48, 0x83, 0xec, 0x08, 0x48, 0x89, 0xf8, 0x48, 0x85, 0xc0, 0x74, 0x05, 0x48, 0x83,
            0xc4, 0x08, 0xc3, 0xe8, 0, 1, 0, 0, 0x66, 0x0f, 0x1f, 0x44, 0, 0,
        ];
        check(&aborts, &[(10, 8, true)], [false; 3]);
        // jmp 0x2000
        check(&[0xe9, 0xfb, 0x0f, 0x00, 0x00], &[], [true, false, false]);
        // push rax; jmp [rip + 16]: a function of another file
        let leaves: &[(u64, u64, bool)] = &[(1, 8, false)];
        check(&[0x50, 0xff, 0x25, 0x10, 0, 0, 0], leaves, [false, true, false]);
        // The same by a linkage table entry: jmp +2; nop; nop; endbr64; jmp [rip + 16]
        let linked = [0xeb, 2, 0x90, 0x90, 0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0x10, 0, 0, 0];
        check(&linked, &[(0, 0, true)], [false, true, false]);
        // call 0x2000; ret
        check(&[0xe8, 0xfb, 0x0f, 0, 0, 0xc3], &[(5, 0, false)], [false, false, true]);
        // jmp rax
        let is_unknown = |bytes: &[u8]| ends(&text(bytes), 0x1000, false, |_| None).is_none();
        assert!(is_unknown(&[0xff, 0xe0]));
        // Beyond the code, and an invalid instruction.
        assert!(is_unknown(&[0x90]) && is_unknown(&[0x06]) && is_unknown(&[]));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_file_without_end_comes_to_one() {
        // jne +0, repeated: each is reached by two paths.
        let bytes = [0x75, 0x00].repeat(LOOKS_MAX);
        assert_eq!(ends(&text(&bytes), 0x1000, false, |_| None), None);
    }

    #[test]
    fn ways_out_on_aarch64() {
        let check = |code: u32, next: &[u64], returns: bool| {
            let bytes = [code.to_le_bytes(), 0x9100_03fd_u32.to_le_bytes()].concat();
            let stack = Stack { depth: Some(0), frame_depth: None };
            let found = aarch64::step(&bytes, 0x1000, stack).map(|(step, _)| step);
            let found = found.map(|step| (step.next, step.returns));
            assert_eq!(found, Some((next.to_vec(), returns)), "{code:x}");
        };
        check(0xd65f_03c0, &[], true);
        // b −4; b.eq +8; cbz x0, −8; tbnz w0, #3, +16; bl +4; mov; brk #1
        check(0x17ff_ffff, &[0xffc], false);
        check(0x5400_0040, &[0x1008, 0x1004], false);
        check(0xb4ff_ffc0, &[0xff8, 0x1004], false);
        check(0x3718_0080, &[0x1010, 0x1004], false);
        check(0x9400_0001, &[0x1004], false);
        check(0xaa00_03e1, &[0x1004], false);
        check(0xd420_0020, &[], false);
        // adrp x16, +0x11000; ldr x17, [x16, #0xf8]; add x16, x16, #0xf8; br x17
        let entry = [0xb000_0090_u32, 0xf940_7e11, 0x9103_e210, 0xd61f_0220].map(u32::to_le_bytes);
        assert_eq!(aarch64::slot(&text(&entry.concat()), 0x100c), Some(0x1_20f8));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_linkage_table_is_followed_to_functions_of_the_file() {
        // jmp +2; nop; nop; jmp [rip + 16]; and the function: mov rax, [rdi]; ret
        let bytes = [0xeb, 2, 0x90, 0x90, 0xff, 0x25, 0x10, 0, 0, 0, 0x48, 0x8b, 0x07, 0xc3];
        let mut text = text(&bytes);
        text.link(0x101a, 0x100a);
        let check = |entry: u64, exits: &[(u64, bool)]| {
            let found = ends(&text, entry, false, |_| None).expect("it is followed");
            let found: Vec<_> = found.exits.iter().map(|it| (it.address, it.leaves)).collect();
            assert_eq!(found, exits);
        };
        check(0x1000, &[(0x100d, false)]);
        check(0x1004, &[(0x100d, false)]);
    }
}
