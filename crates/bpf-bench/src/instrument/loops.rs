//! Finds loops and estimates the frequency of each edge.
//!
//! The estimates decide where counters go and which of them live in registers. A bad estimate costs
//! time, never correctness.

use std::collections::HashSet;

use super::{
    flow::find,
    graph::{EdgeKind, Function, Graph},
};

/// Assumed iterations of a loop.
const TURNS: f64 = 8.0;
/// Share of a branch that leaves the function directly: mostly errors and early exits.
const SHARE_EARLY_OUT: f64 = 0.25;
/// Share of successful tail calls, out-of-bounds loads, throwing calls.
const SHARE_ESCAPE: f64 = 0.02;
/// Keeps products of estimates within a range that can be summed.
const FREQUENCY_MAX: f64 = 1e15;
/// Deeper loops are merged into their parent.
const DEPTH_MAX: u32 = 16;

/// Loops of one function, and estimated executions per call.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopNest {
    /// Loops, inner before outer.
    pub loops: Vec<Loop>,
    /// Innermost loop of each block of the function, from its first block.
    pub loop_of: Vec<Option<usize>>,
    /// Executions of each block per call.
    pub block_frequencies: Vec<f64>,
    /// Executions of each edge of the function per call, from its first edge.
    pub edge_frequencies: Vec<f64>,
}

/// A loop: its header, and all blocks from which the header can be reached again within the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loop {
    /// The block reached first, relative to the first of the function.
    pub header: usize,
    pub parent: Option<usize>,
}

impl LoopNest {
    /// Finds the loops of a function.
    pub fn new(graph: &Graph, function: &Function) -> Self {
        let walk = Walk::new(graph, function);
        let (loops, loop_of) = find_loops(graph, function, &walk);
        let mut nest = Self {
            loops,
            loop_of,
            block_frequencies: vec![0.0; function.blocks.len()],
            edge_frequencies: vec![0.0; function.edges.len()],
        };
        nest.guess(graph, function, &walk);
        nest
    }

    /// A loop and its outer loops, from the inside.
    pub fn around(&self, inner: Option<usize>) -> impl Iterator<Item = usize> {
        std::iter::successors(inner, |&inner| self.loops.get(inner)?.parent)
    }

    fn guess(&mut self, graph: &Graph, function: &Function, walk: &Walk) {
        let first = function.blocks.start;
        let mut is_header = vec![false; function.blocks.len()];
        self.loops.iter().for_each(|it| is_header[it.header] = true);
        self.edge_frequencies[0] = 1.0;
        for &block in walk.finished.iter().rev() {
            let forward = graph.incoming(first + block).iter().filter(|&&edge| {
                graph.edges[edge].from.is_none_or(|from| !walk.is_above(block, from - first))
            });
            let mut frequency: f64 =
                forward.map(|&edge| self.edge_frequencies[edge - function.edges.start]).sum();
            if is_header[block] {
                frequency *= TURNS;
            }
            frequency = frequency.min(FREQUENCY_MAX);
            self.block_frequencies[block] = frequency;
            for (edge, share) in self.shares(graph, function, block) {
                self.edge_frequencies[edge - function.edges.start] = frequency * share;
            }
        }
    }

    /// Distributes the executions of a block over its edges.
    fn shares(&self, graph: &Graph, function: &Function, block: usize) -> Vec<(usize, f64)> {
        let first = function.blocks.start;
        let outgoing: Vec<_> = graph.outgoing(first + block).collect();
        let [(left, a), (right, b)] = outgoing[..] else {
            return outgoing.into_iter().map(|(edge, _)| (edge, 1.0)).collect();
        };
        // Loops that the edge leaves, and whether it leaves the function directly.
        let leaves = |to: Option<usize>| {
            let inside = to.and_then(|to| self.loop_of[to - first]);
            let mut around = self.around(self.loop_of[block]);
            let own = around.next();
            own.is_some_and(|own| !self.around(inside).any(|it| it == own))
        };
        let is_early_out = |to: Option<usize>| {
            to.is_none_or(|to| graph.outgoing(to).all(|(_, it)| matches!(it.kind, EdgeKind::Leave)))
        };
        let share_of_left = if a.kind == EdgeKind::Escape {
            SHARE_ESCAPE
        } else {
            match (leaves(a.to), leaves(b.to)) {
                (true, false) => 1.0 / TURNS,
                (false, true) => 1.0 - 1.0 / TURNS,
                _ => match (is_early_out(a.to), is_early_out(b.to)) {
                    (true, false) => SHARE_EARLY_OUT,
                    (false, true) => 1.0 - SHARE_EARLY_OUT,
                    _ => 0.5,
                },
            }
        };
        vec![(left, share_of_left), (right, 1.0 - share_of_left)]
    }
}

