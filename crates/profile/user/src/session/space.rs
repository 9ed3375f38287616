//! Watching calls that change address spaces.

use wingbeat_profile_common::{counter, program};

use super::{counters::Counters, kernel::KernelHalf};
use crate::{error::RecordError, model::Amount, recorder::Recorder};

/// Accounts of address space that was asked for and given back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpaceAccounts {
    /// What was mapped at the worst moment, of what was asked for during the recording.
    pub peak: Amount,
    /// When that was, nanoseconds since the start.
    pub peak_ns: u64,
    /// Calls that gave memory back, and its bytes, also of what was mapped before.
    pub unmapped: (u64, u64),
    /// Calls that did not fit into the ring buffer.
    pub lost: u64,
}

impl SpaceAccounts {
    /// Of a recording that has ended; `None` if it did not watch these calls.
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
    /// Begins to watch calls that change address spaces, if that was asked for.
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
