//! What became of the blocks: sums by the place that allocated them, how much was live at the worst moment, and at the
//! end.
//!
//! A sampled block stands for others: with the mean distance R between samples, one of s bytes is sampled with the
//! probability p = 1 − e^(−s/R), and counts 1/p times (Horvitz & Thompson, "A Generalization of Sampling Without
//! Replacement From a Finite Universe", Journal of the American Statistical Association 47, 1952). The sums are
//! unbiased, and their variance is the sum of s²(1 − p)/p².

use rustc_hash::FxHashMap;
use wingbeat_profile_common::heap::{AllocationRecord, FreeRecord};

use crate::{
    model::{Amount, Site, StackId, ThreadId},
    recorder::intern::RawStackId,
};

/// Where blocks were allocated: a stack, of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RawSite {
    /// The first thread of the process.
    pub process: ThreadId,
    pub stack: RawStackId,
    pub total: Amount,
    /// Live now.
    live: Amount,
    /// The most bytes that were live at once, of this place alone.
    pub own_peak: Amount,
    /// Live when all places together had most.
    pub at_peak: Amount,
    /// Never freed.
    pub at_end: Amount,
    /// Sum over all blocks, to their end or that of the recording, nanoseconds.
    pub lifetime_ns: f64,
    /// It changed since the last peak.
    is_changed: bool,
}

impl RawSite {
    /// The same by a stack with names.
    pub(crate) fn named(&self, stack: StackId) -> Site {
        Site {
            thread: self.process,
            stack,
            total: self.total,
            own_peak: self.own_peak,
            at_peak: self.at_peak,
            at_end: self.at_end,
            lifetime_ns: self.lifetime_ns,
        }
    }
}

/// A live block.
#[derive(Debug, Clone, Copy)]
struct Live {
    site: u32,
    amount: Amount,
}

/// A block by its process, its address, and when it was allocated.
type Key = (u32, u64, u64);

/// Where a stack that was sent belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Site {
        process: ThreadId,
        stack: RawStackId,
    },
    /// A function of the allocator called another one: the block is that of the outer call.
    Nested,
}

/// All blocks of a recording.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// Mean bytes between two samples; 0: every allocation was taken.
    pub sample_bytes: u32,
    pub sites: Vec<RawSite>,
    by_place: FxHashMap<(ThreadId, RawStackId), u32>,
    live: FxHashMap<Key, Live>,
    /// Stacks whose call has not returned, by thread and time.
    stacks: FxHashMap<(u32, u64), Place>,
    current: Amount,
    pub peak: Amount,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub peak_ns: u64,
    changed: Vec<u32>,
    /// Allocations that were taken.
    pub taken: u64,
    pub nested: u64,
    /// Allocations whose stack did not come.
    pub without_stack: u64,
}

impl Blocks {
    pub(crate) fn new(sample_bytes: u32) -> Self {
        Self { sample_bytes, ..Self::default() }
    }

    /// Takes the stack of a call.
    pub(crate) fn stack(&mut self, tid: u32, time_ns: u64, place: Place) {
        self.stacks.insert((tid, time_ns), place);
    }

    /// Takes a block.
    pub(crate) fn allocated(&mut self, record: &AllocationRecord) {
        let (process, stack) = match self.stacks.remove(&(record.tid, record.stack_ns)) {
            Some(Place::Site { process, stack }) => (process, stack),
            Some(Place::Nested) => {
                self.nested += 1;
                return;
            }
            None => {
                self.without_stack += 1;
                return;
            }
        };
        self.taken += 1;
        let amount = Amount::of_sample(record.size, self.sample_bytes);
        let sites = &mut self.sites;
        let id = *self.by_place.entry((process, stack)).or_insert_with(|| {
            sites.push(RawSite {
                process,
                stack,
                total: Amount::default(),
                live: Amount::default(),
                own_peak: Amount::default(),
                at_peak: Amount::default(),
                at_end: Amount::default(),
                lifetime_ns: 0.0,
                is_changed: false,
            });
            (sites.len() - 1) as u32
        });
        let site = &mut self.sites[id as usize];
        site.total += amount;
        if record.is_untracked != 0 {
            return;
        }
        site.live += amount;
        if site.live.bytes > site.own_peak.bytes {
            site.own_peak = site.live;
        }
        self.current += amount;
        self.change(id);
        let key = (record.pid, record.address, record.time_ns);
        self.live.insert(key, Live { site: id, amount });
        if self.current.bytes > self.peak.bytes {
            // Until something is freed, it may become more.
            self.peak_ns = record.time_ns;
        }
    }

    /// Takes the end of a block.
    pub(crate) fn freed(&mut self, record: &FreeRecord) {
        let key = (record.pid, record.address, record.since_ns);
        if let Some(live) = self.live.remove(&key) {
            self.end(key, live, record.time_ns);
        }
    }

    fn end(&mut self, key: Key, Live { site: id, amount }: Live, time_ns: u64) {
        self.take_peak();
        let site = &mut self.sites[id as usize];
        site.live -= amount;
        site.lifetime_ns += amount.blocks * time_ns.saturating_sub(key.2) as f64;
        self.current -= amount;
        self.change(id);
    }

