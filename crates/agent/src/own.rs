//! Resource use of the agent.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

/// Measures CPU time and memory of this process.
#[derive(Debug)]
pub(crate) struct Own {
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

impl Own {
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
    fn work_is_seen() {
        let mut own = Own::start();
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
