//! Converts the kernel half's counters to the accounts of a recording.

use wingbeat_profiler_abi::counter;

use crate::counts::{Switches, Ticks};

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