    /// A process ended, or became another program: its memory is gone. What it had when it ended was never freed.
    pub(crate) fn gone(&mut self, pid: u32, time_ns: u64, is_exec: bool) {
        let keys: Vec<Key> = self.live.keys().filter(|key| key.0 == pid).copied().collect();
        for key in keys {
            let Some(live) = self.live.remove(&key) else { continue };
            self.end(key, live, time_ns);
            if !is_exec {
                self.sites[live.site as usize].at_end += live.amount;
            }
        }
    }

    /// Closes the account at the end of the recording.
    pub(crate) fn finish(&mut self, end_ns: u64) {
        self.take_peak();
        for (key, live) in std::mem::take(&mut self.live) {
            let site = &mut self.sites[live.site as usize];
            site.at_end += live.amount;
            site.lifetime_ns += live.amount.blocks * end_ns.saturating_sub(key.2) as f64;
        }
    }

    fn change(&mut self, id: u32) {
        let site = &mut self.sites[id as usize];
        if !site.is_changed {
            site.is_changed = true;
            self.changed.push(id);
        }
    }

    /// Notes what is live, if it never was more. Places that did not change since the last time have it noted already.
    fn take_peak(&mut self) {
        if self.current.bytes <= self.peak.bytes {
            return;
        }
        self.peak = self.current;
        for id in self.changed.drain(..) {
            let site = &mut self.sites[id as usize];
            site.at_peak = site.live;
            site.is_changed = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: Place = Place::Site { process: 0, stack: 7 };

    /// Takes blocks (time, address, size, stack) and ends (time, address, since), in order.
    struct Case(Blocks);

    impl Case {
        fn new(sample_bytes: u32) -> Self {
            Self(Blocks::new(sample_bytes))
        }

        fn allocate(&mut self, time_ns: u64, address: u64, size: u64, stack: RawStackId) {
            self.0.stack(1, time_ns, Place::Site { process: 0, stack });
            let record = AllocationRecord {
                pid: 1,
                tid: 1,
                address,
                size,
                stack_ns: time_ns,
                time_ns,
                ..AllocationRecord::EMPTY
            };
            self.0.allocated(&record);
        }

        fn free(&mut self, time_ns: u64, address: u64, since_ns: u64) {
            let record = FreeRecord { pid: 1, address, since_ns, time_ns, ..FreeRecord::EMPTY };
            self.0.freed(&record);
        }

        fn site(&self, stack: RawStackId) -> RawSite {
            *self.0.sites.iter().find(|site| site.stack == stack).expect("a site")
        }
    }

    #[test]
    fn the_worst_moment_is_that_of_all_places_together() {
        let mut case = Case::new(0);
        case.allocate(1, 0x10, 100, 1);
        case.allocate(2, 0x20, 50, 2);
        case.free(3, 0x10, 1);
        case.allocate(4, 0x30, 30, 2);
        case.allocate(5, 0x40, 10, 1);
        case.free(6, 0x40, 5);
        case.0.finish(10);
        assert_eq!((case.0.peak.bytes, case.0.peak_ns), (150.0, 2));
        let (first, second) = (case.site(1), case.site(2));
        assert_eq!((first.at_peak.bytes, second.at_peak.bytes), (100.0, 50.0));
        assert_eq!((first.own_peak.bytes, second.own_peak.bytes), (100.0, 80.0));
        assert_eq!((first.total.bytes, first.total.blocks), (110.0, 2.0));
        assert_eq!((first.at_end.bytes, second.at_end.bytes), (0.0, 80.0));
        // 2 and 1 of the first; 8 and 6 of the second, which are there at the end.
        assert_eq!((first.lifetime_ns, second.lifetime_ns), (3.0, 14.0));
    }

    #[test]
    fn an_address_that_is_used_again_is_another_block() {
        let mut case = Case::new(0);
        case.allocate(1, 0x10, 100, 1);
        case.allocate(2, 0x10, 7, 2);
        // The end of the first comes late.
        case.free(3, 0x10, 1);
        case.0.finish(4);
        assert_eq!((case.site(1).at_end.bytes, case.site(2).at_end.bytes), (0.0, 7.0));
        case.free(5, 0x99, 1);
    }

    #[test]
    fn what_a_process_had_at_its_end_was_never_freed() {
        let check = |is_exec: bool, expected: f64| {
            let mut case = Case::new(0);
            case.allocate(1, 0x10, 100, 1);
            case.0.gone(2, 2, is_exec);
            assert_eq!(case.0.current.bytes, 100.0, "another process");
            case.0.gone(1, 3, is_exec);
            assert_eq!(case.0.current.bytes, 0.0);
            case.0.finish(9);
            assert_eq!((case.site(1).at_end.bytes, case.site(1).lifetime_ns), (expected, 2.0));
            assert_eq!(case.0.peak.bytes, 100.0);
        };
        check(false, 100.0);
        check(true, 0.0);
    }

    #[test]
    fn calls_that_are_not_counted() {
        let mut case = Case::new(0);
        let record = AllocationRecord { tid: 1, stack_ns: 5, size: 8, ..AllocationRecord::EMPTY };
        case.0.allocated(&record);
        case.0.stack(1, 5, Place::Nested);
        case.0.allocated(&record);
        case.0.stack(1, 5, STACK);
        case.0.allocated(&AllocationRecord { is_untracked: 1, ..record });
        let Blocks { without_stack, nested, taken, .. } = case.0;
        assert_eq!((without_stack, nested, taken), (1, 1, 1));
        assert_eq!((case.site(7).total.bytes, case.site(7).at_end.bytes), (8.0, 0.0));
    }
}
