//! Functions, basic blocks and the edges between them.
//!
//! A block ends where control may continue elsewhere than at the next instruction. This includes
//! leaving for good: a successful tail call, a throwing kfunc, a packet load out of bounds. Those
//! have an [`EdgeKind::Escape`], so that the flow into a function equals the flow out of it.

mod build;

use std::ops::Range;

use wingbeat_bpf_loader::code::Code;

pub(super) use build::jump_target;

/// Control flow graph of a program. Functions, blocks and edges are in code order; those of one
/// function are contiguous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// Functions listed by the code, and other functions that are called or passed as a callback.
    pub functions: Vec<Function>,
    pub blocks: Vec<Block>,
    pub edges: Vec<Edge>,
    /// Edges by target block; those of a block start at `incoming_starts[block]`.
    incoming: Vec<usize>,
    incoming_starts: Vec<usize>,
    second_halves: Vec<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    pub insns: Range<usize>,
    pub blocks: Range<usize>,
    /// Indices of its edges. The first is the entry edge.
    pub edges: Range<usize>,
    /// The blocks that call it, once per call.
    pub callers: Vec<usize>,
    /// Whether its address is taken, so that it may be entered other than by a call.
    pub is_callback: bool,
}

/// A basic block: runs from its first instruction to its last, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub function: usize,
    pub insns: Range<usize>,
    /// Index of its last instruction; of the first half for a `ldimm64`.
    pub last: usize,
    /// Indices of its outgoing edges: one or two.
    pub outgoing: Range<usize>,
}

/// An edge between blocks, or into or out of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Source block; `None` for the function entry.
    pub from: Option<usize>,
    /// Target block; `None` for function exits.
    pub to: Option<usize>,
    pub kind: EdgeKind,
}

/// Kind of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EdgeKind {
    /// The start of the function.
    Enter,
    /// The next instruction.
    FallThrough,
    Taken,
    Leave,
    /// A call that does not return, or a packet load out of bounds.
    Escape,
}

/// A program that the verifier would reject. Indices are those of instructions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    #[error("the program has no instructions; check that the object has code in the section")]
    Empty,
    #[error(
        "instruction {index} is unknown (opcode {opcode:#04x}); it may be newer than this version of \
         wingbeat, or the bytecode is damaged: check with llvm-objdump -d"
    )]
    UnknownInsn { index: usize, opcode: u8 },
    #[error(
        "instruction {index} calls or jumps through a register, so its target is unknown; \
         compilers do that for function pointers and for switch tables: replace them by if or \
         match, or build with -fno-jump-tables"
    )]
    Indirect { index: usize },
    #[error(
        "the 64-bit load at instruction {index} lacks its second half; the bytecode is damaged"
    )]
    HalfLoad { index: usize },
    #[error(
        "the jump at instruction {index} leads to {target}, outside of its function \
         ({first}..{end}); the bytecode is damaged or was not linked"
    )]
    JumpOutside { index: usize, target: i64, first: usize, end: usize },
    #[error(
        "instruction {target} is the second half of a 64-bit load, but instruction {index} refers to it"
    )]
    IntoLoad { index: usize, target: usize },
    #[error(
        "instruction {index} refers to a function at {target}, but the program has {insns} \
         instructions; it was not linked"
    )]
    CallOutside { index: usize, target: i64, insns: usize },
    #[error(
        "the function that begins at instruction {insn_index} is out of order or not in the program"
    )]
    Functions { insn_index: u32 },
    #[error(
        "the function that ends with instruction {index} continues into the next one; its last \
         instruction has to be exit or a jump"
    )]
    FallsOut { index: usize },
}

impl Graph {
    /// Builds the graph of a program. `may_throw` returns whether the call at an index may
    /// terminate the program, as `bpf_throw` does; names of kfuncs are unknown here. Callers of a
    /// function with such a call may throw as well, without a query. Rejects only what the verifier
    /// would reject: see [`GraphError`].
    pub fn new(code: &Code, may_throw: &dyn Fn(usize) -> bool) -> Result<Self, GraphError> {
        build::graph(code, may_throw)
    }

    /// Indices of the edges into a block.
    pub fn incoming(&self, block: usize) -> &[usize] {
        match self.incoming_starts.get(block..block + 2) {
            Some(&[start, end]) => self.incoming.get(start..end).unwrap_or_default(),
            _ => &[],
        }
    }

    /// The edges out of a block, with their indices.
    pub fn outgoing(&self, block: usize) -> impl Iterator<Item = (usize, Edge)> {
        let range = self.blocks.get(block).map_or(0..0, |block| block.outgoing.clone());
        range.filter_map(|index| Some((index, *self.edges.get(index)?)))
    }

    /// Whether this instruction is the second half of a `ldimm64`.
    pub fn is_second_half(&self, index: usize) -> bool {
        self.second_halves.get(index).is_some_and(|&is| is)
    }

    /// Number of instructions of the program.
    pub fn insns(&self) -> usize {
        self.second_halves.len()
    }

    fn new_with_incoming(
        functions: Vec<Function>,
        blocks: Vec<Block>,
        edges: Vec<Edge>,
        second_halves: Vec<bool>,
    ) -> Self {
        let mut incoming_starts = vec![0; blocks.len() + 1];
        let arrivals = || edges.iter().enumerate().filter_map(|(edge, it)| Some((edge, it.to?)));
        for (_, block) in arrivals() {
            incoming_starts[block + 1] += 1;
        }
        for block in 0..blocks.len() {
            incoming_starts[block + 1] += incoming_starts[block];
        }
        let mut free = incoming_starts.clone();
        let mut incoming = vec![0; incoming_starts.last().copied().unwrap_or_default()];
        for (edge, block) in arrivals() {
            incoming[free[block]] = edge;
            free[block] += 1;
        }
        Self { functions, blocks, edges, incoming, incoming_starts, second_halves }
    }
}

#[cfg(test)]
mod tests;
