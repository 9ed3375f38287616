//! Register liveness: which registers are still needed, and which may be read.
//!
//! Inserted code may use registers that are not live. It may spill live ones, but only if they are
//! set on every path to that point: the verifier rejects reads of the others. Live but unset
//! registers occur, because a call counts as a use of all five arguments.

use wingbeat_bpf_loader::code::{Code, Registers};

use super::{graph::Graph, registers::Effects};

/// Registers before each instruction. Undefined for the second half of a `ldimm64`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Liveness {
    live: Vec<Registers>,
    set: Vec<Registers>,
}

impl Liveness {
    /// Runs both dataflow analyses over all functions.
    pub fn new(code: &Code, graph: &Graph) -> Self {
        let effects: Vec<Effects> = effects(code, graph);
        Self { live: live(graph, &effects), set: set(graph, &effects) }
    }

    /// Registers whose value may still be used from this instruction on: r0 at the end of a
    /// function, all arguments at a call.
    pub fn live_before(&self, index: usize) -> Registers {
        self.live.get(index).copied().unwrap_or(Registers::WRITABLE)
    }

    /// Registers whose value is not used from this instruction on.
    pub fn dead_before(&self, index: usize) -> Registers {
        Registers::WRITABLE.without(self.live_before(index))
    }

    /// Registers that are set on every path to this instruction.
    pub fn set_before(&self, index: usize) -> Registers {
        self.set.get(index).copied().unwrap_or_default()
    }
}

fn effects(code: &Code, graph: &Graph) -> Vec<Effects> {
    let insns = code.insns.iter().enumerate();
    let effects = insns.map(|(index, &insn)| match graph.is_second_half(index) {
        true => Effects::default(),
        false => Effects::of(insn).unwrap_or_default(),
    });
    effects.collect()
}

/// Backward analysis, until nothing changes: registers used on any path.
fn live(graph: &Graph, effects: &[Effects]) -> Vec<Registers> {
    // Per block: registers used before they are written, and registers written.
    let summaries: Vec<(Registers, Registers)> = graph
        .blocks
        .iter()
        .map(|block| {
            let insns = effects[block.insns.clone()].iter().rev();
            insns.fold((Registers::NONE, Registers::NONE), |(uses, writes), it| {
                (uses.without(it.writes).or(it.uses), writes.or(it.writes))
            })
        })
        .collect();
    let mut at_start = vec![Registers::NONE; graph.blocks.len()];
    let at_end = |at_start: &[Registers], block: usize| {
        let targets = graph.outgoing(block).filter_map(|(_, edge)| edge.to);
        targets.fold(Registers::NONE, |all, target| all.or(at_start[target]))
    };
    let mut worklist = Worklist::new((0..graph.blocks.len()).collect());
    while let Some(block) = worklist.pop() {
        let (uses, writes) = summaries[block];
        let now = at_end(&at_start, block).without(writes).or(uses);
        if now != at_start[block] {
            at_start[block] = now;
            let sources = graph.incoming(block).iter().filter_map(|&edge| graph.edges[edge].from);
            sources.for_each(|source| worklist.push(source));
        }
    }
    let mut live = vec![Registers::NONE; effects.len()];
    for (number, block) in graph.blocks.iter().enumerate() {
        let mut now = at_end(&at_start, number);
        for index in block.insns.clone().rev() {
            now = now.without(effects[index].writes).or(effects[index].uses);
            live[index] = now;
        }
    }
    live
}

/// Forward analysis, until nothing changes: registers set on all paths.
fn set(graph: &Graph, effects: &[Effects]) -> Vec<Registers> {
    let step = |now: Registers, it: &Effects| now.without(it.writes).or(it.sets);
    // `None`: not reached so far.
    let mut at_start: Vec<Option<Registers>> = vec![None; graph.blocks.len()];
    for (number, function) in graph.functions.iter().enumerate() {
        // The entry gets a context. For other functions, callers may have left arguments unset.
        let is_entry = number == 0 && function.callers.is_empty() && !function.is_callback;
        let arguments = if is_entry { Registers::one(1) } else { Registers::NONE };
        at_start[function.blocks.start] =
            Some(arguments.or(Registers::one(Registers::FRAME_POINTER)));
    }
    let entries = graph.functions.iter().map(|function| function.blocks.start);
    let mut worklist = Worklist::new(entries.rev().collect());
    while let Some(block) = worklist.pop() {
        let Some(start) = at_start[block] else { continue };
        let end = effects[graph.blocks[block].insns.clone()].iter().fold(start, step);
        for target in graph.outgoing(block).filter_map(|(_, edge)| edge.to) {
            let now = at_start[target].map_or(end, |before| before.and(end));
            if at_start[target] != Some(now) {
                at_start[target] = Some(now);
                worklist.push(target);
            }
        }
    }
    let mut set = vec![Registers::NONE; effects.len()];
    for (block, start) in graph.blocks.iter().zip(at_start) {
        let mut now = start.unwrap_or_default();
        for index in block.insns.clone() {
            set[index] = now;
            now = step(now, &effects[index]);
        }
    }
    set
}

/// Blocks to process again, each queued at most once.
struct Worklist {
    waiting: Vec<usize>,
    is_waiting: Vec<bool>,
}

impl Worklist {
    fn new(waiting: Vec<usize>) -> Self {
        let len = waiting.iter().max().map_or(0, |&last| last + 1);
        let mut is_waiting = vec![false; len];
        waiting.iter().for_each(|&block| is_waiting[block] = true);
        Self { waiting, is_waiting }
    }

