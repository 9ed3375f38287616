//! Interprets counter values.

use super::{SLOT_BYTES, sites::Sites};
use crate::instrument::graph::{Edge, Graph};

/// Derives execution counts from counter values.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    graph: Graph,
    functions: Vec<Sites>,
    /// Functions, callers before callees whose calls they determine.
    order: Vec<usize>,
    slots: usize,
}

impl Plan {
    pub(super) fn new(graph: Graph, functions: Vec<Sites>, slots: usize) -> Self {
        let order = callers_first(&graph, &functions);
        Self { graph, functions, order, slots }
    }

    /// Number of counters.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Size of the map's value: at least one counter, as map values cannot be empty.
    pub fn value_size_bytes(&self) -> u32 {
        u32::try_from(self.slots.max(1)).unwrap_or(u32::MAX).saturating_mul(SLOT_BYTES)
    }

    /// Decodes the counters in a map's value.
    pub fn counters(&self, value: &[u8]) -> Vec<u64> {
        let (words, _) = value.as_chunks();
        words.iter().take(self.slots).map(|&word| u64::from_ne_bytes(word)).collect()
    }

    /// The graph of the original program.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Executions of each basic block. Missing counters count as 0.
    pub fn block_counts(&self, counters: &[u64]) -> Vec<u64> {
        self.solve(counters).0
    }

    /// How often each edge of the [`graph`](Self::graph) was taken.
    pub fn edge_counts(&self, counters: &[u64]) -> Vec<(Edge, u64)> {
        self.graph.edges.iter().copied().zip(self.solve(counters).1).collect()
    }

    /// Executions of each instruction of the original program. A `ldimm64` counts once, at its
    /// first half; the second half has 0.
    pub fn insn_counts(&self, counters: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; self.graph.insns()];
        for (block, count) in self.graph.blocks.iter().zip(self.block_counts(counters)) {
            for index in block.insns.clone().filter(|&index| !self.graph.is_second_half(index)) {
                counts[index] = count;
            }
        }
        counts
    }

    /// Executions of each block and of each edge.
    fn solve(&self, counters: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let mut blocks = vec![0; self.graph.blocks.len()];
        let mut edges = vec![0; self.graph.edges.len()];
        for &number in &self.order {
            let (function, plan) = (&self.graph.functions[number], &self.functions[number]);
            let calls = function
                .callers
                .iter()
                .fold(0, |sum: u64, &caller| sum.wrapping_add(blocks[caller]));
            let flows = plan.net.solve(|link| match plan.slots[link] {
                Some(slot) => counters.get(slot).copied().unwrap_or(0),
                None => calls,
            });
            let (of_edges, of_blocks) = flows.split_at(function.edges.len());
            edges[function.edges.clone()].copy_from_slice(of_edges);
            blocks[function.blocks.clone()].copy_from_slice(of_blocks);
        }
        (blocks, edges)
    }
}

/// Orders functions so that callers come before callees. For recursive functions, which the
/// verifier rejects, any order.
fn callers_first(graph: &Graph, functions: &[Sites]) -> Vec<usize> {
    let needed = |number: usize| match functions[number].calls_known {
        true => graph.functions[number].callers.len(),
        false => 0,
    };
    let mut calls_of = vec![Vec::new(); functions.len()];
    for (number, function) in graph.functions.iter().enumerate() {
        for &caller in &function.callers {
            calls_of[graph.blocks[caller].function].push(number);
        }
    }
    let mut missing: Vec<usize> = (0..functions.len()).map(needed).collect();
    let mut order: Vec<usize> = (0..functions.len()).filter(|&it| missing[it] == 0).collect();
    let mut done = 0;
    while let Some(&number) = order.get(done) {
        done += 1;
        for &callee in calls_of[number].iter().filter(|&&callee| functions[callee].calls_known) {
            missing[callee] -= 1;
            if missing[callee] == 0 {
                order.push(callee);
            }
        }
    }
    order.extend((0..functions.len()).filter(|&number| missing[number] > 0));
    order
}
