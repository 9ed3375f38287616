//! Address space that processes map by `mmap`, `mremap` and `brk` without files.
//!
//! Pure bookkeeping, as for heap blocks, except that a mapping may be released in parts or replaced.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use wingbeat_profiler_abi::space::{SpaceRecord, call};

use super::site_sums::{SiteId, SiteKey, Sums};
use crate::model::Amount;

/// The memory of one mapping call, or a remaining part of it. Its key is the start.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Piece {
    end: u64,
    /// Size of the whole call.
    whole_bytes: u64,
    site: SiteId,
    since_ns: u64,
}

impl Piece {
    /// The amount for a part of it.
    fn amount(&self, bytes: u64) -> Amount {
        Amount {
            blocks: bytes as f64 / self.whole_bytes.max(1) as f64,
            bytes: bytes as f64,
            variance: 0.0,
            samples: 1,
        }
    }
}

/// State of a process.
#[derive(Debug, Default)]
struct Space {
    pieces: BTreeMap<u64, Piece>,
    /// End of the heap that `brk` moves, once known.
    break_at: Option<u64>,
}

/// The mapped memory of all targets.
#[derive(Debug, Default)]
pub(crate) struct MappedMemory {
    pub sums: Sums,
    by_process: FxHashMap<u32, Space>,
    page_bytes: u64,
    /// Calls that released memory and their bytes, including memory mapped before the recording.
    pub unmapped: (u64, u64),
    /// Calls without their stack.
    pub without_stack: u64,
}

impl MappedMemory {
    pub(crate) fn new(page_bytes: u64) -> Self {
        Self { page_bytes, ..Self::default() }
    }

    /// Sets the end of a process's heap.
    pub(crate) fn set_break(&mut self, pid: u32, address: u64) {
        self.by_process.entry(pid).or_default().break_at = Some(address);
    }

    /// Copies the parent's mappings to a child, attributed to the parent.
    pub(crate) fn fork(&mut self, parent: u32, child: u32) {
        let break_at = self.by_process.get(&parent).and_then(|space| space.break_at);
        self.by_process.insert(child, Space { break_at, ..Space::default() });
    }

    /// Handles a call, with its site if known.
    pub(crate) fn called(&mut self, record: &SpaceRecord, key: Option<SiteKey>) {
        let time_ns = record.time_ns;
        let start = record.address;
        let end = start.saturating_add(self.whole_pages(record.bytes));
        match record.call {
            call::MAP => self.insert(record, (start, end), key),
            call::UNMAP => {
                let known = self.remove(record.pid, (start, end), time_ns);
                self.count_unmapped(if known > 0 { known } else { end - start });
            }
            call::COVER => {
                let known = self.remove(record.pid, (start, end), time_ns);
                if known > 0 {
                    self.count_unmapped(known);
                }
            }
            call::BREAK => self.moved_break(record, key),
            call::REMAP => {
                let old = record.old_address;
                let old_end = old.saturating_add(self.whole_pages(record.old_bytes));
                if end - start <= old_end - old {
                    self.shrink(record, (old, old_end), (start, end));
                    return;
                }
                let known = self.remove(record.pid, (old, old_end), time_ns);
                self.remove(record.pid, (start, end), time_ns);
                // For memory mapped before the recording, only the growth is new.
                let new_from = if known > 0 { start } else { start.saturating_add(old_end - old) };
                self.insert(record, (new_from, end), key);
            }
            _ => {}
        }
    }