    fn pop(&mut self) -> Option<usize> {
        let block = self.waiting.pop()?;
        self.is_waiting[block] = false;
        Some(block)
    }

    fn push(&mut self, block: usize) {
        if self.is_waiting.len() <= block {
            self.is_waiting.resize(block + 1, false);
        }
        if !self.is_waiting[block] {
            self.is_waiting[block] = true;
            self.waiting.push(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use wingbeat_bpf_loader::code::{Insn, op};

    use super::*;
    use wingbeat_bpf_testing::assemble::{Assembler, assembled, load, store};

    /// Checks, before each instruction, the live registers and the registers set on every path.
    fn check(build: impl FnOnce(&mut Assembler), expected: &[(&str, &str)]) {
        let code = assembled(build);
        let graph = Graph::new(&code, &|_| false).expect("a graph");
        let liveness = Liveness::new(&code, &graph);
        let found: Vec<(String, String)> = (0..code.insns.len())
            .filter(|&index| !graph.is_second_half(index))
            .map(|index| {
                let live = liveness.live_before(index).and(Registers::WRITABLE);
                assert_eq!(liveness.dead_before(index), Registers::WRITABLE.without(live));
                let set = liveness.set_before(index).and(Registers::WRITABLE);
                (format!("{live:?}"), format!("{set:?}"))
            })
            .collect();
        let expected: Vec<(String, String)> =
            expected.iter().map(|&(live, set)| (live.into(), set.into())).collect();
        assert_eq!(found, expected, "{code:?}");
    }

    #[test]
    fn straight() {
        check(
            |it| it.copy(6, 1).mov(0, 1).add_register(0, 6).load_double(7, 0, 1, 1).exit(),
            &[
                ("r1", "r1"),
                ("r6", "r1 r6"),
                ("r0 r6", "r0 r1 r6"),
                ("r0", "r0 r1 r6"),
                ("r0", "r0 r1 r6 r7"),
            ],
        );
        check(
            |it| it.emit(load(op::W, 2, 1, 0)).emit(store(op::DW, 10, -8, 2)).mov(0, 0).exit(),
            &[("r1", "r1"), ("r2", "r1 r2"), ("-", "r1 r2"), ("r0", "r0 r1 r2")],
        );
    }

    #[test]
    fn calls() {
        // All arguments count as used, set or not. The result counts as set only once written.
        check(
            |it| it.copy(6, 1).mov(1, 3).call(5).copy(7, 0).copy(0, 6).exit(),
            &[
                ("r1 r2 r3 r4 r5", "r1"),
                ("r2 r3 r4 r5 r6", "r1 r6"),
                ("r1 r2 r3 r4 r5 r6", "r1 r6"),
                ("r0 r6", "r6"),
                ("r6", "r6 r7"),
                ("r0", "r0 r6 r7"),
            ],
        );
        // The arguments of a function are unknown, and r6 to r9 belong to the caller.
        check(
            |it| {
                let callee = it.label();
                it.call_function(callee).exit();
                it.bind(callee).function("callee").copy(6, 1).copy(0, 6).exit();
            },
            &[("r1 r2 r3 r4 r5", "r1"), ("r0", "-"), ("r1", "-"), ("r6", "r6"), ("r0", "r0 r6")],
        );
    }

    #[test]
    fn branches_and_loops() {
        // r2 is set on one path only, r3 on both; both are used afterwards.
        check(
            |it| {
                let (other, join) = (it.label(), it.label());
                it.branch(op::JEQ, 1, 0, other).mov(2, 1).mov(3, 1).goto(join);
                it.bind(other).mov(3, 2).bind(join).copy(0, 3).add_register(0, 2).exit();
            },
            &[
                ("r1 r2", "r1"),
                ("-", "r1"),
                ("r2", "r1 r2"),
                ("r2 r3", "r1 r2 r3"),
                ("r2", "r1"),
                ("r2 r3", "r1 r3"),
                ("r0 r2", "r0 r1 r3"),
                ("r0", "r0 r1 r3"),
            ],
        );
        // r6 is used only by the next iteration; r7 is set by the first iteration, but not before it.
        check(
            |it| {
                let top = it.label();
                it.mov(6, 9).bind(top).mov(7, 1).add(6, -1).branch(op::JNE, 6, 0, top);
                it.copy(0, 7).exit();
            },
            &[
                ("-", "r1"),
                ("r6", "r1 r6"),
                ("r6 r7", "r1 r6 r7"),
                ("r6 r7", "r1 r6 r7"),
                ("r7", "r1 r6 r7"),
                ("r0", "r0 r1 r6 r7"),
            ],
        );
    }

    #[test]
    fn packet_loads() {
        check(
            |it| {
                it.copy(6, 1).emit(Insn::new(op::LD | op::IND | op::B, 0, 7, 0, 3)).exit();
            },
            &[("r1 r7", "r1"), ("r6 r7", "r1 r6"), ("r0", "r0 r6")],
        );
    }

    #[test]
    fn code_that_is_not_reached() {
        check(
            |it| {
                it.mov(0, 0).exit();
                it.copy(0, 3).exit();
            },
            &[("-", "r1"), ("r0", "r0 r1"), ("r3", "-"), ("r0", "r0")],
        );
    }
}
