//! Inserts instructions into a program and fixes jumps, calls, callbacks, function and line information.
//!
//! A jump whose offset exceeds 16 bits, or nearly so, becomes a `gotol`, or a conditional jump
//! around one (Linux 6.6). That lengthens the program, perhaps too much for another jump, so
//! lengths are iterated to a fixed point.

use std::collections::BTreeMap;

use wingbeat_bpf_loader::code::{Code, FunctionInfo, Insn, LineInfo, op};

use super::graph::{Edge, EdgeKind, Graph, jump_target};

/// Insertions by location. Inserted code must be straight-line: no jumps, no calls of program functions, no `exit`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edits {
    before: BTreeMap<usize, Vec<Insn>>,
    above: BTreeMap<usize, Vec<Insn>>,
    on_jump: BTreeMap<usize, Vec<Insn>>,
}

impl Edits {
    /// Inserts before an instruction, for all paths that reach it.
    pub fn before(&mut self, index: usize, insns: impl IntoIterator<Item = Insn>) {
        self.before.entry(index).or_default().extend(insns);
    }

    /// Inserts before an instruction, only for fall-through and for calls of the function that
    /// starts with it; jumps to the instruction skip the insertion.
    pub fn above(&mut self, index: usize, insns: impl IntoIterator<Item = Insn>) {
        self.above.entry(index).or_default().extend(insns);
    }

    /// Inserts on a taken jump.
    pub fn on_jump(&mut self, index: usize, insns: impl IntoIterator<Item = Insn>) {
        self.on_jump.entry(index).or_default().extend(insns);
    }

    /// Inserts on an edge. Edges that leave the function cannot take insertions and are ignored.
    pub fn on_edge(&mut self, graph: &Graph, edge: usize, insns: impl IntoIterator<Item = Insn>) {
        let Some(&Edge { from, to: Some(to), kind }) = graph.edges.get(edge) else { return };
        match (kind, from) {
            (EdgeKind::Taken, Some(from)) => self.on_jump(graph.blocks[from].last, insns),
            _ => self.above(graph.blocks[to].insns.start, insns),
        }
    }

    fn all(&self) -> impl Iterator<Item = (usize, &Insn)> {
        let maps = [&self.before, &self.above, &self.on_jump].into_iter().flatten();
        maps.flat_map(|(&index, insns)| insns.iter().map(move |insn| (index, insn)))
    }
}

/// A rewritten program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    pub code: Code,
    /// New index of each original instruction. For jumps that were inverted or lengthened, the
    /// first instruction of the replacement.
    pub places: Vec<usize>,
    /// Original index of each instruction; `None` for inserted ones.
    pub origins: Vec<Option<usize>>,
}

/// Edits that do not match the program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    #[error("the control-flow graph is that of another program; make one of this program")]
    OtherGraph,
    #[error("nothing can be inserted at instruction {index}: the program has {insns}")]
    NoSuchInsn { index: usize, insns: usize },
    #[error("nothing can be inserted at instruction {index}, the second half of a 64-bit load")]
    InsideLoad { index: usize },
    #[error("instruction {index} does not jump, so nothing can be inserted on the way")]
    NoJump { index: usize },
    #[error("what is to be inserted at instruction {index} does not run straight through")]
    NotStraight { index: usize },
    #[error(
        "line information begins at instruction {insn_index}, but the program has {insns}; \
         drop the line information"
    )]
    NoSuchLine { insn_index: u32, insns: usize },
    #[error("the program would get too long for its jumps; split it by tail calls")]
    TooLong,
}

/// Applies the edits. The graph must belong to the code.
///
/// Source lines and functions start at the insertions before their first instruction. Insertions on
/// a taken jump go to the end of the function, or closer if that is too far, and belong to the line
/// of the jump. Fails if an edit does not match the program; see [`RewriteError`].
pub fn rewrite(code: &Code, graph: &Graph, edits: &Edits) -> Result<Rewritten, RewriteError> {
    check(code, graph, edits)?;
    let layout = Layout::new(code, graph, edits);
    let mut writer = Writer {
        code,
        edits,
        layout: &layout,
        new: Code::default(),
        origins: Vec::with_capacity(layout.len),
    };
    for index in 0..code.insns.len() {
        writer.insn(index)?;
        for &jump in layout.islands.get(&index).into_iter().flatten() {
            writer.detour(jump)?;
        }
    }
    let Writer { mut new, origins, .. } = writer;
    new.functions = functions(code, &layout)?;
    new.lines = lines(code, &layout)?;
    Ok(Rewritten { code: new, places: layout.places, origins })
}

