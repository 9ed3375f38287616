//! Address spaces: which file is mapped where, in which process, at which time.
//!
//! Pure bookkeeping. An address keeps its meaning until one mapping replaces another, so each state of an address
//! space is a *generation*. Parents share it with forked children, until a mapping is replaced or `exec` is
//! called. Stacks are distinguished by generation, and their addresses can be resolved after the recording.

use rustc_hash::{FxHashMap, FxHashSet};

use super::binaries::BinaryId;

pub(crate) type GenerationId = u32;

/// A mapped part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub binary: BinaryId,
}

impl Mapping {
    /// File offset of an address within the mapping.
    pub(crate) fn offset_of(&self, address: u64) -> u64 {
        address.wrapping_sub(self.start).wrapping_add(self.offset)
    }
}

/// A state of an address space: non-overlapping mappings, ordered by address.
#[derive(Debug, Clone, Default)]
pub(crate) struct Generation {
    /// The process in which it began.
    pub pid: u32,
    pub mappings: Vec<Mapping>,
}

impl Generation {
    pub(crate) fn find(&self, address: u64) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|mapping| mapping.start <= address);
        let mapping = self.mappings.get(after.checked_sub(1)?)?;
        (address < mapping.end).then_some(mapping)
    }

    /// Whether all of `new` is mapped already.
    fn contains(&self, new: &Mapping) -> bool {
        self.find(new.start).is_some_and(|old| {
            old.end >= new.end && old.binary == new.binary && bias(old) == bias(new)
        })
    }

    /// Whether `new` overlaps other mappings.
    fn conflicts(&self, new: &Mapping) -> bool {
        self.overlapping(new).any(|old| old.binary != new.binary || bias(old) != bias(new))
    }

    fn overlapping(&self, new: &Mapping) -> impl Iterator<Item = &Mapping> {
        let Mapping { start, end, .. } = *new;
        self.mappings.iter().filter(move |old| old.start < end && start < old.end)
    }

    /// Inserts `new`, cutting away what it covers.
    fn insert(&mut self, new: Mapping) {
        let mut kept = Vec::with_capacity(self.mappings.len() + 2);
        for old in self.mappings.drain(..) {
            if old.start < new.start {
                kept.push(Mapping { end: old.end.min(new.start), ..old });
            }
            if new.end < old.end {
                let start = old.start.max(new.end);
                let offset = old.offset.wrapping_add(start - old.start);
                kept.push(Mapping { start, offset, ..old });
            }
        }
        kept.push(new);
        kept.sort_unstable_by_key(|mapping| mapping.start);
        self.mappings = kept;
    }
}

/// Address of file offset 0: equal for all parts of one image.
fn bias(mapping: &Mapping) -> u64 {
    mapping.start.wrapping_sub(mapping.offset)
}

/// The address spaces of all processes.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    generations: FxHashMap<GenerationId, Generation>,
    next: GenerationId,
    current: FxHashMap<u32, GenerationId>,
    /// Processes with another or an extended address space.
    pub changed: Vec<u32>,
}

impl Spaces {
    /// The current generation of a process, if known.
    pub(crate) fn current(&self, pid: u32) -> Option<GenerationId> {
        self.current.get(&pid).copied()
    }

    /// A generation by its id. Ids come from this table, so an unknown one has no mappings.
    pub(crate) fn generation(&self, id: GenerationId) -> Option<&Generation> {
        self.generations.get(&id)
    }

