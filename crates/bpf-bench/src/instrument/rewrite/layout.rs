//! Computes the layout of the new program and the length of each jump.

use std::collections::BTreeMap;

use wingbeat_bpf_loader::code::{Code, Insn, op};

use super::{Edits, RewriteError, inverse};
use crate::instrument::graph::{EdgeKind, Graph, jump_target};

/// Maximum distance of a 16-bit jump, in instructions. The rest is reserved for the verifier, which
/// inserts instructions itself and rejects programs whose jumps no longer reach their targets.
pub(super) const REACH: i64 = i16::MAX as i64 - 4096;

/// Maximum distance of a detour from its jump, in original instructions. It is placed at the end of
/// the function if that is closer, where it disturbs no fall-through.
const DETOUR_DISTANCE: usize = 4096;

/// Rounds that lengthen only jumps that need it. Later rounds also lengthen jumps of half that
/// distance, so that chains of changes do not take one round each.
const EXACT_ROUNDS: usize = 8;

/// Replacement of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// One instruction, unchanged.
    Plain,
    /// The inverted jump over a `gotol`.
    Inverted,
    /// A jump over a `goto` to a `gotol`, for conditions without an inverse.
    Doubled,
}

impl Length {
    fn insns(self) -> usize {
        match self {
            Self::Plain => 1,
            Self::Inverted => 2,
            Self::Doubled => 3,
        }
    }
}

/// Positions in the new program, by old index.
#[derive(Debug)]
pub(super) struct Layout {
    /// Start of the insertions above an instruction.
    pub(super) starts: Vec<usize>,
    /// Target of jumps to an instruction.
    labels: Vec<usize>,
    pub(super) places: Vec<usize>,
    pub(super) lengths: Vec<Length>,
    /// Detour code of a jump, by jump.
    pub(super) detours: BTreeMap<usize, usize>,
    /// Jumps whose detours are placed after an instruction, by that instruction, which never falls through.
    pub(super) islands: BTreeMap<usize, Vec<usize>>,
    pub(super) len: usize,
}

impl Layout {
    pub(super) fn new(code: &Code, graph: &Graph, edits: &Edits) -> Self {
        let insns = code.insns.len();
        let mut layout = Self {
            starts: vec![0; insns],
            labels: vec![0; insns],
            places: vec![0; insns],
            lengths: vec![Length::Plain; insns],
            detours: edits.on_jump.keys().map(|&jump| (jump, 0)).collect(),
            islands: islands(graph, edits),
            len: 0,
        };
        let lasts = graph.blocks.iter().map(|block| block.last);
        let conditional: Vec<usize> =
            lasts.filter(|&last| is_conditional(code.insns[last])).collect();
        let mut round = 0;
        loop {
            layout.place(graph, edits);
            let reach = if round < EXACT_ROUNDS { REACH } else { REACH / 2 };
            if !layout.lengthen(code, &conditional, reach) {
                return layout;
            }
            round += 1;
        }
    }

    /// Start of the insertions above an instruction, of those before it, and of the instruction itself.
    pub(super) fn around(&self, index: usize) -> [usize; 3] {
        [&self.starts, &self.labels, &self.places].map(|it| it.get(index).copied().unwrap_or(0))
    }

    /// Assigns all positions.
    fn place(&mut self, graph: &Graph, edits: &Edits) {
        let mut next = 0;
        let len = |insns: Option<&Vec<Insn>>| insns.map_or(0, Vec::len);
        let mut above = edits.above.iter().peekable();
        let mut before = edits.before.iter().peekable();
        let mut islands = self.islands.iter().peekable();
        for index in 0..graph.insns() {
            self.starts[index] = next;
            next += len(above.next_if(|it| *it.0 == index).map(|it| it.1));
            self.labels[index] = next;
            next += len(before.next_if(|it| *it.0 == index).map(|it| it.1));
            self.places[index] = next;
            next += self.lengths[index].insns();
            for &jump in islands.next_if(|it| *it.0 == index).into_iter().flat_map(|it| it.1) {
                self.detours.insert(jump, next);
                next += len(edits.on_jump.get(&jump)) + 1;
            }
        }
        self.len = next;
    }

    /// Lengthens jumps that do not reach their target. Returns whether any changed.
    fn lengthen(&mut self, code: &Code, conditional: &[usize], reach: i64) -> bool {
        let mut changed = false;
        for &index in conditional {
            if self.lengths[index] != Length::Plain {
                continue;
            }
            let detour = self.detours.get(&index).copied();
            let Some(target) = detour.or_else(|| self.target(code, index)) else { continue };
            let distance = target as i64 - self.places[index] as i64 - 1;
            if distance.abs() <= reach {
                continue;
            }
            let insn = code.insns[index];
            let operation = inverse(insn.opcode & op::OPERATION);
            let is_invertible = insn.opcode != op::JCOND && operation.is_some();
            self.lengths[index] = if is_invertible { Length::Inverted } else { Length::Doubled };
            changed = true;
        }
        changed
    }

    /// New target of the jump at an old index, without its detour.
    pub(super) fn target(&self, code: &Code, index: usize) -> Option<usize> {
        let target = jump_target(index, *code.insns.get(index)?)?;
        self.labels.get(usize::try_from(target).ok()?).copied()
    }

    /// An instruction other than a jump, with its function reference updated.
    pub(super) fn mended(&self, insn: Insn, index: usize) -> Result<Insn, RewriteError> {
        let is_callback = insn.is_ldimm64() && insn.src() == op::PSEUDO_FUNC;
        if !is_callback && !insn.is_local_call() {
            return Ok(insn);
        }
        let target = index as i64 + 1 + i64::from(insn.immediate);
        let target = usize::try_from(target).ok().and_then(|target| self.starts.get(target));
        let target = *target.ok_or(RewriteError::TooLong)?;
        let distance = target as i64 - self.places[index] as i64 - 1;
        let immediate = i32::try_from(distance).map_err(|_| RewriteError::TooLong)?;
        Ok(Insn { immediate, ..insn })
    }
}

/// Locations of all detours.
fn islands(graph: &Graph, edits: &Edits) -> BTreeMap<usize, Vec<usize>> {
    let mut islands: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut jumps = edits.on_jump.keys().copied().peekable();
    for function in &graph.functions {
        let end = function.insns.end - 1;
        let ends = function.blocks.clone().filter(|&block| {
            graph.outgoing(block).all(|(_, edge)| edge.kind != EdgeKind::FallThrough)
        });
        let mut ends = ends.map(|block| graph.blocks[block].insns.end - 1).peekable();
        while let Some(jump) = jumps.next_if(|&jump| jump <= end) {
            let far = (jump + DETOUR_DISTANCE).min(end);
            while ends.next_if(|&it| it < far).is_some() {}
            islands.entry(ends.peek().copied().unwrap_or(end)).or_default().push(jump);
        }
    }
    islands
}

fn is_conditional(insn: Insn) -> bool {
    !matches!(insn.opcode, op::JA | op::JA32) && jump_target(0, insn).is_some()
}
