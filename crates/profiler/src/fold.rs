//! Folds frames that say nothing about the program: how threads are started, how a runtime calls closures. In Rust
//! code they may be half of a stack, and hide the rest in a flame graph.
//!
//! A pure transformation of the stacks of a [`Profile`]. Two or more adjacent such functions become one frame,
//! `[runtime]`, so that the next callee does not appear to be called by user code. A single one stays: replacing a
//! frame by a frame gains nothing and loses a name. The innermost function is never folded, since the time is its
//! own. Samples, blocks and their weights are unchanged.

mod rules;
#[cfg(test)]
mod tests;

use std::{cmp::Reverse, collections::BTreeMap};

use rustc_hash::FxHashMap;
use serde::Serialize;

use self::rules::Kind;
use crate::model::{
    BinaryKind, Blocked, Frame, FrameId, Function, FunctionId, Line, Profile, Stack, StackId,
};

/// Name of folded functions.
pub const RUNTIME: &str = "[runtime]";

/// Statistics of the folding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Folded {
    /// Samples and blocks with folded stacks.
    pub samples: u64,
    /// Total functions of these stacks before.
    pub functions_before: u64,
    /// Total functions after, `[runtime]` included.
    pub functions_after: u64,
    /// Folded functions, most frequent first.
    pub names: Vec<FoldedName>,
}

/// A folded function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoldedName {
    pub name: String,
    /// Occurrences in the stacks of samples and blocks.
    pub count: u64,
}

/// Length of a name without its variable parts, for the fuzz target.
pub(crate) fn plain_len(name: &str) -> usize {
    let _ = rules::kind(name);
    rules::plain(name).path.len()
}

/// Position of a function in a stack: the frame and the line within it.
#[derive(Debug, Clone, Copy)]
struct Place {
    frame: usize,
    line: usize,
    function: FunctionId,
    kind: Kind,
}

/// Folds runtime functions in all stacks, and merges stacks that become equal.
pub fn fold_runtime(profile: &mut Profile) -> Folded {
    let kinds: Vec<Kind> =
        profile.functions.iter().map(|function| rules::kind(&function.name)).collect();
    let runtime = profile.functions.len() as FunctionId;
    let mut frames = FrameTable::new(&profile.frames);
    let mut ids: FxHashMap<Stack, StackId> = FxHashMap::default();
    let mut stacks = Vec::new();
    let mut counts = count_stacks(profile).into_iter();
    let mut folded = Folded::default();
    let mut by_function: BTreeMap<FunctionId, u64> = BTreeMap::new();
    let mut moved = Vec::with_capacity(profile.stacks.len());
    for stack in &profile.stacks {
        let count = counts.next().unwrap_or(0);
        let places = places(profile, stack, &kinds);
        let runs = runs(&places);
        let mut stack = stack.clone();
        if !runs.is_empty() {
            stack.frames = frames.rebuild(&stack.frames, &places, &runs, runtime);
            let gone: usize = runs.iter().map(|run| run.len() - 1).sum();
            folded.samples += count;
            folded.functions_before += count * places.len() as u64;
            folded.functions_after += count * (places.len() - gone) as u64;
            for place in runs.into_iter().flat_map(|run| &places[run]) {
                *by_function.entry(place.function).or_default() += count;
            }
        }
        moved.push(*ids.entry(stack).or_insert_with_key(|stack| {
            stacks.push(stack.clone());
            stacks.len() as StackId - 1
        }));
    }
    folded.names = names(profile, by_function);
    profile.frames = frames.frames;
    profile.functions.push(Function { name: RUNTIME.to_owned(), is_symbol: true });
    profile.stacks = stacks;
    for stack in profile.samples.iter_mut().map(|sample| &mut sample.stack) {
        move_to(&moved, stack);
    }
    for stack in profile.blocked.iter_mut().map(|blocked| &mut blocked.stack) {
        move_to(&moved, stack);
    }
    for stack in profile.sums.iter_mut().map(|sum| &mut sum.stack) {
        move_to(&moved, stack);
    }
    merge_blocked(profile);
    folded
}

/// Merges blocks of a thread whose stack and state have become equal.
fn merge_blocked(profile: &mut Profile) {
    let mut rows: Vec<Blocked> = Vec::with_capacity(profile.blocked.len());
    let mut ids = FxHashMap::default();
    let mut moved = Vec::with_capacity(profile.blocked.len());
    for blocked in profile.blocked.drain(..) {
        let next = rows.len() as u32;
        let id = *ids.entry((blocked.thread, blocked.stack, blocked.state)).or_insert(next);
        match rows.get_mut(id as usize) {
            Some(row) => row.merge(&blocked),
            None => rows.push(blocked),
        }
        moved.push(id);
    }
    profile.blocked = rows;
    for interval in &mut profile.intervals {
        move_to(&moved, &mut interval.blocked);
    }
}

/// Leaves an invalid id as it is: exporters reject such a profile.
fn move_to(moved: &[u32], id: &mut u32) {
    *id = moved.get(*id as usize).copied().unwrap_or(*id);
}

/// Counts the samples and blocks of each stack.
fn count_stacks(profile: &Profile) -> Vec<u64> {
    let mut counts = vec![0_u64; profile.stacks.len()];
    let samples = profile.samples.iter().map(|sample| (sample.stack, 1));
    let blocks = profile.blocked.iter().map(|blocked| (blocked.stack, blocked.count));
    let sums = profile.sums.iter().map(|sum| (sum.stack, sum.weight.samples + sum.weight.blocks));
    for (stack, count) in samples.chain(blocks).chain(sums) {
        if let Some(sum) = counts.get_mut(stack as usize) {
            *sum += count;
        }
    }
    counts
}