    /// All generations.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Generation> {
        self.generations.values()
    }

    /// Removes exited processes, and all generations that are not current. No stacks refer to earlier ones any more.
    pub(super) fn forget(&mut self, gone: &FxHashSet<u32>) {
        self.current.retain(|pid, _| !gone.contains(pid));
        let used: FxHashSet<GenerationId> = self.current.values().copied().collect();
        self.generations.retain(|id, _| used.contains(id));
    }

    /// Starts a process without mappings: before any are known, or after `exec`.
    pub(crate) fn clear(&mut self, pid: u32) {
        let id = self.push(Generation { pid, mappings: Vec::new() });
        self.current.insert(pid, id);
    }

    /// Gives a child its parent's mappings. If the parent is unknown, so are the child's: those of an earlier
    /// process with its PID do not apply.
    pub(crate) fn fork(&mut self, parent: u32, child: u32) {
        match self.current(parent) {
            Some(id) => self.current.insert(child, id),
            None => self.current.remove(&child),
        };
    }

    /// Adds a mapping to a process.
    pub(crate) fn map(&mut self, pid: u32, mapping: Mapping) {
        if mapping.start >= mapping.end {
            return;
        }
        let id = match self.current(pid) {
            Some(id) => id,
            None => self.push(Generation { pid, mappings: Vec::new() }),
        };
        let Some(old) = self.generations.get(&id) else { return };
        if old.contains(&mapping) {
            self.current.insert(pid, id);
            return;
        }
        self.changed.push(pid);
        if old.conflicts(&mapping) {
            let mut next = Generation { pid, ..old.clone() };
            next.insert(mapping);
            let next = self.push(next);
            self.current.insert(pid, next);
        } else {
            self.generations.entry(id).or_default().insert(mapping);
            self.current.insert(pid, id);
        }
    }

    fn push(&mut self, generation: Generation) -> GenerationId {
        let id = self.next;
        self.next = id.wrapping_add(1);
        self.generations.insert(id, generation);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, offset: u64, binary: BinaryId) -> Mapping {
        Mapping { start, end, offset, binary }
    }

    fn at(spaces: &Spaces, id: GenerationId, address: u64) -> Option<(BinaryId, u64)> {
        let mapping = spaces.generation(id)?.find(address)?;
        Some((mapping.binary, address - mapping.start + mapping.offset))
    }

    #[test]
    fn addresses_are_found_at_the_edges() {
        let mut spaces = Spaces::default();
        spaces.map(1, mapping(0x1000, 0x2000, 0x40, 7));
        let id = spaces.current(1).expect("known");
        let check = |address, expected| assert_eq!(at(&spaces, id, address), expected);
        check(0xfff, None);
        check(0x1000, Some((7, 0x40)));
        check(0x1fff, Some((7, 0x103f)));
        check(0x2000, None);
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut spaces = Spaces::default();
        spaces.map(1, mapping(0x1000, 0x2000, 0, 7));
        spaces.fork(1, 2);
        spaces.map(2, mapping(0x1000, 0x2000, 0, 8));
        spaces.map(1, mapping(0x1000, 0x2000, 0, 9));
        assert_eq!(spaces.all().count(), 3);
        spaces.forget(&FxHashSet::from_iter([2]));
        assert_eq!((spaces.all().count(), spaces.current(2)), (1, None));
        let id = spaces.current(1).expect("it lives");
        assert_eq!(at(&spaces, id, 0x1000), Some((9, 0)));
        // Generation numbers are not reused.
        spaces.clear(3);
        assert_eq!(spaces.current(3), Some(3));
    }

    #[test]
    fn a_new_library_keeps_the_generation() {
        let mut spaces = Spaces::default();
        spaces.map(1, mapping(0x1000, 0x2000, 0, 7));
        let before = spaces.current(1);
        spaces.map(1, mapping(0x3000, 0x4000, 0, 8));
        spaces.map(1, mapping(0x1000, 0x2000, 0, 7));
        assert_eq!(spaces.current(1), before);
    }

    #[test]
    fn children_share_until_they_differ() {
        let mut spaces = Spaces::default();
        spaces.map(1, mapping(0x1000, 0x2000, 0, 7));
        spaces.fork(1, 2);
        assert_eq!(spaces.current(1), spaces.current(2));
        spaces.map(2, mapping(0x1000, 0x2000, 0, 9));
        assert_ne!(spaces.current(1), spaces.current(2));
        spaces.clear(2);
        let id = spaces.current(2).expect("known");
        assert_eq!(at(&spaces, id, 0x1000), None);
        spaces.fork(1, 2);
        assert_eq!(spaces.current(2), spaces.current(1));
    }
}

