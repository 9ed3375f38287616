//! Scheduler programs of the kernel half: load, start, stop, read.

use wingbeat_profiler_abi::{
    map,
    off_cpu::{THREAD_BYTES, Thread},
    program,
};

use super::{
    kernel::{BackEnd, KernelHalf},
    object::Object,
};
use crate::error::RecordError;

/// Programs of each back end that see switches, in their order of attaching and so of running.
const SWITCHES: [&str; 2] = [program::MISSED, program::SWITCH];
const SWITCHES_RAW: [&str; 2] = [program::MISSED_RAW, program::SWITCH_RAW];

/// All programs of the preferred back end.
const TRACING: [&str; 4] = [program::MISSED, program::SWITCH, program::BEGIN, program::FINISH];

/// The tracepoints.
const SWITCH: &str = "sched_switch";
const WAKING: &str = "sched_waking";

/// First line of an error: a warning has no room for the verifier's log.
fn reason(error: &RecordError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

impl KernelHalf {
    /// Loads the scheduler programs, with the best back end that the kernel allows.
    pub(super) fn load_switch(&mut self, object: &Object) -> Result<(), RecordError> {
        if self.back_end == BackEnd::TpBtf
            && let Err(error) = self.load_all(object, &TRACING)
        {
            self.back_end = BackEnd::RawTracepoint;
            self.fell_back = Some(reason(&error));
        }
        if self.back_end == BackEnd::RawTracepoint {
            self.load_all(object, &SWITCHES_RAW)?;
        }
        if self.blocks.is_some_and(|blocks| blocks.wakers) {
            self.load_program(object, program::WAKING)?;
        }
        Ok(())
    }

    fn load_all(&mut self, object: &Object, names: &[&'static str]) -> Result<(), RecordError> {
        names.iter().try_for_each(|name| self.load_program(object, name))
    }

    /// Starts recording switches, and adds the existing threads.
    pub(super) fn start_switch(&mut self) -> Result<(), RecordError> {
        let Some(blocks) = self.blocks else { return Ok(()) };
        let refused =
            |tracepoint| RecordError::kernel(format!("attach to the tracepoint {tracepoint}"));
        let is_typed = self.back_end == BackEnd::TpBtf;
        for name in if is_typed { SWITCHES } else { SWITCHES_RAW } {
            let program = self.program(name)?;
            let attached = if is_typed { program.attach() } else { program.attach_raw(SWITCH) };
            self.switches.push(attached.map_err(refused(SWITCH))?);
        }
        self.set_min_block(blocks.min_block_ns)?;
        self.set_watching(true)?;
        if is_typed {
            self.iterate(program::BEGIN)?;
        }
        if blocks.wakers {
            let attached = self.program(program::WAKING)?.attach_raw(WAKING);
            self.attached.push(attached.map_err(refused(WAKING))?);
        }
        Ok(())
    }

    /// Stops recording switches, and walks the stacks of threads off the CPU.
    pub(super) fn stop_switch(&mut self) -> Result<(), RecordError> {
        if self.blocks.is_none() {
            return Ok(());
        }
        // All at once: an event seen by only some programs would be miscounted.
        self.set_watching(false)?;
        // The threads stay in the table.
        self.switches.clear();
        self.take_stacks()
    }

    /// Walks the kernel stacks of threads off the CPU, if supported.
    pub(super) fn take_stacks(&self) -> Result<(), RecordError> {
        match self.back_end {
            BackEnd::TpBtf => self.iterate(program::FINISH),
            BackEnd::RawTracepoint => Ok(()),
        }
    }

    /// Sets whether switches, forks, execs and exits belong to the recording.
    fn set_watching(&self, is_watching: bool) -> Result<(), RecordError> {
        self.map(map::WATCHING)?
            .set(&[0; 4], &u32::from(is_watching).to_ne_bytes())
            .map_err(RecordError::kernel("start or stop watching the scheduler"))
    }

    /// Sets the minimum duration of blocks reported from now on.
    pub(super) fn set_min_block(&self, min_block_ns: u64) -> Result<(), RecordError> {
        self.map(map::MIN_BLOCK)?
            .set(&[0; 4], &min_block_ns.to_ne_bytes())
            .map_err(RecordError::kernel("set the shortest block that is reported"))
    }

    /// Runs a task iterator once over all threads.
    fn iterate(&self, name: &str) -> Result<(), RecordError> {
        self.program(name)?.iterate().map_err(RecordError::kernel("walk over all threads"))
    }

    /// All threads in the table.
    pub(super) fn threads(&self) -> Result<Vec<(u32, Thread)>, RecordError> {
        let map = self.map(map::THREADS)?;
        let keys = map.keys().map_err(RecordError::kernel("read the table of threads"))?;
        let thread = |key: Vec<u8>| {
            let bytes: [u8; THREAD_BYTES] = map.lookup(&key).ok()??.try_into().ok()?;
            Some((u32::from_ne_bytes(key.try_into().ok()?), zerocopy::transmute!(bytes)))
        };
        Ok(keys.into_iter().filter_map(thread).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_has_no_log() {
        let check = |reason: &str, expected: &str| {
            let error =
                RecordError::Kernel { what: "load it".to_owned(), reason: reason.to_owned() };
            assert_eq!(super::reason(&error), expected);
        };
        check(
            "the verifier rejects on_begin: access beyond the end\n  the end of the verifier's log:\n    69: (61)",
            "cannot load it: the verifier rejects on_begin: access beyond the end",
        );
        check(
            "not permitted",
            "cannot load it: not permitted; `wingbeat doctor` shows what this kernel allows",
        );
    }
}
