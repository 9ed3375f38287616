//! Functions, basic blocks and the edges between them.
//!
//! A block ends where control may continue elsewhere than at the next instruction. This includes
//! leaving for good: a successful tail call, a throwing kfunc, a packet load out of bounds. Those
//! have an [`EdgeKind::Escape`], so that the flow into a function equals the flow out of it.

use std::{collections::BTreeSet, ops::Range};

use wingbeat_bpf_loader::code::{Code, Insn, op};

use super::registers::Effects;

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
        graph(code, may_throw)
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

fn graph(code: &Code, may_throw: &dyn Fn(usize) -> bool) -> Result<Graph, GraphError> {
    let insns = &code.insns;
    if insns.is_empty() {
        return Err(GraphError::Empty);
    }
    let second_halves = second_halves(insns)?;
    let mut functions = functions(code, &second_halves)?;
    let references = References::new(insns, &functions, &second_halves);
    for &(_, callee) in &references.callbacks {
        functions[callee].is_callback = true;
    }
    let escapes = escapes(insns, &functions, &references, &second_halves, may_throw);
    let leaders = leaders(insns, &functions, &second_halves, &escapes)?;
    let mut blocks = blocks(&mut functions, &leaders, &second_halves);
    let edges = edges(insns, &mut functions, &mut blocks, &leaders, &escapes)?;
    let mut caller = 0;
    for &(index, callee) in &references.calls {
        while blocks[caller].insns.end <= index {
            caller += 1;
        }
        functions[callee].callers.push(caller);
    }
    Ok(Graph::new_with_incoming(functions, blocks, edges, second_halves))
}

/// Marks the second halves of `ldimm64`; rejects unknown instructions.
fn second_halves(insns: &[Insn]) -> Result<Vec<bool>, GraphError> {
    let mut second_halves = vec![false; insns.len()];
    for (index, insn) in insns.iter().enumerate() {
        let opcode = insn.opcode;
        if second_halves[index] {
            continue;
        }
        // `gotox` jumps through the destination register (Linux 6.19).
        if opcode == op::CALLX || opcode == op::JA | op::X {
            return Err(GraphError::Indirect { index });
        }
        if Effects::of(*insn).is_none() {
            return Err(GraphError::UnknownInsn { index, opcode });
        }
        if insn.is_ldimm64() {
            match insns.get(index + 1) {
                Some(second) if second.opcode == 0 => second_halves[index + 1] = true,
                _ => return Err(GraphError::HalfLoad { index }),
            }
        }
    }
    Ok(second_halves)
}

/// Whether it refers to a function of the program: a call, or the load of a callback's address.
fn refers_to_function(insn: Insn) -> bool {
    insn.is_local_call() || (insn.is_ldimm64() && insn.src() == op::PSEUDO_FUNC)
}

/// Functions, still without blocks and edges.
fn functions(code: &Code, second_halves: &[bool]) -> Result<Vec<Function>, GraphError> {
    let len = second_halves.len();
    let mut starts = BTreeSet::from([0]);
    let mut before = None;
    for function in &code.functions {
        let insn_index = function.insn_index;
        let start = insn_index as usize;
        match second_halves.get(start) {
            Some(false) if before < Some(insn_index) => _ = starts.insert(start),
            Some(true) => return Err(GraphError::IntoLoad { index: start, target: start }),
            _ => return Err(GraphError::Functions { insn_index }),
        }
        before = Some(insn_index);
    }
    for (index, &insn) in whole(&code.insns, second_halves) {
        if !refers_to_function(insn) {
            continue;
        }
        let target = index as i64 + 1 + i64::from(insn.immediate);
        let start = usize::try_from(target).ok().filter(|&start| start < len);
        let start = start.ok_or(GraphError::CallOutside { index, target, insns: len })?;
        if second_halves[start] {
            return Err(GraphError::IntoLoad { index, target: start });
        }
        starts.insert(start);
    }
    let ends = starts.iter().copied().skip(1).chain([len]);
    Ok(starts.iter().zip(ends).map(|(&start, end)| empty_function(start, end)).collect())
}

