//! Pieces of stack that samples share, and what unwinding them gave.

use rustc_hash::FxHashMap;

use super::spaces::GenerationId;
use crate::{
    record::Tail,
    unwind::{Memory, Outcome, Row, Start, finish},
};

/// Outcomes remembered per tail. The bottom of a stack has one or two.
const OUTCOMES_MAX: usize = 16;
/// Tails kept: at least as many as were used last, at most twice that.
const TAILS_MAX: usize = 1 << 15;

/// Tails by their hash, which the samples that they belong to carry. Two halves, so that those which
/// nobody has asked for in a long time go: a swarm of processes brings a new one each time.
#[derive(Debug, Default)]
pub(super) struct Tails {
    young: FxHashMap<u64, Entry>,
    old: FxHashMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    memory: Memory,
    outcomes: Vec<(Start, GenerationId, Outcome)>,
}

impl Tails {
    /// Takes a tail.
    pub(super) fn insert(&mut self, tail: &Tail<'_>) {
        let memory = Memory { start: tail.sp, words: tail.words.iter().collect() };
        self.put(tail.hash, Entry { memory, outcomes: Vec::new() });
    }

    fn put(&mut self, hash: u64, entry: Entry) {
        if self.young.len() >= TAILS_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, entry);
    }

    /// Unwinds from `start` with the tail of this hash, or without if there is none; `use_outcome`
    /// gets the result, which is remembered.
    pub(super) fn finish<T>(
        &mut self,
        hash: u64,
        start: Start,
        generation: GenerationId,
        row: impl FnMut(u64) -> Option<Row>,
        use_outcome: impl FnOnce(&Outcome) -> T,
    ) -> T {
        if let Some(entry) = self.old.remove(&hash) {
            self.put(hash, entry);
        }
        let Some(entry) = self.young.get_mut(&hash) else {
            return use_outcome(&finish(start, None, row));
        };
        let known = |(known, known_in, _): &(Start, GenerationId, Outcome)| {
            *known == start && *known_in == generation
        };
        if let Some((_, _, outcome)) = entry.outcomes.iter().find(|outcome| known(outcome)) {
            return use_outcome(outcome);
        }
        let outcome = finish(start, Some(&entry.memory), row);
        let result = use_outcome(&outcome);
        if entry.outcomes.len() == OUTCOMES_MAX {
            entry.outcomes.clear();
        }
        entry.outcomes.push((start, generation, outcome));
        result
    }
}
