//! Recording of address space calls.

use wingbeat_profiler_abi::{counter, program};

use super::{counters::Counters, kernel::KernelHalf};
use crate::{error::RecordError, model::Amount, recorder::Recorder};

/// Accounts of requested and released address space.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpaceAccounts {
    /// Peak of mapped memory requested during the recording.
    pub peak: Amount,
    /// Time of the peak, in nanoseconds since the start.
    pub peak_ns: u64,
    /// Releasing calls and their bytes, including memory mapped before the recording.
    pub unmapped: (u64, u64),
    /// Calls lost because the ring buffer was full.
    pub lost: u64,
}

impl SpaceAccounts {
    /// Of a finished recording; `None` if it did not record these calls.
    pub(super) fn of(recorder: &Recorder, counters: &Counters, start_ns: u64) -> Option<Self> {
        let mapped = recorder.heap.space.as_ref()?;
        Some(Self {
            peak: mapped.sums.peak,
            peak_ns: mapped.sums.peak_ns.saturating_sub(start_ns),
            unmapped: mapped.unmapped,
            lost: counters.get(counter::SPACES_LOST) + mapped.without_stack,
        })
    }
}

impl KernelHalf {
    /// Starts recording address space calls, if requested.
    pub(super) fn start_space(&mut self) -> Result<(), RecordError> {
        const SYS_EXIT: &str = "sys_exit";
        if let Ok(program) = self.program(program::SPACE) {
            let attached = program.attach_raw(SYS_EXIT);
            let what = format!("attach to the tracepoint {SYS_EXIT}");
            self.space = Some(attached.map_err(RecordError::kernel(what))?);
        }
        Ok(())
    }
}
