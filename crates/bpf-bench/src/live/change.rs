//! Counters of programs at one time, and the runs and time of each program between two readings.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use rustix::time::{ClockId, clock_gettime};
use wingbeat_bpf_loader::program::ProgramInfo;

/// Reading of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Time of the reading, nanoseconds since boot.
    pub at_ns: u64,
    pub info: ProgramInfo,
}

/// Counters of programs at one time, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Start of the reading, nanoseconds since boot. Reading many programs takes milliseconds, so
    /// each also has its own time.
    pub at_ns: u64,
    pub entries: BTreeMap<u32, Entry>,
}

impl Reading {
    /// Begins an empty reading now.
    pub fn begin() -> Self {
        Self { at_ns: now_ns(), entries: BTreeMap::new() }
    }

    /// Adds a program that was just read.
    pub fn add(&mut self, info: ProgramInfo) {
        self.entries.insert(info.id, Entry { at_ns: now_ns(), info });
    }
}

/// `CLOCK_BOOTTIME`, the clock of the kernel's program load times (`bpf_prog_load`, kernel/bpf/syscall.c, Linux 6.18).
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// Runs and time of one program over an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    pub interval_ns: u64,
    pub runs: u64,
    /// Total time of the runs, summed over all CPUs.
    pub run_time_ns: u64,
    /// Runs skipped by the kernel because the program was already running on that CPU.
    pub recursion_misses: u64,
}

impl Rates {
    pub fn runs_per_s(&self) -> f64 {
        per(self.runs, 1e9, self.interval_ns)
    }

    /// Mean time of a run; `None` without runs.
    pub fn time_per_run_ns(&self) -> Option<f64> {
        (self.runs > 0).then(|| self.run_time_ns as f64 / self.runs as f64)
    }

    /// Share of one CPU in percent, as in top(1): may exceed 100 with several CPUs.
    pub fn cpu_percent(&self) -> f64 {
        per(self.run_time_ns, 100.0, self.interval_ns)
    }
}

fn per(count: u64, unit: f64, interval_ns: u64) -> f64 {
    if interval_ns == 0 { 0.0 } else { count as f64 * unit / interval_ns as f64 }
}

/// A program of the later reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Program info at the later reading.
    pub info: ProgramInfo,
    /// Activity since the earlier reading; `None` if unknown, because the program was already
    /// loaded but missed by that reading.
    pub rates: Option<Rates>,
}

/// Changes between two readings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Time between the two readings.
    pub interval_ns: u64,
    /// Programs of the later reading, by ascending id.
    pub programs: Vec<Counted>,
    /// Ids of programs that are new in the later reading.
    pub appeared: Vec<u32>,
    /// Programs that only the earlier reading had, as of then. Their later activity is unknown.
    pub vanished: Vec<ProgramInfo>,
}

impl Change {
    /// Compares two readings. Identifies programs by id, tag and load time: the kernel wraps around
    /// ids when all are used up.
    pub fn between(before: &Reading, after: &Reading) -> Self {
        let mut change =
            Self { interval_ns: after.at_ns.saturating_sub(before.at_ns), ..Self::default() };
        for (id, entry) in &after.entries {
            let earlier = before.entries.get(id).filter(|earlier| goes_on(earlier, entry));
            let rates = match earlier {
                Some(earlier) => rates(earlier, entry),
                None => {
                    change.appeared.push(*id);
                    rates_since_loaded(before.at_ns, entry)
                }
            };
            change.programs.push(Counted { info: entry.info.clone(), rates });
        }
        let went_on = |(id, earlier): &(&u32, &Entry)| {
            after.entries.get(id).is_some_and(|entry| goes_on(earlier, entry))
        };
        let vanished = before.entries.iter().filter(|pair| !went_on(pair));
        change.vanished = vanished.map(|(_, entry)| entry.info.clone()).collect();
        change
    }
}

/// Whether `after` is a later reading of the same program. Counters never decrease; if they do, it is another program.
fn goes_on(before: &Entry, after: &Entry) -> bool {
    let (old, new) = (&before.info, &after.info);
    old.tag == new.tag
        && old.loaded_at_ns == new.loaded_at_ns
        && old.run_count <= new.run_count
        && old.run_time_ns <= new.run_time_ns
        && old.recursion_misses <= new.recursion_misses
}

fn rates(before: &Entry, after: &Entry) -> Option<Rates> {
    Some(Rates {
        interval_ns: after.at_ns.checked_sub(before.at_ns).filter(|&interval| interval > 0)?,
        runs: after.info.run_count.checked_sub(before.info.run_count)?,
        run_time_ns: after.info.run_time_ns.checked_sub(before.info.run_time_ns)?,
        recursion_misses: after.info.recursion_misses.checked_sub(before.info.recursion_misses)?,
    })
}

/// All activity of a program, if it was loaded after the earlier reading began.
fn rates_since_loaded(before_ns: u64, after: &Entry) -> Option<Rates> {
    let info = &after.info;
    (info.loaded_at_ns >= before_ns && after.at_ns > before_ns).then(|| Rates {
        interval_ns: after.at_ns - before_ns,
        runs: info.run_count,
        run_time_ns: info.run_time_ns,
        recursion_misses: info.recursion_misses,
    })
}