fn empty_function(start: usize, end: usize) -> Function {
    Function { insns: start..end, blocks: 0..0, edges: 0..0, callers: vec![], is_callback: false }
}

/// Instructions with their indices, without second halves.
fn whole<'a>(
    insns: &'a [Insn],
    second_halves: &'a [bool],
) -> impl Iterator<Item = (usize, &'a Insn)> {
    insns.iter().enumerate().filter(|&(index, _)| !second_halves[index])
}

/// References from instructions to functions.
struct References {
    calls: Vec<(usize, usize)>,
    callbacks: Vec<(usize, usize)>,
}

impl References {
    fn new(insns: &[Insn], functions: &[Function], second_halves: &[bool]) -> Self {
        let mut references = Self { calls: Vec::new(), callbacks: Vec::new() };
        for (index, &insn) in whole(insns, second_halves) {
            if !refers_to_function(insn) {
                continue;
            }
            let target = index as i64 + 1 + i64::from(insn.immediate);
            let callee = functions.binary_search_by(|it| (it.insns.start as i64).cmp(&target));
            // Always found: `functions` collected them from the same instructions.
            let Ok(callee) = callee else { continue };
            match insn.is_local_call() {
                true => references.calls.push((index, callee)),
                false => references.callbacks.push((index, callee)),
            }
        }
        references
    }
}

/// Instructions other than `exit` that may leave their function for good.
fn escapes(
    insns: &[Insn],
    functions: &[Function],
    references: &References,
    second_halves: &[bool],
    may_throw: &dyn Fn(usize) -> bool,
) -> Vec<bool> {
    let is_foreign_call = |insn: Insn| insn.opcode == op::CALL && !insn.is_local_call();
    let calls = || whole(insns, second_halves).filter(|(_, insn)| insn.opcode == op::CALL);
    let mut throws = vec![false; insns.len()];
    for (index, _) in calls() {
        throws[index] = may_throw(index);
    }
    let throwing = throw_through_callers(functions, references, &mut throws);
    // A throwing callback may terminate the helper or kfunc that it is passed to, and it may have come from anywhere.
    if references.callbacks.iter().any(|(_, callee)| throwing.contains(callee)) {
        for (index, _) in calls().filter(|(_, insn)| is_foreign_call(**insn)) {
            throws[index] = true;
        }
        throw_through_callers(functions, references, &mut throws);
    }
    for (index, insn) in whole(insns, second_halves) {
        // Out of bounds it ends the function with result 0.
        let is_packet_load =
            insn.class() == op::LD && matches!(insn.opcode & op::MODE, op::ABS | op::IND);
        throws[index] |= insn.is_tail_call() || is_packet_load;
    }
    throws
}

/// Marks the calls of functions that may throw, and returns those functions.
fn throw_through_callers(
    functions: &[Function],
    references: &References,
    throws: &mut [bool],
) -> BTreeSet<usize> {
    let mut calls_of = vec![Vec::new(); functions.len()];
    for &(index, callee) in &references.calls {
        calls_of[callee].push(index);
    }
    let function_of = |index| functions.partition_point(|it| it.insns.end <= index);
    let throwing = |function: &Function| throws[function.insns.clone()].contains(&true);
    let mut open: Vec<usize> =
        (0..functions.len()).filter(|&function| throwing(&functions[function])).collect();
    let mut seen: BTreeSet<usize> = open.iter().copied().collect();
    while let Some(function) = open.pop() {
        for &index in &calls_of[function] {
            throws[index] = true;
            let caller = function_of(index);
            if seen.insert(caller) {
                open.push(caller);
            }
        }
    }
    seen
}