fn check(code: &Code, graph: &Graph, edits: &Edits) -> Result<(), RewriteError> {
    let insns = code.insns.len();
    if graph.insns() != insns {
        return Err(RewriteError::OtherGraph);
    }
    for (index, insn) in edits.all() {
        let is_straight = match insn.class() {
            op::JMP | op::JMP32 => insn.opcode == op::CALL && !insn.is_local_call(),
            _ => true,
        };
        match code.insns.get(index) {
            None => return Err(RewriteError::NoSuchInsn { index, insns }),
            Some(_) if !is_straight => return Err(RewriteError::NotStraight { index }),
            Some(_) => {}
        }
    }
    for &index in edits.before.keys().chain(edits.above.keys()) {
        if graph.is_second_half(index) {
            return Err(RewriteError::InsideLoad { index });
        }
    }
    let jumps = edits.on_jump.keys().copied();
    match jumps.into_iter().find(|&index| jump_target(index, code.insns[index]).is_none()) {
        Some(index) => Err(RewriteError::NoJump { index }),
        None => Ok(()),
    }
}

/// Emits the new program, instruction by instruction.
struct Writer<'a> {
    code: &'a Code,
    edits: &'a Edits,
    layout: &'a Layout,
    new: Code,
    origins: Vec<Option<usize>>,
}

impl Writer<'_> {
    fn insn(&mut self, index: usize) -> Result<(), RewriteError> {
        let [start, label, place] = self.layout.around(index);
        if start < label {
            self.insert(self.edits.above.get(&index));
        }
        if label < place {
            self.insert(self.edits.before.get(&index));
        }
        let insn = self.code.insns[index];
        let origin = Some(index);
        match self.layout.lengths[index] {
            Length::Plain if jump_target(index, insn).is_some() => self.jump(insn, index, origin),
            Length::Plain => {
                let insn = self.layout.mended(insn, index)?;
                self.put(insn, origin);
                Ok(())
            }
            Length::Inverted => {
                let operation = inverse(insn.opcode & op::OPERATION).unwrap_or(op::JEQ);
                let opcode = insn.opcode & !op::OPERATION | operation;
                self.put(Insn { opcode, offset: 1, ..insn }, origin);
                self.jump(Insn::new(op::JA32, 0, 0, 0, 0), index, None)
            }
            Length::Doubled => {
                self.put(Insn { offset: 1, ..insn }, origin);
                self.put(Insn::new(op::JA, 0, 0, 1, 0), None);
                self.jump(Insn::new(op::JA32, 0, 0, 0, 0), index, None)
            }
        }
    }

    /// Emits the code of a detoured jump.
    fn detour(&mut self, index: usize) -> Result<(), RewriteError> {
        self.insert(self.edits.on_jump.get(&index));
        let target = self.layout.target(self.code, index).ok_or(RewriteError::TooLong)?;
        let goto = aim(Insn::new(op::JA, 0, 0, 0, 0), self.new.insns.len(), target)?;
        self.put(goto, None);
        Ok(())
    }

    /// Emits a jump to the target of the jump at `index`, through its detour if it has one.
    fn jump(
        &mut self,
        insn: Insn,
        index: usize,
        origin: Option<usize>,
    ) -> Result<(), RewriteError> {
        let target = match self.layout.detours.get(&index) {
            Some(&detour) => detour,
            None => self.layout.target(self.code, index).ok_or(RewriteError::TooLong)?,
        };
        let insn = aim(insn, self.new.insns.len(), target)?;
        self.put(insn, origin);
        Ok(())
    }

    fn insert(&mut self, insns: Option<&Vec<Insn>>) {
        insns.into_iter().flatten().for_each(|&insn| self.put(insn, None));
    }

    fn put(&mut self, insn: Insn, origin: Option<usize>) {
        self.new.insns.push(insn);
        self.origins.push(origin);
    }
}

/// Retargets the jump at `from` to `to`. A `goto` that is too far becomes a `gotol`.
fn aim(insn: Insn, from: usize, to: usize) -> Result<Insn, RewriteError> {
    let distance = to as i64 - from as i64 - 1;
    let long = || i32::try_from(distance).map_err(|_| RewriteError::TooLong);
    Ok(match insn.opcode {
        op::JA32 => Insn { immediate: long()?, ..insn },
        op::JA if distance.abs() > REACH => {
            Insn { opcode: op::JA32, offset: 0, immediate: long()?, ..insn }
        }
        _ => {
            let offset = i16::try_from(distance).map_err(|_| RewriteError::TooLong)?;
            Insn { offset, ..insn }
        }
    })
}

