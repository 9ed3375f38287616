//! The time of a thread as one program: on the CPU, off it, and in blocks too short to be reported.

use wingbeat_profiler_abi::off_cpu::EndRecord;

/// Off-CPU time, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Off {
    pub total_ns: u64,
    /// In sleeps long enough to count as idle.
    pub slept_long_ns: u64,
}

impl Off {
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
            slept_long_ns: self.slept_long_ns.saturating_sub(earlier.slept_long_ns),
        }
    }
}

/// The time of a thread as one program; `CLOCK_MONOTONIC` unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub pid: u32,
    pub tid: u32,
    pub begun_ns: u64,
    pub end_ns: u64,
    pub on_cpu_ns: u64,
    pub off: Off,
    pub below: u64,
    pub below_ns: u64,
}

impl From<&EndRecord> for Span {
    fn from(end: &EndRecord) -> Self {
        Self {
            pid: end.pid,
            tid: end.tid,
            begun_ns: end.begun_ns,
            end_ns: end.end_ns,
            on_cpu_ns: end.on_cpu_ns,
            off: Off::default(),
            below: end.below.into(),
            below_ns: end.below_ns,
        }
    }
}

impl Span {
    /// The same relative to a start time.
    pub(super) fn since(self, start_ns: u64) -> Self {
        let since = |time_ns: u64| time_ns.saturating_sub(start_ns);
        Self { begun_ns: since(self.begun_ns), end_ns: since(self.end_ns), ..self }
    }

    /// Splits at a time at which the off-CPU time was `off`. Blocks shorter than the limit stay with the first part.
    pub(super) fn split(self, time_ns: u64, off: Off) -> (Self, Self) {
        let off_after = self.off.since(off);
        // A block with a reconstructed end may extend beyond that time. It counts for the new program.
        let after_ns = self.end_ns.saturating_sub(time_ns).max(off_after.total_ns);
        let time_ns = self.end_ns.saturating_sub(after_ns).max(self.begun_ns);
        let on_after_ns = after_ns.saturating_sub(off_after.total_ns).min(self.on_cpu_ns);
        let before = Self { end_ns: time_ns, on_cpu_ns: self.on_cpu_ns - on_after_ns, off, ..self };
        let after = Self {
            begun_ns: time_ns,
            on_cpu_ns: on_after_ns,
            off: off_after,
            below: 0,
            below_ns: 0,
            ..self
        };
        (before, after)
    }
}
