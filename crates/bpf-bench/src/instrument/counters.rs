//! Counts executions of each basic block with counters inserted into the bytecode.
//!
//! The counters are 64-bit numbers in the single value of an array map, incremented by load, add
//! and store. That is exact as long as only one CPU runs the program. It needs no atomic operation,
//! which would take several times as long as a short block. Counters may run with a spin lock held
//! and in RCU sections.
//!
//! Counts that follow from others are computed ([`flow`](super::flow)). A counter in a loop stays
//! in a register while the loop runs, if one is free (`register_allocation`).

mod emit;
#[cfg(test)]
mod properties;
mod register_allocation;
mod sites;

use std::collections::BTreeSet;

use wingbeat_bpf_loader::code::Code;

use self::sites::{Counter, Sites};
use super::{
    frame::STACK_BYTES_MAX,
    graph::{Edge, Graph, GraphError},
    liveness::Liveness,
    rewrite::{Edits, RewriteError, Rewritten, rewrite},
};
use register_allocation::Allocation;

/// Size of a counter in bytes.
pub const SLOT_BYTES: u32 = 8;
/// Maximum value size for direct references (`BPF_MAX_VAR_OFF`, include/linux/bpf_verifier.h, Linux 6.18).
pub const VALUE_BYTES_MAX: u32 = 1 << 29;

/// Facts that [`instrument`] cannot derive from the bytecode.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Reference to the counter map in the code: its descriptor, or the number that a loader replaces by one.
    pub map_fd: i32,
    /// Indices of calls that may terminate the program: of `bpf_throw`, and of kfuncs that call it
    /// (the object's BTF has the names of kfuncs). Tail calls, and calls of functions that may
    /// throw, are detected.
    pub may_throw: BTreeSet<usize>,
    /// Stack bytes of each function, in code order, from the verifier log (`stack depth 16+24`).
    /// Missing values are estimated from the bytecode; the larger one is used.
    pub stack_depths_bytes: Vec<u32>,
}

/// A program with counters.
#[derive(Debug, Clone, PartialEq)]
pub struct Instrumented {
    /// The program. Needs an array map with one value of [`Plan::value_size_bytes`].
    pub program: Rewritten,
    pub plan: Plan,
}

/// Why a program cannot be instrumented. Its time can still be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotInstrumentable {
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(
        "no register is free for a counter at instruction {insn_index} of function {function}, and \
         its stack frame of {depth_bytes} bytes has no room to save two (limit 512); make the \
         function's arrays smaller by 16 bytes, or split it"
    )]
    StackFull { function: String, insn_index: usize, depth_bytes: u32 },
    #[error(
        "the program needs {slots} counters of 8 bytes, but a program can reach only {VALUE_BYTES_MAX} \
         bytes of a map's value; split it by tail calls"
    )]
    TooManySlots { slots: usize },
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
}

/// Inserts counters into a program.
///
/// The result behaves and returns the same, and leaves the same memory, except for the counters and
/// for stack below that used by each function. Fails with [`NotInstrumentable`].
pub fn instrument(code: &Code, options: &Options) -> Result<Instrumented, NotInstrumentable> {
    let graph = Graph::new(code, &|index| options.may_throw.contains(&index))?;
    let liveness = Liveness::new(code, &graph);
    let mut edits = Edits::default();
    let mut sites_of_functions = Vec::with_capacity(graph.functions.len());
    let mut slots = 0;
    for number in 0..graph.functions.len() {
        let subject = Subject { code, graph: &graph, liveness: &liveness, options, number };
        let sites = Sites::new(&subject, &mut slots);
        if slots > (VALUE_BYTES_MAX / SLOT_BYTES) as usize {
            return Err(NotInstrumentable::TooManySlots { slots });
        }
        put(&subject, &sites, &mut edits)?;
        sites_of_functions.push(sites);
    }
    let program = rewrite(code, &graph, &edits)?;
    Ok(Instrumented { program, plan: Plan::new(graph, sites_of_functions, slots) })
}

/// One function, with facts about the surrounding program.
#[derive(Clone, Copy)]
struct Subject<'a> {
    code: &'a Code,
    graph: &'a Graph,
    liveness: &'a Liveness,
    options: &'a Options,
    /// Its index in the graph.
    number: usize,
}

impl Subject<'_> {
    /// Stack bytes that it uses, a multiple of 8.
    fn depth_bytes(&self) -> u32 {
        let function = &self.graph.functions[self.number];
        let seen = super::frame::depth_bytes(&self.code.insns, self.graph, function);
        let reported = self.options.stack_depths_bytes.get(self.number).copied().unwrap_or(0);
        seen.max(reported).min(STACK_BYTES_MAX).next_multiple_of(8)
    }

    fn name(&self) -> String {
        let start = self.graph.functions[self.number].insns.start;
        let named = self.code.functions.iter().find(|it| it.insn_index as usize == start);
        named.map_or_else(|| format!("at {start}"), |function| function.name.clone())
    }
}

/// Uses registers for counters if possible, else memory: held registers are not available to other counters.
fn put(subject: &Subject<'_>, sites: &Sites, edits: &mut Edits) -> Result<(), NotInstrumentable> {
    let counters: &[Counter] = &sites.counters;
    let allocation = Allocation::new(subject, sites);
    let insertions = emit::insertions(subject, counters, &allocation)
        .or_else(|_| emit::insertions(subject, counters, &Allocation::in_memory(subject, sites)))?;
    for (location, insns) in insertions {
        match location {
            emit::Location::Before(index) => edits.before(index, insns),
            emit::Location::Edge(edge) => edits.on_edge(subject.graph, edge, insns),
        }
    }
    Ok(())
}

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
    fn new(graph: Graph, functions: Vec<Sites>, slots: usize) -> Self {
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

#[cfg(test)]
mod tests;