/// The inverse comparison.
fn inverse(operation: u8) -> Option<u8> {
    const PAIRS: [(u8, u8); 5] = [
        (op::JEQ, op::JNE),
        (op::JGT, op::JLE),
        (op::JGE, op::JLT),
        (op::JSGT, op::JSLE),
        (op::JSGE, op::JSLT),
    ];
    PAIRS.iter().find_map(|&(a, b)| match operation {
        it if it == a => Some(b),
        it if it == b => Some(a),
        _ => None,
    })
}

fn functions(code: &Code, layout: &Layout) -> Result<Vec<FunctionInfo>, RewriteError> {
    let moved = code.functions.iter().map(|function| {
        let start = layout.starts.get(function.insn_index as usize);
        let start = *start.ok_or(RewriteError::OtherGraph)?;
        let insn_index = u32::try_from(start).map_err(|_| RewriteError::TooLong)?;
        Ok(FunctionInfo { insn_index, ..function.clone() })
    });
    moved.collect()
}

fn lines(code: &Code, layout: &Layout) -> Result<Vec<LineInfo>, RewriteError> {
    let insns = code.insns.len();
    let begun = |index: usize| code.lines.partition_point(|it| it.insn_index as usize <= index);
    let line_of = |index: usize| code.lines.get(begun(index).checked_sub(1)?);
    let mut lines = Vec::with_capacity(code.lines.len() + layout.detours.len());
    for line in &code.lines {
        let insn_index = line.insn_index;
        let start = layout.starts.get(insn_index as usize).copied();
        lines.push((start.ok_or(RewriteError::NoSuchLine { insn_index, insns })?, *line));
    }
    for (&jump, &detour) in &layout.detours {
        lines.extend(line_of(jump).map(|line| (detour, *line)));
    }
    // After detours within a function, the line continues.
    for next in layout.islands.keys().map(|&index| index + 1).filter(|&next| next < insns) {
        let goes_on = line_of(next).filter(|line| line.insn_index as usize != next);
        lines.extend(goes_on.map(|line| (layout.starts[next], *line)));
    }
    lines.sort_by_key(|&(start, _)| start);
    let numbered = lines.into_iter().map(|(start, line)| {
        let insn_index = u32::try_from(start).map_err(|_| RewriteError::TooLong)?;
        Ok(LineInfo { insn_index, ..line })
    });
    numbered.collect()
}

/// Maximum distance of a 16-bit jump, in instructions. The rest is reserved for the verifier, which
/// inserts instructions itself and rejects programs whose jumps no longer reach their targets.
const REACH: i64 = i16::MAX as i64 - 4096;

/// Maximum distance of a detour from its jump, in original instructions. It is placed at the end of
/// the function if that is closer, where it disturbs no fall-through.
const DETOUR_DISTANCE: usize = 4096;

/// Rounds that lengthen only jumps that need it. Later rounds also lengthen jumps of half that
/// distance, so that chains of changes do not take one round each.
const EXACT_ROUNDS: usize = 8;

/// Replacement of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
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
struct Layout {
    /// Start of the insertions above an instruction.
    starts: Vec<usize>,
    /// Target of jumps to an instruction.
    labels: Vec<usize>,
    places: Vec<usize>,
    lengths: Vec<Length>,
    /// Detour code of a jump, by jump.
    detours: BTreeMap<usize, usize>,
    /// Jumps whose detours are placed after an instruction, by that instruction, which never falls through.
    islands: BTreeMap<usize, Vec<usize>>,
    len: usize,
}

impl Layout {
    fn new(code: &Code, graph: &Graph, edits: &Edits) -> Self {
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
    fn around(&self, index: usize) -> [usize; 3] {
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
    fn target(&self, code: &Code, index: usize) -> Option<usize> {
        let target = jump_target(index, *code.insns.get(index)?)?;
        self.labels.get(usize::try_from(target).ok()?).copied()
    }

    /// An instruction other than a jump, with its function reference updated.
    fn mended(&self, insn: Insn, index: usize) -> Result<Insn, RewriteError> {
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

#[cfg(test)]
mod tests;
