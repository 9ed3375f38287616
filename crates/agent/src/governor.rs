//! Keeps the agent below a CPU share: measures its own use, reduces its recording rates, and raises them again.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

/// Windows above the limit before rates are reduced: a single one may be from a new program with many names.
const PATIENCE: u32 = 2;

/// Windows far below the limit before rates are raised.
const CALM: u32 = 8;

/// Maximum number of halvings: 1 of 64 remains.
const HALVINGS_MAX: u32 = 6;

/// Chooses the recording rates.
#[derive(Debug)]
pub(crate) struct Governor {
    /// Share of a CPU.
    limit: f64,
    halvings: u32,
    above: u32,
    below: u32,
}

impl Governor {
    /// Creates a governor for a share of one CPU.
    pub(crate) fn new(limit: f64) -> Self {
        Self { limit, halvings: 0, above: 0, below: 0 }
    }

    /// Processes a window's CPU share. Returns the new number of halvings if it changed.
    pub(crate) fn next(&mut self, share: f64) -> Option<u32> {
        let is_above = share > self.limit;
        // Twice as much would still be below.
        let is_below = share < self.limit * 0.4 && self.halvings > 0;
        self.above = if is_above { self.above + 1 } else { 0 };
        self.below = if is_below { self.below + 1 } else { 0 };
        let halvings = if self.above >= PATIENCE {
            (self.halvings + 1).min(HALVINGS_MAX)
        } else if self.below >= CALM {
            self.halvings - 1
        } else {
            return None;
        };
        (self.above, self.below) = (0, 0);
        let is_new = halvings != self.halvings;
        self.halvings = halvings;
        is_new.then_some(halvings)
    }
}

/// Measures CPU time and memory of this process.
#[derive(Debug)]
pub(crate) struct OwnMeter {
    cpu_ns: u64,
    at: Instant,
}

/// Resource use since the last measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OwnUse {
    /// Share of one CPU.
    pub cpu_share: f64,
    /// CPU time since the start, in nanoseconds.
    pub cpu_ns: u64,
    /// Resident memory, in bytes.
    pub rss_bytes: u64,
}

impl OwnMeter {
    /// Starts measuring.
    pub(crate) fn start() -> Self {
        Self { cpu_ns: cpu_ns(), at: Instant::now() }
    }

    /// Use since the last call, for a window of this duration: several delayed windows may be processed at once.
    pub(crate) fn lap(&mut self, window: Duration) -> OwnUse {
        let (cpu_ns, at) = (cpu_ns(), Instant::now());
        let elapsed_ns = (at - self.at).max(window).as_nanos().max(1) as f64;
        let cpu_share = cpu_ns.saturating_sub(self.cpu_ns) as f64 / elapsed_ns;
        (self.cpu_ns, self.at) = (cpu_ns, at);
        OwnUse { cpu_share, cpu_ns, rss_bytes: rss_bytes() }
    }
}

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The second number of `/proc/self/statm`, in pages (proc_pid_statm(5)).
fn rss_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_recorded_and_more_again() {
        let mut governor = Governor::new(0.01);
        let mut check = |share: f64, windows: u32, expected: u32| {
            for _ in 0..windows {
                let _ = governor.next(share);
            }
            assert_eq!(governor.halvings, expected, "{share} for {windows} windows");
        };
        check(0.05, 1, 0);
        check(0.005, 1, 0);
        check(0.05, 2, 1);
        check(0.05, 4, 3);
        check(0.05, 20, HALVINGS_MAX);
        // Near the limit nothing changes.
        check(0.008, 50, HALVINGS_MAX);
        check(0.001, 7, HALVINGS_MAX);
        check(0.001, 1, HALVINGS_MAX - 1);
        check(0.001, 100, 0);
    }

    #[test]
    fn work_is_measured() {
        let mut own = OwnMeter::start();
        let begun = Instant::now();
        let mut sum = 0_u64;
        while begun.elapsed().as_millis() < 50 {
            sum = sum.wrapping_mul(31).wrapping_add(7);
        }
        let used = own.lap(Duration::ZERO);
        assert!(
            used.cpu_share > 0.05 && used.rss_bytes > 100_000 && used.cpu_ns > 0,
            "{used:?}, {sum}"
        );
    }
}