fn names(profile: &Profile, by_function: BTreeMap<FunctionId, u64>) -> Vec<FoldedName> {
    let name = |id: FunctionId| Some(profile.functions.get(id as usize)?.name.clone());
    let counted = by_function.into_iter().filter(|(_, count)| *count > 0);
    let mut names: Vec<FoldedName> =
        counted.filter_map(|(id, count)| Some(FoldedName { name: name(id)?, count })).collect();
    names.sort_by_key(|name| Reverse(name.count));
    names
}

/// The functions of a stack, innermost first.
fn places(profile: &Profile, stack: &Stack, kinds: &[Kind]) -> Vec<Place> {
    let mut places = Vec::new();
    // Off-CPU stacks have their state in the innermost position.
    let mut is_innermost = true;
    for (position, &id) in stack.frames.iter().enumerate() {
        let Some(frame) = profile.frames.get(id as usize) else { continue };
        let binary = frame.binary.and_then(|id| profile.binaries.get(id as usize));
        let is_code = binary.is_none_or(|binary| matches!(binary.kind, BinaryKind::User));
        for (number, line) in frame.lines.iter().enumerate() {
            let mut kind = kinds.get(line.function as usize).copied().unwrap_or(Kind::Own);
            if is_innermost || !is_code {
                kind = Kind::Own;
            }
            places.push(Place { frame: position, line: number, function: line.function, kind });
            is_innermost = binary.is_some_and(|binary| binary.kind == BinaryKind::State);
        }
    }
    settle(profile, &mut places);
    places
}

/// Classifies functions that depend on their neighbours.
fn settle(profile: &Profile, places: &mut [Place]) {
    // From the outermost, since outer functions decide first.
    let mut is_outermost = true;
    for index in (0..places.len()).rev() {
        let inner = index.checked_sub(1).and_then(|index| places.get(index));
        let is_runtime = match places[index].kind {
            Kind::Runtime => true,
            Kind::Outermost => is_outermost,
            Kind::Main => inner.is_some_and(|inner| {
                let function = profile.functions.get(inner.function as usize);
                function.is_some_and(|function| rules::is_start_of_rust(&function.name))
            }),
            Kind::Glue => {
                let next = places[..index].iter().rev().find(|place| place.kind != Kind::Glue);
                let is_inside = places.get(index + 1).is_some_and(|it| it.kind == Kind::Runtime);
                is_inside && next.is_some_and(|next| next.kind == Kind::Runtime)
            }
            Kind::Own => false,
        };
        places[index].kind = if is_runtime { Kind::Runtime } else { Kind::Own };
        is_outermost &= is_runtime;
    }
}

/// Ranges of two or more adjacent runtime functions.
fn runs(places: &[Place]) -> Vec<std::ops::Range<usize>> {
    let mut runs = Vec::new();
    let mut start = 0;
    for chunk in places.chunk_by(|one, next| one.kind == next.kind) {
        if chunk.len() > 1 && chunk[0].kind == Kind::Runtime {
            runs.push(start..start + chunk.len());
        }
        start += chunk.len();
    }
    runs
}

/// Old and new frames.
struct FrameTable {
    frames: Vec<Frame>,
    ids: FxHashMap<(FrameId, Vec<Option<usize>>), FrameId>,
}

impl FrameTable {
    fn new(frames: &[Frame]) -> Self {
        Self { frames: frames.to_vec(), ids: FxHashMap::default() }
    }

    /// Rebuilds the frames of a stack with its runs folded. The replacement of a run is in the frame of its
    /// outermost function. Frames without functions are removed.
    fn rebuild(
        &mut self,
        stack: &[FrameId],
        places: &[Place],
        runs: &[std::ops::Range<usize>],
        runtime: FunctionId,
    ) -> Vec<FrameId> {
        // The remaining lines of each frame, with `None` for `[runtime]`.
        let mut kept: Vec<Vec<Option<usize>>> = vec![Vec::new(); stack.len()];
        let mut runs = runs.iter().peekable();
        for (index, place) in places.iter().enumerate() {
            while runs.next_if(|run| run.end <= index).is_some() {}
            match runs.peek() {
                Some(run) if run.contains(&index) => {
                    if index + 1 == run.end {
                        kept[place.frame].push(None);
                    }
                }
                _ => kept[place.frame].push(Some(place.line)),
            }
        }
        let kept = stack.iter().zip(kept).filter(|(_, lines)| !lines.is_empty());
        kept.map(|(&frame, lines)| self.with_lines(frame, lines, runtime)).collect()
    }

    fn with_lines(
        &mut self,
        frame: FrameId,
        lines: Vec<Option<usize>>,
        runtime: FunctionId,
    ) -> FrameId {
        let Some(old) = self.frames.get(frame as usize) else { return frame };
        let is_whole = lines.len() == old.lines.len() && lines.iter().all(Option::is_some);
        if is_whole {
            return frame;
        }
        if let Some(&id) = self.ids.get(&(frame, lines.clone())) {
            return id;
        }
        let line = |line: &Option<usize>| match line {
            Some(line) => old.lines.get(*line).cloned(),
            None => Some(Line { function: runtime, file: None, line: None }),
        };
        let new = Frame { lines: lines.iter().filter_map(line).collect(), ..old.clone() };
        self.frames.push(new);
        let id = self.frames.len() as FrameId - 1;
        self.ids.insert((frame, lines), id);
        id
    }
}
