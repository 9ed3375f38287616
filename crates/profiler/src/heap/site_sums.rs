//! Sums by allocation site: allocated, live, live at the peak, and live at the end.

use rustc_hash::FxHashMap;

use crate::{
    model::{Amount, Site, StackId, ThreadId},
    recorder::raw_stacks::RawStackId,
};

/// Identifies an allocation site: a stack of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct SiteKey {
    /// The first thread of the process.
    pub process: ThreadId,
    pub stack: RawStackId,
}

/// An index of [`Sums::sites`].
pub(crate) type SiteId = u32;

/// Sums of a site.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct RawSite {
    pub key: SiteKey,
    pub total: Amount,
    /// Live now.
    live: Amount,
    /// Peak of this site alone, in bytes.
    pub own_peak: Amount,
    /// Live at the peak of all sites together.
    pub at_peak: Amount,
    /// Never freed.
    pub at_end: Amount,
    /// Sum over all blocks, in nanoseconds, until their free or the end of the recording.
    pub lifetime_ns: f64,
    /// Changed since the last peak.
    is_changed: bool,
}

impl RawSite {
    /// Converts to a site with a symbolized stack.
    pub(crate) fn named(&self, stack: StackId) -> Site {
        Site {
            thread: self.key.process,
            stack,
            total: self.total,
            own_peak: self.own_peak,
            at_peak: self.at_peak,
            at_end: self.at_end,
            lifetime_ns: self.lifetime_ns,
        }
    }
}

/// Sums of all sites.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub sites: Vec<RawSite>,
    by_key: FxHashMap<SiteKey, SiteId>,
    pub current: Amount,
    pub peak: Amount,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub peak_ns: u64,
    changed: Vec<SiteId>,
}

impl Sums {
    pub(crate) fn site(&mut self, key: SiteKey) -> SiteId {
        let sites = &mut self.sites;
        *self.by_key.entry(key).or_insert_with(|| {
            sites.push(RawSite { key, ..RawSite::default() });
            (sites.len() - 1) as SiteId
        })
    }

    /// Adds an allocation whose free will not be reported.
    pub(crate) fn add(&mut self, id: SiteId, amount: Amount) {
        self.sites[id as usize].total += amount;
    }

    /// Adds an allocation, which becomes live.
    pub(crate) fn begin(&mut self, id: SiteId, amount: Amount, time_ns: u64) {
        let site = &mut self.sites[id as usize];
        site.total += amount;
        site.live += amount;
        if site.live.bytes > site.own_peak.bytes {
            site.own_peak = site.live;
        }
        self.current += amount;
        self.change(id);
        if self.current.bytes > self.peak.bytes {
            // The peak may rise further until something is freed.
            self.peak_ns = time_ns;
        }
    }

    /// Removes a live amount after its lifetime.
    pub(crate) fn end(&mut self, id: SiteId, amount: Amount, lifetime_ns: u64) {
        self.take_peak();
        let site = &mut self.sites[id as usize];
        site.live -= amount;
        site.lifetime_ns += amount.blocks * lifetime_ns as f64;
        self.current -= amount;
        self.change(id);
    }

    /// Same as [`end`](Self::end), for an amount that was never freed.
    pub(crate) fn keep(&mut self, id: SiteId, amount: Amount, lifetime_ns: u64) {
        self.end(id, amount, lifetime_ns);
        self.sites[id as usize].at_end += amount;
    }

    fn change(&mut self, id: SiteId) {
        let site = &mut self.sites[id as usize];
        if !site.is_changed {
            site.is_changed = true;
            self.changed.push(id);
        }
    }

    /// Records the live amounts if they are a new peak. Sites that have not changed since the last peak are up to date.
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

    /// The site of a stack, for tests.
    #[cfg(test)]
    pub(crate) fn of(&self, stack: RawStackId) -> RawSite {
        *self.sites.iter().find(|site| site.key.stack == stack).expect("a site")
    }
}
