//! Sums by place: what it allocated, how much of that is live, was at the worst moment, and is at the end.

use rustc_hash::FxHashMap;

use crate::{
    model::{Amount, Site, StackId, ThreadId},
    recorder::intern::RawStackId,
};

/// Where something was allocated: a stack, of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// The first thread of the process.
    pub process: ThreadId,
    pub stack: RawStackId,
}

/// An index of [`Sums::sites`].
pub(crate) type SiteId = u32;

/// What a place allocated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RawSite {
    pub place: Place,
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
            thread: self.place.process,
            stack,
            total: self.total,
            own_peak: self.own_peak,
            at_peak: self.at_peak,
            at_end: self.at_end,
            lifetime_ns: self.lifetime_ns,
        }
    }
}

/// The sums of all places.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub sites: Vec<RawSite>,
    by_place: FxHashMap<Place, SiteId>,
    pub current: Amount,
    pub peak: Amount,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub peak_ns: u64,
    changed: Vec<SiteId>,
}

impl Sums {
    pub(crate) fn site(&mut self, place: Place) -> SiteId {
        let sites = &mut self.sites;
        *self.by_place.entry(place).or_insert_with(|| {
            let none = Amount::default();
            sites.push(RawSite {
                place,
                total: none,
                live: none,
                own_peak: none,
                at_peak: none,
                at_end: none,
                lifetime_ns: 0.0,
                is_changed: false,
            });
            (sites.len() - 1) as SiteId
        })
    }

    /// A place allocated something whose end will not be told.
    pub(crate) fn add(&mut self, id: SiteId, amount: Amount) {
        self.sites[id as usize].total += amount;
    }

    /// A place allocated something, which is live from now on.
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
            // Until something is freed, it may become more.
            self.peak_ns = time_ns;
        }
    }

    /// What was live for so long is live no more.
    pub(crate) fn end(&mut self, id: SiteId, amount: Amount, lifetime_ns: u64) {
        self.take_peak();
        let site = &mut self.sites[id as usize];
        site.live -= amount;
        site.lifetime_ns += amount.blocks * lifetime_ns as f64;
        self.current -= amount;
        self.change(id);
    }

    /// The same of what was never freed.
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

    /// The site of a stack, for tests.
    #[cfg(test)]
    pub(crate) fn of(&self, stack: RawStackId) -> RawSite {
        *self.sites.iter().find(|site| site.place.stack == stack).expect("a site")
    }
}
