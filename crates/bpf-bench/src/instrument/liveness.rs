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
mod tests;