/// Depth-first walk through the blocks of a function. Block numbers are relative to its first.
struct Walk {
    reached: Vec<usize>,
    /// Blocks in postorder.
    finished: Vec<usize>,
    /// Preorder number of a block; `usize::MAX` if unreachable.
    number: Vec<usize>,
    /// Last preorder number below a block.
    last: Vec<usize>,
}

impl Walk {
    fn new(graph: &Graph, function: &Function) -> Self {
        let (first, len) = (function.blocks.start, function.blocks.len());
        let mut walk = Self {
            reached: Vec::with_capacity(len),
            finished: Vec::with_capacity(len),
            number: vec![usize::MAX; len],
            last: vec![0; len],
        };
        let targets = |block: usize| {
            let targets = graph.outgoing(first + block).filter_map(|(_, edge)| edge.to);
            targets.map(|to| to - first).collect::<Vec<_>>()
        };
        let mut open = vec![(0, targets(0))];
        walk.reach(0);
        while let Some((block, remaining)) = open.last_mut() {
            let block = *block;
            match remaining.pop() {
                Some(target) if walk.number[target] == usize::MAX => {
                    walk.reach(target);
                    open.push((target, targets(target)));
                }
                Some(_) => {}
                None => {
                    walk.last[block] = walk.reached.len() - 1;
                    walk.finished.push(block);
                    open.pop();
                }
            }
        }
        walk
    }

    fn reach(&mut self, block: usize) {
        self.number[block] = self.reached.len();
        self.reached.push(block);
    }

    /// Whether `above` is an ancestor of `below`, or the same block.
    fn is_above(&self, above: usize, below: usize) -> bool {
        let number = self.number[below];
        number != usize::MAX && self.number[above] <= number && number <= self.last[above]
    }
}

/// P. Havlak, "Nesting of Reducible and Irreducible Loops", ACM TOPLAS 19(4), 1997: processes
/// headers from the last reached to the first and collects the blocks that lead back; inner loops
/// count as one block.
fn find_loops(graph: &Graph, function: &Function, walk: &Walk) -> (Vec<Loop>, Vec<Option<usize>>) {
    let (first, len) = (function.blocks.start, function.blocks.len());
    let mut loops: Vec<Loop> = Vec::new();
    let mut loop_of: Vec<Option<usize>> = vec![None; len];
    // The loop of which a block is the header.
    let mut headed: Vec<Option<usize>> = vec![None; len];
    // By block: header of the outermost loop found so far around it.
    let mut representatives: Vec<usize> = (0..len).collect();
    // Edges into a loop that bypass its header.
    let mut side_entries: Vec<Vec<usize>> = vec![Vec::new(); len];
    let mut side_entries_left = 8 * len;
    for &header in walk.reached.iter().rev() {
        let sources = |block: usize| {
            let incoming = graph.incoming(first + block).iter();
            incoming.filter_map(|&edge| Some(graph.edges[edge].from? - first))
        };
        let mut body = Vec::new();
        let mut is_loop = false;
        let mut in_body = HashSet::new();
        for source in sources(header).filter(|&source| walk.is_above(header, source)) {
            is_loop = true;
            let source = find(&mut representatives, source);
            if source != header && in_body.insert(source) {
                body.push(source);
            }
        }
        let mut seen = 0;
        while let Some(&block) = body.get(seen) {
            seen += 1;
            let more = std::mem::take(&mut side_entries[block]);
            let forward = sources(block).filter(|&source| !walk.is_above(block, source));
            for source in forward.collect::<Vec<_>>().into_iter().chain(more) {
                if walk.number[source] == usize::MAX {
                    continue;
                }
                let source = find(&mut representatives, source);
                if !walk.is_above(header, source) {
                    if side_entries_left > 0 {
                        side_entries_left -= 1;
                        side_entries[header].push(source);
                    }
                } else if source != header && in_body.insert(source) {
                    body.push(source);
                }
            }
        }
        if !is_loop {
            continue;
        }
        let number = loops.len();
        loops.push(Loop { header, parent: None });
        loop_of[header] = Some(number);
        headed[header] = Some(number);
        for block in body {
            representatives[block] = header;
            match headed[block] {
                Some(inner) => loops[inner].parent = Some(number),
                None => loop_of[block] = Some(number),
            }
        }
    }
    flatten(&mut loops, &mut loop_of);
    (loops, loop_of)
}

