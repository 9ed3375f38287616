//! Counters of the kernel half: timer ticks and scheduler switches.

use std::collections::BTreeMap;

use serde::Serialize;
use wingbeat_profiler_abi::counter;

/// Timer ticks on all CPUs. Each is counted once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Ticks {
    pub sampled: u64,
    pub idle: u64,
    /// In a process that is not a target.
    pub other: u64,
    /// In a target, but the ring buffer was full.
    pub lost: u64,
    /// In a target, but a kernel helper failed, by error.
    pub failed: BTreeMap<String, u64>,
    /// Missing although the CPU was busy: a hypervisor delayed them, or the kernel had interrupts off.
    pub missed: u64,
}

impl Ticks {
    pub fn total(&self) -> u64 {
        self.sampled + self.idle + self.other + self.lost + self.failed_total() + self.missed
    }

    /// Adds the ticks that the kernel half did not see, from the clocks' total and the kernel's idle time. Idle
    /// time has a resolution of 10 ms per CPU, so a difference within that counts as idle.
    pub fn add_unseen(&mut self, clocks: &Clocks) {
        let period_ns = 1_000_000_000 / clocks.frequency_hz.max(1);
        let unseen = (clocks.ran_ns / period_ns).saturating_sub(self.total());
        let idle = clocks.idle_ns / period_ns;
        let resolution = u64::from(clocks.cpus) * 10_000_000 / period_ns + u64::from(clocks.cpus);
        let missed = unseen.saturating_sub(idle);
        self.missed = if missed > resolution { missed } else { 0 };
        self.idle += unseen - self.missed;
    }

    /// Failed ticks, all errors together.
    pub fn failed_total(&self) -> u64 {
        self.failed.values().sum()
    }
}

/// Totals of the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// Running time, summed over the CPUs.
    pub ran_ns: u64,
    /// Idle time of the CPUs meanwhile, summed.
    pub idle_ns: u64,
    /// Ticks per second of each clock.
    pub frequency_hz: u64,
    pub cpus: u32,
}

/// Switches of the targets' threads. Each start of a block has exactly one end: `out + born + begun_before` =
/// `reported + below_limit + ended + still_blocked + lost`, where `still_blocked` are reported too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Switches {
    pub out: u64,
    /// Threads created, which waited for their first CPU.
    pub born: u64,
    /// Threads off the CPU when the recording began.
    pub begun_before: u64,
    /// Blocks that ended during the recording and were reported.
    pub reported: u64,
    /// Blocks shorter than the limit: summed, not reported.
    pub below_limit: u64,
    pub below_limit_ns: u64,
    /// Threads that went off a CPU to exit.
    pub ended: u64,
    /// Blocks still in progress at the end of the recording, reported with their time so far.
    pub still_blocked: u64,
    /// Threads that came in without going out before: they were running when the recording began, or were unknown.
    pub unmatched: u64,
    /// Blocks whose end the kernel did not report: reconstructed from the thread's CPU time. Included in the other
    /// counts.
    pub reconstructed: u64,
    /// Lost blocks, by reason.
    pub lost: BTreeMap<&'static str, u64>,
}

impl Switches {
    /// Lost blocks, all reasons together.
    pub fn lost_total(&self) -> u64 {
        self.lost.values().sum()
    }
}

/// Sums of the counters over the CPUs, by index.
pub(super) struct Counters(Vec<u64>);

impl FromIterator<u64> for Counters {
    fn from_iter<T: IntoIterator<Item = u64>>(sums: T) -> Self {
        Self(sums.into_iter().collect())
    }
}

impl Counters {
    /// Difference from an earlier state.
    pub(super) fn since(&self, before: &Self) -> Self {
        self.0.iter().zip(&before.0).map(|(now, before)| now.saturating_sub(*before)).collect()
    }

    pub(super) fn get(&self, index: u32) -> u64 {
        self.0.get(index as usize).copied().unwrap_or(0)
    }

    /// Switches seen by the kernel half.
    pub(super) fn switches(&self, still_blocked: u64) -> Switches {
        let lost = [
            ("buffer_full", counter::BLOCKS_LOST),
            ("thread_table_full", counter::UNTRACKED),
            ("thread_gone", counter::GONE),
        ];
        Switches {
            out: self.get(counter::SWITCHED_OUT),
            born: self.get(counter::BORN),
            begun_before: self.get(counter::BEGUN_BEFORE),
            reported: self.get(counter::REPORTED),
            below_limit: self.get(counter::BELOW),
            below_limit_ns: self.get(counter::BELOW_NS),
            ended: self.get(counter::ENDED),
            still_blocked,
            unmatched: self.get(counter::UNMATCHED),
            reconstructed: self.get(counter::RECONSTRUCTED),
            lost: lost.into_iter().map(|(reason, index)| (reason, self.get(index))).collect(),
        }
    }

    /// Ticks seen by the kernel half.
    pub(super) fn ticks(&self) -> Ticks {
        let failed = (0..counter::ERRNOS)
            .map(|errno| (errno, self.get(counter::FAILED + errno)))
            .filter(|(_, ticks)| *ticks > 0)
            .map(|(errno, ticks)| {
                let name = rustix::io::Errno::from_raw_os_error(errno as i32).to_string();
                (name, ticks)
            })
            .collect();
        Ticks {
            sampled: self.get(counter::SAMPLED),
            idle: self.get(counter::IDLE),
            other: self.get(counter::OTHER),
            lost: self.get(counter::LOST),
            failed,
            missed: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_ticks_are_idle_or_missed() {
        let check = |idle_ms: u64, expected_idle, expected_missed| {
            let mut ticks = Ticks { sampled: 600, other: 100, ..Ticks::default() };
            let clocks = Clocks {
                ran_ns: 2_000_000_000,
                idle_ns: idle_ms * 1_000_000,
                frequency_hz: 1_000,
                cpus: 2,
            };
            ticks.add_unseen(&clocks);
            assert_eq!((ticks.idle, ticks.missed), (expected_idle, expected_missed));
            assert_eq!(ticks.total(), 2_000);
        };
        check(1_300, 1_300, 0);
        check(1_290, 1_300, 0);
        check(1_000, 1_000, 300);
        check(0, 0, 1_300);
        check(9_000, 1_300, 0);
    }
}
