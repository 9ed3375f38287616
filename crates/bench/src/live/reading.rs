//! The counters of programs at one time.

use std::collections::BTreeMap;

use rustix::time::{ClockId, clock_gettime};
use wingbeat_bpf::program::ProgramInfo;

/// What was read of one program, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Time of the reading, nanoseconds since boot.
    pub at_ns: u64,
    pub info: ProgramInfo,
}

/// The counters of programs at one time, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// When it began, nanoseconds since boot. Reading many programs takes milliseconds, so each has
    /// its own time too.
    pub at_ns: u64,
    pub entries: BTreeMap<u32, Entry>,
}

impl Reading {
    /// An empty one that begins now.
    pub fn begin() -> Self {
        Self { at_ns: now_ns(), entries: BTreeMap::new() }
    }

    /// Takes in a program that was read just now.
    pub fn add(&mut self, info: ProgramInfo) {
        self.entries.insert(info.id, Entry { at_ns: now_ns(), info });
    }
}

/// `CLOCK_BOOTTIME`, by which the kernel tells when a program was loaded (`bpf_prog_load`,
/// kernel/bpf/syscall.c, Linux 6.18).
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}
