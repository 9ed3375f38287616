//! The profiler's own cost by phase.

use std::{fs, mem};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::symbolize::helper;

/// The profiler's own resource use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Own {
    /// CPU time by phase.
    pub cpu_time_ns: OwnCpuTime,
    /// Largest resident memory until the end of the recording, in bytes.
    pub rss_max_record_bytes: u64,
    /// Largest resident memory, in bytes.
    pub rss_max_bytes: u64,
}

/// CPU time, user and kernel, by phase in nanoseconds: of the profiler's process and of the processes that read
/// debug information for it. Excludes its BPF programs, which are charged to the interrupted context.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OwnCpuTime {
    /// Starting, loading, recording, decoding.
    pub record: u64,
    pub symbolize: u64,
    pub write: u64,
}

/// Measures consecutive phases.
#[derive(Debug)]
pub struct OwnCost {
    mark_ns: u64,
    cpu: OwnCpuTime,
    rss_max_record_bytes: u64,
}

impl OwnCost {
    /// Starts measuring. Earlier use of the process counts as recording.
    pub fn start() -> Self {
        Self { mark_ns: 0, cpu: OwnCpuTime::default(), rss_max_record_bytes: 0 }
    }

    pub fn record_done(&mut self) {
        self.cpu.record = self.lap_ns();
        self.rss_max_record_bytes = rss_max_bytes();
    }

    pub fn symbolize_done(&mut self) {
        self.cpu.symbolize = self.lap_ns() + helper::cpu_time_ns();
    }

    pub fn write_done(&mut self) {
        self.cpu.write = self.lap_ns();
    }

    pub fn total(&self) -> Own {
        Own {
            cpu_time_ns: self.cpu.clone(),
            rss_max_record_bytes: self.rss_max_record_bytes,
            rss_max_bytes: rss_max_bytes(),
        }
    }

    fn lap_ns(&mut self) -> u64 {
        let now = clock_gettime(ClockId::ProcessCPUTime);
        let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        now_ns - mem::replace(&mut self.mark_ns, now_ns)
    }
}

/// `VmHWM` of `/proc/self/status`; 0 if absent.
fn rss_max_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
