//! Computes the stack depth of a function.
//!
//! Spilled registers go below the deepest byte that the function may touch. The bytecode does not
//! declare this depth, so pointers into the stack are tracked. Adding an unknown number leaves a
//! pointer unchanged: compilers take the lowest address of an array and index upwards. After
//! subtracting an unknown number, the whole stack counts as used.

use std::collections::BTreeMap;

use wingbeat_bpf_loader::code::{Insn, Registers, op};

use super::{
    graph::{Function, Graph},
    registers::Effects,
};

/// Stack size of a program in bytes, over all frames of a call chain (`MAX_BPF_STACK`,
/// include/linux/filter.h, Linux 6.18).
pub const STACK_BYTES_MAX: u32 = 512;

/// Maximum state changes per block. Only a pointer that moves down in a loop needs more, and its limit is unknown.
const VISITS_MAX: u8 = 16;

/// Bytes below the frame pointer that a function uses, at most [`STACK_BYTES_MAX`].
pub fn depth_bytes(insns: &[Insn], graph: &Graph, function: &Function) -> u32 {
    let mut walk = Walk { lowest: 0, slots: BTreeMap::new() };
    let first = function.blocks.start;
    let mut at_start: Vec<Option<Pointers>> = vec![None; function.blocks.len()];
    let mut visits = vec![0; function.blocks.len()];
    let mut open = vec![first];
    if let Some(entry) = at_start.first_mut() {
        *entry = Some(Pointers::default());
    }
    while let Some(number) = open.pop() {
        let (Some(block), Some(Some(start))) =
            (graph.blocks.get(number), at_start.get(number - first))
        else {
            continue;
        };
        let mut pointers = start.clone();
        for index in block.insns.clone().filter(|&index| !graph.is_second_half(index)) {
            insns.get(index).into_iter().for_each(|&insn| walk.step(insn, &mut pointers));
        }
        for target in graph.outgoing(number).filter_map(|(_, edge)| edge.to) {
            let place = target - first;
            let joined = match &at_start[place] {
                Some(before) => before.joined(&pointers),
                None => pointers.clone(),
            };
            if at_start[place].as_ref() == Some(&joined) {
                continue;
            }
            if visits[place] == VISITS_MAX {
                return STACK_BYTES_MAX;
            }
            at_start[place] = Some(joined);
            visits[place] += 1;
            open.push(target);
        }
    }
    walk.lowest.unsigned_abs().min(STACK_BYTES_MAX)
}

/// By register: the lowest offset from the frame pointer that it may point to; `None` if not a stack pointer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Pointers([Option<i32>; 10]);

impl Pointers {
    fn get(&self, register: u8) -> Option<i32> {
        match register {
            Registers::FRAME_POINTER => Some(0),
            _ => self.0.get(usize::from(register)).copied().flatten(),
        }
    }

    fn set(&mut self, register: u8, place: Option<i32>) {
        if let Some(slot) = self.0.get_mut(usize::from(register)) {
            *slot = place;
        }
    }

    fn joined(&self, other: &Self) -> Self {
        let mut joined = self.clone();
        for (place, &other) in joined.0.iter_mut().zip(&other.0) {
            *place = lower(*place, other);
        }
        joined
    }
}

fn lower(a: Option<i32>, b: Option<i32>) -> Option<i32> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

struct Walk {
    /// Lowest offset touched or pointed to, at least minus [`STACK_BYTES_MAX`].
    lowest: i32,
    /// Pointers spilled to the stack, by offset.
    slots: BTreeMap<i32, Option<i32>>,
}

impl Walk {
    fn step(&mut self, insn: Insn, pointers: &mut Pointers) {
        let (dst, src) = (insn.dst(), insn.src());
        let at = |register| Some(pointers.get(register)?.saturating_add(i32::from(insn.offset)));
        // Destination of a store, source of a load.
        let (written, read) = (at(dst), at(src));
        let result = match insn.class() {
            op::ALU64 => self.arithmetic(insn, pointers),
            op::LDX => {
                self.touch(read);
                read.and_then(|slot| self.slots.get(&slot).copied().flatten())
            }
            op::ST => {
                self.touch(written);
                None
            }
            op::STX => {
                self.touch(written);
                if insn.opcode & op::MODE == op::ATOMIC {
                    self.touch(if insn.immediate == op::LOAD_ACQUIRE { read } else { None });
                } else if let (Some(slot), Some(pointer)) = (written, pointers.get(src)) {
                    let before = self.slots.get(&slot).copied().flatten();
                    self.slots.insert(slot, lower(before, Some(pointer)));
                }
                None
            }
            _ => None,
        };
        let writes = Effects::of(insn).unwrap_or_default().writes;
        writes.iter().for_each(|register| pointers.set(register, None));
        if matches!(insn.class(), op::ALU64 | op::LDX) {
            self.touch(result);
            pointers.set(dst, result);
        }
    }

