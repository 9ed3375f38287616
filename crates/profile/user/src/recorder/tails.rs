//! Pieces of stack that samples share, and what unwinding them gave.

use rustc_hash::FxHashMap;
use wingbeat_profile_common::{TAIL_CHECKS, TAIL_WORDS_PER_CHECK, unwind::Rule};

use super::spaces::GenerationId;
use crate::{
    unwind::{Memory, Outcome, Start, finish},
    wire::{Stack, Tail},
};

/// Tails kept per thread and place; the bottom of a stack has one.
const TAILS_MAX: usize = 16;
/// Outcomes remembered per tail; the bottom of a stack has one or two.
const OUTCOMES_MAX: usize = 16;
/// Places kept: at least as many as were used last, at most twice that.
const PLACES_MAX: usize = 1 << 15;

/// Thread and stack pointer.
type Place = (u32, u64);

/// Tails by place. Two halves, so that those which nobody has asked for in a long time go: a swarm of
/// processes brings a new one each time.
#[derive(Debug, Default)]
pub(super) struct Tails {
    young: FxHashMap<Place, Vec<Entry>>,
    old: FxHashMap<Place, Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    memory: Memory,
    checks: [u16; TAIL_CHECKS],
    outcomes: Vec<(Start, GenerationId, Outcome)>,
}

impl Tails {
    pub(super) fn insert(&mut self, tail: &Tail<'_>) {
        let memory = Memory { start: tail.header.sp, words: tail.words.iter().collect() };
        let entry = Entry { memory, checks: tail.header.checks, outcomes: Vec::new() };
        let entries = self.at((tail.header.tid, tail.header.sp));
        if entries.len() == TAILS_MAX {
            entries.remove(0);
        }
        entries.push(entry);
    }

    fn at(&mut self, place: Place) -> &mut Vec<Entry> {
        if self.young.len() >= PLACES_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        let old = &mut self.old;
        self.young.entry(place).or_insert_with(|| old.remove(&place).unwrap_or_default())
    }

    /// Unwinds from `start` by the tail that the stack belongs to, or without if there is none;
    /// `use_outcome` gets the result, which is remembered.
    pub(super) fn finish<T>(
        &mut self,
        stack: &Stack<'_>,
        start: Start,
        generation: GenerationId,
        mut rule: impl FnMut(u64) -> Rule,
        use_outcome: impl FnOnce(&Outcome) -> T,
    ) -> T {
        let place = (stack.header.tid, stack.header.stop_sp);
        if self.young.contains_key(&place) || self.old.contains_key(&place) {
            for entry in self.at(place).iter_mut().rev() {
                let checks = entry.checks;
                let outcome = entry.outcome(start, generation, &mut rule);
                if belongs(&checks, &stack.header.tail_checks, outcome.words_used) {
                    return use_outcome(outcome);
                }
            }
        }
        use_outcome(&finish(start, None, rule))
    }
}

impl Entry {
    fn outcome(
        &mut self,
        start: Start,
        generation: GenerationId,
        rule: impl FnMut(u64) -> Rule,
    ) -> &Outcome {
        let known = |(known, known_in, _): &(Start, GenerationId, Outcome)| {
            *known == start && *known_in == generation
        };
        let position = self.outcomes.iter().position(known).unwrap_or_else(|| {
            if self.outcomes.len() == OUTCOMES_MAX {
                self.outcomes.clear();
            }
            let outcome = finish(start, Some(&self.memory), rule);
            self.outcomes.push((start, generation, outcome));
            self.outcomes.len() - 1
        });
        &self.outcomes[position].2
    }
}

/// Were the words that unwinding looked at the same for the sample? Those beyond may differ.
fn belongs(tail: &[u16; TAIL_CHECKS], sample: &[u16; TAIL_CHECKS], words_used: usize) -> bool {
    match words_used.div_ceil(TAIL_WORDS_PER_CHECK) {
        0 => true,
        checks => *sample != [0; TAIL_CHECKS] && tail.get(checks - 1) == sample.get(checks - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_that_were_looked_at_are_compared() {
        let tail = [1, 2, 3, 4, 5, 6, 7, 8];
        let check = |sample, words_used, expected| {
            assert_eq!(belongs(&tail, &sample, words_used), expected, "{words_used} words");
        };
        let changed_above = [1, 2, 3, 9, 9, 9, 9, 9];
        check(changed_above, 0, true);
        check(changed_above, 1, true);
        check(changed_above, 18, true);
        check(changed_above, 19, false);
        check(tail, 48, true);
        check([0; TAIL_CHECKS], 1, false);
    }
}