    /// Shrinks and possibly moves a mapping, which keeps its site.
    fn shrink(&mut self, record: &SpaceRecord, old: (u64, u64), new: (u64, u64)) {
        let kept_end = old.0.saturating_add(new.1 - new.0);
        self.remove(record.pid, (kept_end, old.1), record.time_ns);
        if old.1 > kept_end {
            self.count_unmapped(old.1 - kept_end);
        }
        if new.0 == old.0 {
            return;
        }
        self.remove(record.pid, new, record.time_ns);
        let Some(space) = self.by_process.get_mut(&record.pid) else { return };
        // A mapping that extends beyond the range on either side was not mapped by one call, and is not moved.
        let moved: Vec<(u64, Piece)> =
            space.pieces.range(old.0..kept_end).map(|it| (*it.0, *it.1)).collect();
        for (at, piece) in moved.into_iter().filter(|(_, piece)| piece.end <= kept_end) {
            space.pieces.remove(&at);
            let to = |address: u64| address.wrapping_sub(old.0).wrapping_add(new.0);
            space.pieces.insert(to(at), Piece { end: to(piece.end), ..piece });
        }
    }

    fn moved_break(&mut self, record: &SpaceRecord, key: Option<SiteKey>) {
        let new = record.address;
        let before = self.by_process.entry(record.pid).or_default().break_at.replace(new);
        let Some(before) = before else { return };
        let (before, new) = (self.whole_pages(before), self.whole_pages(new));
        if new < before {
            self.remove(record.pid, (new, before), record.time_ns);
            self.count_unmapped(before - new);
        } else {
            self.insert(record, (before, new), key);
        }
    }

    fn insert(&mut self, record: &SpaceRecord, (start, end): (u64, u64), key: Option<SiteKey>) {
        if start >= end {
            return;
        }
        self.remove(record.pid, (start, end), record.time_ns);
        let Some(key) = key else {
            self.without_stack += 1;
            return;
        };
        let site = self.sums.site(key);
        let piece = Piece { end, whole_bytes: end - start, site, since_ns: record.time_ns };
        self.sums.begin(site, piece.amount(end - start), record.time_ns);
        self.by_process.entry(record.pid).or_default().pieces.insert(start, piece);
    }

    /// Releases a range. Returns how many bytes of it were known.
    fn remove(&mut self, pid: u32, (start, end): (u64, u64), time_ns: u64) -> u64 {
        let Self { by_process, sums, .. } = self;
        let Some(space) = by_process.get_mut(&pid) else { return 0 };
        let mut known = 0;
        while let Some((&at, &piece)) = space.pieces.range(..end).next_back() {
            if piece.end <= start {
                break;
            }
            space.pieces.remove(&at);
            if piece.end > end {
                space.pieces.insert(end, piece);
            }
            if at < start {
                space.pieces.insert(at, Piece { end: start, ..piece });
            }
            let bytes = piece.end.min(end) - at.max(start);
            let lifetime_ns = time_ns.saturating_sub(piece.since_ns);
            sums.end(piece.site, piece.amount(bytes), lifetime_ns);
            known += bytes;
        }
        known
    }

    fn count_unmapped(&mut self, bytes: u64) {
        self.unmapped.0 += 1;
        self.unmapped.1 = self.unmapped.1.saturating_add(bytes);
    }

    /// Handles a process that exited or called `exec`. What it had at its exit counts as never released.
    pub(crate) fn gone(&mut self, pid: u32, time_ns: u64, is_exec: bool) {
        let Some(space) = self.by_process.remove(&pid) else { return };
        for (start, piece) in space.pieces {
            let amount = piece.amount(piece.end - start);
            let lifetime_ns = time_ns.saturating_sub(piece.since_ns);
            match is_exec {
                true => self.sums.end(piece.site, amount, lifetime_ns),
                false => self.sums.keep(piece.site, amount, lifetime_ns),
            }
        }
    }

    /// Closes the account at the end of the recording.
    pub(crate) fn finish(&mut self, end_ns: u64) {
        let pids: Vec<u32> = self.by_process.keys().copied().collect();
        pids.into_iter().for_each(|pid| self.gone(pid, end_ns, false));
    }