/// Target of a jump; `None` for other instructions.
pub(in crate::instrument) fn jump_target(index: usize, insn: Insn) -> Option<i64> {
    let distance = match insn.opcode {
        op::JA32 => insn.immediate,
        op::CALL | op::EXIT => return None,
        _ if matches!(insn.class(), op::JMP | op::JMP32) => i32::from(insn.offset),
        _ => return None,
    };
    Some(index as i64 + 1 + i64::from(distance))
}

fn is_goto(insn: Insn) -> bool {
    matches!(insn.opcode, op::JA | op::JA32)
}

/// Marks the first instructions of blocks.
fn leaders(
    insns: &[Insn],
    functions: &[Function],
    second_halves: &[bool],
    escapes: &[bool],
) -> Result<Vec<bool>, GraphError> {
    let mut leaders = vec![false; insns.len()];
    for function in functions {
        let range = function.insns.clone();
        leaders[range.start] = true;
        for index in range.clone().filter(|&index| !second_halves[index]) {
            let insn = insns[index];
            let target = jump_target(index, insn);
            if let Some(target) = target {
                let (first, end) = (range.start, range.end);
                let outside = GraphError::JumpOutside { index, target, first, end };
                let place = usize::try_from(target).ok().filter(|place| range.contains(place));
                let place = place.ok_or(outside)?;
                if second_halves[place] {
                    return Err(GraphError::IntoLoad { index, target: place });
                }
                leaders[place] = true;
            }
            let ends = target.is_some() || insn.opcode == op::EXIT || escapes[index];
            if ends && index + 1 < range.end {
                leaders[index + 1] = true;
            }
        }
    }
    Ok(leaders)
}

fn blocks(functions: &mut [Function], leaders: &[bool], second_halves: &[bool]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for (number, function) in functions.iter_mut().enumerate() {
        let first_block = blocks.len();
        for index in function.insns.clone() {
            let last = if second_halves[index] { index - 1 } else { index };
            match blocks.last_mut() {
                Some(block) if !leaders[index] => {
                    block.insns.end = index + 1;
                    block.last = last;
                }
                _ => blocks.push(Block {
                    function: number,
                    insns: index..index + 1,
                    last,
                    outgoing: 0..0,
                }),
            }
        }
        function.blocks = first_block..blocks.len();
    }
    blocks
}

fn edges(
    insns: &[Insn],
    functions: &mut [Function],
    blocks: &mut [Block],
    leaders: &[bool],
    escapes: &[bool],
) -> Result<Vec<Edge>, GraphError> {
    // Blocks are numbered like leaders.
    let mut block_at = vec![0; insns.len()];
    let mut number = 0;
    for (index, &leads) in leaders.iter().enumerate() {
        block_at[index] = number;
        number += usize::from(leads);
    }
    let mut edges = Vec::new();
    for function in functions {
        let first_edge = edges.len();
        edges.push(Edge { from: None, to: Some(function.blocks.start), kind: EdgeKind::Enter });
        for number in function.blocks.clone() {
            let block = &mut blocks[number];
            let (last, end) = (block.last, block.insns.end);
            let insn = insns[last];
            let first = edges.len();
            let mut add = |to, kind| edges.push(Edge { from: Some(number), to, kind });
            if insn.opcode == op::EXIT {
                add(None, EdgeKind::Leave);
            } else if escapes[last] {
                add(None, EdgeKind::Escape);
            }
            let goes_on = insn.opcode != op::EXIT && !is_goto(insn);
            if goes_on && end < function.insns.end {
                add(Some(number + 1), EdgeKind::FallThrough);
            } else if goes_on && !(escapes[last] && insn.opcode == op::CALL) {
                return Err(GraphError::FallsOut { index: last });
            }
            if let Some(target) = jump_target(last, insn) {
                add(block_at.get(target as usize).copied(), EdgeKind::Taken);
            }
            block.outgoing = first..edges.len();
        }
        function.edges = first_edge..edges.len();
    }
    Ok(edges)
}

#[cfg(test)]
mod tests;