/// Merges loops that are nested too deeply into their parents.
fn flatten(loops: &mut [Loop], loop_of: &mut [Option<usize>]) {
    let mut depths = vec![0; loops.len()];
    let mut stands_for: Vec<usize> = (0..loops.len()).collect();
    for number in (0..loops.len()).rev() {
        let Some(parent) = loops[number].parent else { continue };
        depths[number] = depths[parent] + 1;
        loops[number].parent = Some(stands_for[parent]);
        if depths[number] >= DEPTH_MAX {
            stands_for[number] = stands_for[parent];
        }
    }
    for number in loop_of.iter_mut().flatten() {
        *number = stands_for[*number];
    }
}

#[cfg(test)]
mod tests {
    use wingbeat_bpf_loader::code::op;

    use super::*;
    use wingbeat_bpf_testing::assemble::{Assembler, Label, assembled};

    fn nest(build: impl FnOnce(&mut Assembler)) -> LoopNest {
        let code = assembled(build);
        let graph = Graph::new(&code, &|_| false).expect("a graph");
        LoopNest::new(&graph, &graph.functions[0])
    }

    /// Checks the headers of the loops around each block, from the inside.
    fn check(build: impl FnOnce(&mut Assembler), expected: &[&[usize]]) {
        let nest = nest(build);
        let around = nest.loop_of.iter().map(|&inner| {
            nest.around(inner).map(|number| nest.loops[number].header).collect::<Vec<_>>()
        });
        assert_eq!(around.collect::<Vec<_>>(), expected);
    }

    fn branch(it: &mut Assembler, to: Label) {
        it.branch(op::JEQ, 1, 0, to);
    }

    #[test]
    fn loops() {
        check(|it| it.mov(0, 0).exit(), &[&[]]);
        // One block that jumps to itself.
        check(
            |it| {
                let top = it.label();
                it.mov(0, 0).bind(top).add(1, -1).branch(op::JNE, 1, 0, top).exit();
            },
            &[&[], &[1], &[]],
        );
        // An inner loop, a branch in the outer one, and an exit from both.
        check(
            |it| {
                let [outer, inner, skip, out] = [(); 4].map(|()| it.label());
                it.mov(0, 0).bind(outer);
                branch(it, skip); // 1
                it.bind(inner);
                branch(it, out); // 2
                branch(it, inner); // 3
                it.bind(skip);
                branch(it, outer); // 4
                it.bind(out).exit(); // 5
            },
            &[&[], &[1], &[2, 1], &[2, 1], &[1], &[]],
        );
        // Two loops with the same header count as one.
        check(
            |it| {
                let top = it.label();
                it.bind(top).add(0, 1);
                branch(it, top);
                branch(it, top);
                it.exit();
            },
            &[&[0], &[0], &[]],
        );
    }

    #[test]
    fn loops_with_two_entries() {
        // 0 jumps into the middle of 1 ⇄ 2; 1 is reached first.
        check(
            |it| {
                let (middle, top) = (it.label(), it.label());
                branch(it, middle);
                it.bind(top);
                branch(it, middle); // 1
                it.bind(middle);
                branch(it, top); // 2
                it.exit();
            },
            &[&[], &[2], &[2], &[]],
        );
    }

    #[test]
    fn loops_that_lie_deep_are_merged() {
        let depth = 40;
        let nest = nest(|it| {
            let tops: Vec<Label> = (0..depth).map(|_| it.label()).collect();
            for &top in &tops {
                it.bind(top).add(0, 1);
                let next = it.label();
                branch(it, next);
                it.bind(next);
            }
            tops.iter().rev().for_each(|&top| branch(it, top));
            it.exit();
        });
        let deepest = nest.loop_of.iter().map(|&inner| nest.around(inner).count()).max();
        assert_eq!(deepest, Some(DEPTH_MAX as usize));
    }

    #[test]
    fn guesses() {
        let nest = nest(|it| {
            let [top, out, early] = [(); 3].map(|()| it.label());
            branch(it, early); // 0
            it.bind(top).add(0, 1);
            branch(it, out); // 1
            branch(it, top); // 2
            it.bind(out).mov(0, 1).exit(); // 3
            it.bind(early).mov(0, 2).exit(); // 4
        });
        let [entry, header, latch, out, early] = nest.block_frequencies[..] else {
            panic!("{nest:?}")
        };
        assert_eq!(entry, 1.0);
        assert!(early < 0.5, "an early out is less likely than going on: {early}");
        assert!(header > 2.0 && latch > 2.0, "a loop turns round: {header} {latch}");
        assert!(out < latch, "{out}");
    }

    #[test]
    fn guesses_stay_finite() {
        let nest = nest(|it| {
            let tops: Vec<Label> = (0..600).map(|_| it.label()).collect();
            tops.iter().for_each(|&top| _ = it.bind(top).add(0, 1));
            tops.iter().rev().for_each(|&top| branch(it, top));
            it.exit();
        });
        assert!(nest.edge_frequencies.iter().all(|it| it.is_finite()));
    }
}