    fn whole_pages(&self, bytes: u64) -> u64 {
        bytes.checked_next_multiple_of(self.page_bytes).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::recorder::raw_stacks::RawStackId;

    const PAGE: u64 = 0x1000;

    /// Calls of one process, one per nanosecond.
    struct Case {
        mapped: MappedMemory,
        now_ns: u64,
    }

    impl Case {
        fn new() -> Self {
            Self { mapped: MappedMemory::new(PAGE), now_ns: 0 }
        }

        fn call(&mut self, record: SpaceRecord, stack: RawStackId) {
            self.now_ns += 1;
            let record = SpaceRecord { pid: 1, time_ns: self.now_ns, ..record };
            self.mapped.called(&record, Some(SiteKey { process: 0, stack }));
        }

        fn map(&mut self, address: u64, bytes: u64, stack: RawStackId) {
            let record = SpaceRecord { call: call::MAP, address, bytes, ..SpaceRecord::EMPTY };
            self.call(record, stack);
        }

        fn unmap(&mut self, address: u64, bytes: u64) {
            let record = SpaceRecord { call: call::UNMAP, address, bytes, ..SpaceRecord::EMPTY };
            self.call(record, 0);
        }

        fn brk(&mut self, address: u64, stack: RawStackId) {
            self.call(SpaceRecord { call: call::BREAK, address, ..SpaceRecord::EMPTY }, stack);
        }

        fn remap(&mut self, old: (u64, u64), new: (u64, u64), stack: RawStackId) {
            let record = SpaceRecord {
                call: call::REMAP,
                address: new.0,
                bytes: new.1,
                old_address: old.0,
                old_bytes: old.1,
                ..SpaceRecord::EMPTY
            };
            self.call(record, stack);
        }

        /// Checks a stack's total bytes and those at the end.
        fn check(&self, stack: RawStackId, expected: (u64, u64)) {
            let site = self.mapped.sums.of(stack);
            assert_eq!((site.total.bytes(), site.at_end.bytes()), expected, "{site:?}");
        }
    }

    #[test]
    fn parts_are_given_back() {
        let mut case = Case::new();
        case.map(0x10000, 4 * PAGE - 5, 1);
        case.unmap(0x11000, PAGE);
        case.unmap(0x13000, 7 * PAGE);
        case.mapped.finish(9);
        case.check(1, (4 * PAGE, 2 * PAGE));
        let site = case.mapped.sums.of(1);
        assert_eq!((site.total.blocks, site.at_end.blocks), (1.0, 0.5));
        assert_eq!(case.mapped.unmapped, (2, 2 * PAGE));
        assert_eq!((case.mapped.sums.peak.bytes(), case.mapped.sums.peak_ns), (4 * PAGE, 1));
    }

    #[test]
    fn the_break_grows_and_shrinks_from_where_it_was() {
        let mut case = Case::new();
        case.brk(0x50123, 1);
        case.brk(0x53000, 2);
        case.brk(0x53001, 3);
        case.brk(0x52000, 4);
        case.mapped.finish(9);
        // From the page after the first break.
        case.check(2, (2 * PAGE, PAGE));
        case.check(3, (PAGE, 0));
        assert_eq!(case.mapped.sums.sites.len(), 2);
        assert_eq!(case.mapped.unmapped, (1, 2 * PAGE));
    }

    #[test]
    fn a_mapping_that_moves_is_of_who_moved_it() {
        let mut case = Case::new();
        case.map(0x10000, 2 * PAGE, 1);
        case.remap((0x10000, 2 * PAGE), (0x80000, 5 * PAGE), 2);
        // Only the growth of this one is known.
        case.remap((0x200000, 2 * PAGE), (0x300000, 3 * PAGE), 3);
        case.remap((0x400000, 2 * PAGE), (0x400000, PAGE), 4);
        case.mapped.finish(9);
        case.check(1, (2 * PAGE, 0));
        case.check(2, (5 * PAGE, 5 * PAGE));
        case.check(3, (PAGE, PAGE));
        assert_eq!(case.mapped.sums.sites.len(), 3);
        assert_eq!(case.mapped.unmapped, (1, PAGE));
    }

    #[test]
    fn a_mapping_that_shrinks_is_of_who_asked_for_it() {
        let mut case = Case::new();
        case.map(0x10000, 4 * PAGE, 1);
        case.remap((0x10000, 4 * PAGE), (0x10000, 3 * PAGE), 2);
        case.remap((0x10000, 3 * PAGE), (0x80000, 2 * PAGE), 3);
        assert_eq!(case.mapped.unmapped, (2, 2 * PAGE));
        // It is at the destination, and nowhere else.
        case.unmap(0x10000, 8 * PAGE);
        case.unmap(0x81000, PAGE);
        case.mapped.finish(9);
        case.check(1, (4 * PAGE, PAGE));
        assert_eq!(case.mapped.sums.sites.len(), 1);
    }

    #[test]
    fn a_file_over_memory_gives_it_back() {
        let mut case = Case::new();
        case.map(0x10000, 2 * PAGE, 1);
        let cover = |address, bytes| SpaceRecord {
            call: call::COVER,
            address,
            bytes,
            ..SpaceRecord::EMPTY
        };
        case.call(cover(0x11000, 5 * PAGE), 2);
        // Over another file.
        case.call(cover(0x90000, 5 * PAGE), 2);
        case.mapped.finish(9);
        case.check(1, (2 * PAGE, PAGE));
        assert_eq!(case.mapped.unmapped, (1, PAGE));
    }

    #[test]
    fn what_is_gone_with_its_process() {
        let mut case = Case::new();
        case.map(0x10000, PAGE, 1);
        case.mapped.gone(1, 2, true);
        case.map(0x10000, PAGE, 2);
        case.mapped.gone(1, 3, false);
        case.brk(0x50000, 3);
        case.mapped.fork(1, 2);
        let record =
            SpaceRecord { call: call::BREAK, address: 0x51000, pid: 2, ..SpaceRecord::EMPTY };
        case.mapped.called(&record, Some(SiteKey { process: 1, stack: 4 }));
        case.mapped.finish(9);
        case.check(1, (PAGE, 0));
        case.check(2, (PAGE, PAGE));
        case.check(4, (PAGE, PAGE));
        assert_eq!(case.mapped.without_stack, 0);
    }

    #[test]
    fn numbers_that_cannot_be() {
        let mut case = Case::new();
        case.map(u64::MAX - 5, u64::MAX, 1);
        case.unmap(u64::MAX, u64::MAX);
        case.brk(u64::MAX, 1);
        case.brk(0, 1);
        case.remap((u64::MAX, u64::MAX), (u64::MAX, u64::MAX), 1);
        case.mapped.called(&SpaceRecord { call: 99, ..SpaceRecord::EMPTY }, None);
        case.mapped.finish(0);
    }

    proptest! {
        /// Compares with a table of pages.
        #[test]
        fn each_page_is_of_who_mapped_it_last(
            steps in proptest::collection::vec((0..12_u64, 1..6_u64, any::<bool>()), 1..40),
        ) {
            let mut case = Case::new();
            let mut model: BTreeMap<u64, RawStackId> = BTreeMap::new();
            for (stack, &(first, pages, is_map)) in (1..).zip(&steps) {
                let range = first..first + pages;
                match is_map {
                    true => {
                        case.map(first * PAGE, pages * PAGE, stack);
                        model.extend(range.map(|page| (page, stack)));
                    }
                    false => {
                        case.unmap(first * PAGE, pages * PAGE);
                        model.retain(|page, _| !range.contains(page));
                    }
                }
            }
            case.mapped.finish(99);
            for site in &case.mapped.sums.sites {
                let pages = model.values().filter(|&&stack| stack == site.key.stack).count();
                prop_assert_eq!(site.at_end.bytes(), pages as u64 * PAGE);
            }
        }
    }
}