    /// Offset of the destination afterwards.
    fn arithmetic(&mut self, insn: Insn, pointers: &Pointers) -> Option<i32> {
        let (dst, src) = (pointers.get(insn.dst()), pointers.get(insn.src()));
        let is_x = insn.opcode & op::X != 0;
        match (insn.opcode & op::OPERATION, is_x) {
            (op::MOV, true) => src,
            (op::ADD, true) => lower(dst, src),
            (op::ADD, false) => Some(dst?.saturating_add(insn.immediate)),
            (op::SUB, false) => Some(dst?.saturating_sub(insn.immediate)),
            // The difference of two pointers is a number.
            (op::SUB, true) if src.is_none() => {
                dst?;
                Some(-(STACK_BYTES_MAX as i32))
            }
            _ => None,
        }
    }

    fn touch(&mut self, place: Option<i32>) {
        let lowest = place.unwrap_or(0).max(-(STACK_BYTES_MAX as i32));
        self.lowest = self.lowest.min(lowest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wingbeat_bpf_testing::assemble::{Assembler, assembled, load, store, store_immediate};

    fn check(expected: u32, build: impl FnOnce(&mut Assembler)) {
        let code = assembled(build);
        let graph = Graph::new(&code, &|_| false).expect("a graph");
        assert_eq!(depth_bytes(&code.insns, &graph, &graph.functions[0]), expected, "{code:?}");
    }

    #[test]
    fn direct() {
        check(0, |it| it.mov(0, 0).exit());
        check(8, |it| it.emit(store(op::DW, 10, -8, 1)).mov(0, 0).exit());
        check(24, |it| it.emit(store_immediate(op::B, 10, -24, 1)).mov(0, 0).exit());
        check(16, |it| it.emit(store(op::DW, 10, -8, 1)).emit(load(op::W, 0, 10, -16)).exit());
        check(512, |it| it.emit(store(op::DW, 10, -512, 1)).mov(0, 0).exit());
    }

    #[test]
    fn through_pointers() {
        // Passed to a helper: the accessed size is unknown, but it extends upwards.
        check(32, |it| it.copy(2, 10).add(2, -32).call(1).mov(0, 0).exit());
        check(40, |it| it.copy(2, 10).add(2, -32).emit(store(op::DW, 2, -8, 1)).mov(0, 0).exit());
        // An unknown index.
        check(64, |it| it.copy(2, 10).add(2, -64).add_register(2, 1).mov(0, 0).exit());
        check(48, |it| {
            it.copy(2, 10).add_register(2, 1).emit(store(op::B, 2, -48, 1)).mov(0, 0).exit();
        });
        check(512, |it| it.copy(2, 10).alu(op::SUB, 2, 1).mov(0, 0).exit());
        // The difference of two pointers is not a pointer.
        check(16, |it| {
            it.copy(2, 10).add(2, -16).copy(3, 10).alu(op::SUB, 3, 2).add(3, -400);
            it.mov(0, 0).exit();
        });
        // A call clobbers it.
        check(8, |it| it.copy(2, 10).add(2, -8).call(1).emit(store(op::DW, 0, -100, 6)).exit());
    }

    #[test]
    fn spilled_and_reloaded() {
        check(32, |it| {
            it.copy(2, 10).add(2, -16).emit(store(op::DW, 10, -8, 2));
            it.emit(load(op::DW, 3, 10, -8)).emit(store(op::DW, 3, -16, 1)).mov(0, 0).exit();
        });
    }

    #[test]
    fn over_branches_and_loops() {
        check(24, |it| {
            let (other, join) = (it.label(), it.label());
            it.copy(2, 10).branch(op::JEQ, 1, 0, other).add(2, -8).goto(join);
            it.bind(other).add(2, -16).bind(join).emit(store(op::DW, 2, -8, 1)).mov(0, 0).exit();
        });
        // A pointer that moves down in a loop.
        check(512, |it| {
            let top = it.label();
            it.copy(2, 10).mov(1, 9).bind(top).add(2, -8).add(1, -1);
            it.branch(op::JNE, 1, 0, top).mov(0, 0).exit();
        });
    }
}