/// Compares [`Spaces`] with a slow model: a table of pages for each process.
#[cfg(test)]
mod properties {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const PAGE: u64 = 0x1000;
    const PAGES: u64 = 12;
    const PROCESSES: u32 = 4;

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Map { pid: u32, first: u64, pages: u64, offset: u64, binary: BinaryId },
        Fork { parent: u32, child: u32 },
        Clear { pid: u32 },
    }

    fn step() -> impl Strategy<Value = Step> {
        let pid = 0..PROCESSES;
        // Offsets near the addresses, so that parts of one image are generated as well as unrelated files.
        let map = (pid.clone(), 0..PAGES, 0..4_u64, 0..3_u64, 0..3_u32).prop_map(
            |(pid, first, pages, shift, binary)| Step::Map {
                pid,
                first,
                pages,
                offset: (first + shift) * PAGE,
                binary,
            },
        );
        let fork =
            (pid.clone(), pid.clone()).prop_map(|(parent, child)| Step::Fork { parent, child });
        prop_oneof![8 => map, 2 => fork, 1 => pid.prop_map(|pid| Step::Clear { pid })]
    }

    /// File and offset of each page; unknown processes are absent.
    type Model = BTreeMap<u32, BTreeMap<u64, (BinaryId, u64)>>;

    fn apply(step: Step, spaces: &mut Spaces, model: &mut Model) {
        match step {
            Step::Map { pid, first, pages, offset, binary } => {
                let (start, end) = (first * PAGE, (first + pages) * PAGE);
                spaces.map(pid, Mapping { start, end, offset, binary });
                for page in 0..pages {
                    let page_of_file = (binary, offset + page * PAGE);
                    model.entry(pid).or_default().insert(first + page, page_of_file);
                }
            }
            Step::Fork { parent, child } => {
                spaces.fork(parent, child);
                match model.get(&parent).cloned() {
                    Some(pages) => model.insert(child, pages),
                    None => model.remove(&child),
                };
            }
            Step::Clear { pid } => {
                spaces.clear(pid);
                model.insert(pid, BTreeMap::new());
            }
        }
    }

    /// Checks that everything in the model is found. There may be more: a generation is shared with relatives, and has
    /// what they mapped since.
    fn check(
        spaces: &Spaces,
        id: GenerationId,
        pages: &BTreeMap<u64, (BinaryId, u64)>,
    ) -> Result<(), TestCaseError> {
        for (page, (binary, offset)) in pages {
            for within in [0, PAGE - 1] {
                let address = page * PAGE + within;
                let found = spaces.generation(id).and_then(|generation| generation.find(address));
                let found = found.map(|it| (it.binary, address - it.start + it.offset));
                prop_assert_eq!(found, Some((*binary, offset + within)), "{:#x}", address);
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn what_is_mapped_is_found_now_and_later(steps in prop::collection::vec(step(), 0..40)) {
            let mut spaces = Spaces::default();
            let mut model = Model::new();
            // Generations that samples would refer to, with the mappings at that time.
            let mut sampled = Vec::new();
            for step in steps {
                apply(step, &mut spaces, &mut model);
                for pid in 0..PROCESSES {
                    let Some(pages) = model.get(&pid) else {
                        prop_assert_eq!(spaces.current(pid), None, "unknown: PID {}", pid);
                        continue;
                    };
                    // An empty process is unknown, and needs no generation.
                    let Some(id) = spaces.current(pid) else {
                        prop_assert!(pages.is_empty());
                        continue;
                    };
                    check(&spaces, id, pages)?;
                    sampled.push((id, pages.clone()));
                }
            }
            for (id, pages) in sampled {
                check(&spaces, id, &pages)?;
            }
        }

        #[test]
        fn mappings_are_in_order_and_apart(steps in prop::collection::vec(step(), 0..40)) {
            let mut spaces = Spaces::default();
            for step in steps {
                apply(step, &mut spaces, &mut Model::new());
            }
            for generation in spaces.all() {
                prop_assert!(generation.mappings.iter().all(|mapping| mapping.start < mapping.end));
                let is_apart = |pair: &[Mapping]| pair[0].end <= pair[1].start;
                prop_assert!(generation.mappings.windows(2).all(is_apart));
            }
        }
    }
}
