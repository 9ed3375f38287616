//! Lifecycle of blocks: sums by allocation site, with the live amounts at the peak and at the end.
//!
//! A sampled block stands for others: with the mean distance R between samples, a block of s bytes is sampled with
//! probability p = 1 − e^(−s/R), and counts 1/p times (Horvitz & Thompson, "A Generalization of Sampling Without
//! Replacement From a Finite Universe", Journal of the American Statistical Association 47, 1952). The sums are
//! unbiased, and their variance is the sum of s²(1 − p)/p².

use rustc_hash::FxHashMap;
use wingbeat_profiler_abi::heap::{AllocationRecord, FreeRecord};

use super::site_sums::{SiteId, SiteKey, Sums};
use crate::model::Amount;

/// A live block.
#[derive(Debug, Clone, Copy)]
struct Live {
    site: SiteId,
    amount: Amount,
}

/// Identifies a block by process, address and allocation time.
type Key = (u32, u64, u64);

/// The site that a call belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    Site(SiteKey),
    /// An allocator function that called another one: the block belongs to the outer call.
    Allocator,
}

/// All blocks of a recording.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// Mean bytes between two samples; 0 if every allocation was recorded.
    pub sample_bytes: u32,
    pub sums: Sums,
    live: FxHashMap<Key, Live>,
    /// Recorded allocations.
    pub taken: u64,
    pub nested: u64,
    /// Allocations without their stack.
    pub without_stack: u64,
}

impl Blocks {
    pub(crate) fn new(sample_bytes: u32) -> Self {
        Self { sample_bytes, ..Self::default() }
    }

    /// Adds a block, with its caller if known.
    pub(crate) fn allocated(&mut self, record: &AllocationRecord, caller: Option<Caller>) {
        let key = match caller {
            Some(Caller::Site(key)) => key,
            Some(Caller::Allocator) => {
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
        let site = self.sums.site(key);
        if record.is_untracked != 0 {
            self.sums.add(site, amount);
            return;
        }
        self.sums.begin(site, amount, record.time_ns);
        self.live.insert((record.pid, record.address, record.time_ns), Live { site, amount });
    }

    /// Handles the free of a block.
    pub(crate) fn freed(&mut self, record: &FreeRecord) {
        let key = (record.pid, record.address, record.since_ns);
        if let Some(Live { site, amount }) = self.live.remove(&key) {
            self.sums.end(site, amount, record.time_ns.saturating_sub(record.since_ns));
        }
    }

    /// Handles a process that exited or called `exec`, which released its memory. What it had at its exit counts
    /// as never freed.
    pub(crate) fn gone(&mut self, pid: u32, time_ns: u64, is_exec: bool) {
        for ((.., since_ns), Live { site, amount }) in self.live.extract_if(|key, _| key.0 == pid) {
            let lifetime_ns = time_ns.saturating_sub(since_ns);
            match is_exec {
                true => self.sums.end(site, amount, lifetime_ns),
                false => self.sums.keep(site, amount, lifetime_ns),
            }
        }
    }

    /// Closes the account at the end of the recording.
    pub(crate) fn finish(&mut self, end_ns: u64) {
        for ((.., since_ns), Live { site, amount }) in self.live.drain() {
            self.sums.keep(site, amount, end_ns.saturating_sub(since_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{heap::site_sums::RawSite, recorder::raw_stacks::RawStackId};

    fn caller(stack: RawStackId) -> Option<Caller> {
        Some(Caller::Site(SiteKey { process: 0, stack }))
    }

    /// Plays allocations (time, address, size, stack) and frees (time, address, since), in order.
    struct Case(Blocks);

    impl Case {
        fn new(sample_bytes: u32) -> Self {
            Self(Blocks::new(sample_bytes))
        }

        fn allocate(&mut self, time_ns: u64, address: u64, size: u64, stack: RawStackId) {
            let record = AllocationRecord {
                pid: 1,
                tid: 1,
                address,
                size,
                stack_ns: time_ns,
                time_ns,
                ..AllocationRecord::EMPTY
            };
            self.0.allocated(&record, caller(stack));
        }

        fn free(&mut self, time_ns: u64, address: u64, since_ns: u64) {
            let record = FreeRecord { pid: 1, address, since_ns, time_ns, ..FreeRecord::EMPTY };
            self.0.freed(&record);
        }

        fn site(&self, stack: RawStackId) -> RawSite {
            self.0.sums.of(stack)
        }
    }

    #[test]
    fn the_worst_moment_is_that_of_all_sites_together() {
        let mut case = Case::new(0);
        case.allocate(1, 0x10, 100, 1);
        case.allocate(2, 0x20, 50, 2);
        case.free(3, 0x10, 1);
        case.allocate(4, 0x30, 30, 2);
        case.allocate(5, 0x40, 10, 1);
        case.free(6, 0x40, 5);
        case.0.finish(10);
        assert_eq!((case.0.sums.peak.bytes, case.0.sums.peak_ns), (150.0, 2));
        let (first, second) = (case.site(1), case.site(2));
        assert_eq!((first.at_peak.bytes, second.at_peak.bytes), (100.0, 50.0));
        assert_eq!((first.own_peak.bytes, second.own_peak.bytes), (100.0, 80.0));
        assert_eq!((first.total.bytes, first.total.blocks), (110.0, 2.0));
        assert_eq!((first.at_end.bytes, second.at_end.bytes), (0.0, 80.0));
        // 2 and 1 of the first; 8 and 6 of the second, which are live at the end.
        assert_eq!((first.lifetime_ns, second.lifetime_ns), (3.0, 14.0));
    }

    #[test]
    fn an_address_that_is_used_again_is_another_block() {
        let mut case = Case::new(0);
        case.allocate(1, 0x10, 100, 1);
        case.allocate(2, 0x10, 7, 2);
        // The free of the first arrives late.
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
            assert_eq!(case.0.sums.current.bytes, 100.0, "another process");
            case.0.gone(1, 3, is_exec);
            assert_eq!(case.0.sums.current.bytes, 0.0);
            case.0.finish(9);
            assert_eq!((case.site(1).at_end.bytes, case.site(1).lifetime_ns), (expected, 2.0));
            assert_eq!(case.0.sums.peak.bytes, 100.0);
        };
        check(false, 100.0);
        check(true, 0.0);
    }

    #[test]
    fn calls_that_are_not_counted() {
        let mut case = Case::new(0);
        let record = AllocationRecord { tid: 1, stack_ns: 5, size: 8, ..AllocationRecord::EMPTY };
        case.0.allocated(&record, None);
        case.0.allocated(&record, Some(Caller::Allocator));
        let untracked = AllocationRecord { is_untracked: 1, ..record };
        case.0.allocated(&untracked, caller(7));
        let Blocks { without_stack, nested, taken, .. } = case.0;
        assert_eq!((without_stack, nested, taken), (1, 1, 1));
        assert_eq!((case.site(7).total.bytes, case.site(7).at_end.bytes), (8.0, 0.0));
    }
}
