//! The part of the kernel half that watches the scheduler: loaded, started, stopped, read.

use std::io::Read as _;

use aya::{
    Btf,
    maps::{Array, HashMap},
    programs::{BtfTracePoint, Iter, ProgramError, RawTracePoint},
};
use wingbeat_profile_common::{
    map,
    off_cpu::{THREAD_BYTES, Thread},
    program,
};

use super::kernel::{BackEnd, KernelHalf, find, missing};
use crate::error::RecordError;

/// The programs of each back end that see switches, in the order in which they run: that is the order in
/// which they are attached.
const SWITCHES: [&str; 2] = [program::MISSED, program::SWITCH];
const SWITCHES_RAW: [&str; 2] = [program::MISSED_RAW, program::SWITCH_RAW];

/// The tracepoint.
const SWITCH: &str = "sched_switch";

impl KernelHalf {
    /// Loads the programs that watch the scheduler, by the best way that the kernel allows.
    pub(super) fn load_switch(&mut self) -> Result<(), RecordError> {
        if self.back_end == BackEnd::TpBtf
            && let Err(error) = self.load_tracing()
        {
            self.back_end = BackEnd::RawTracepoint;
            self.fell_back = Some(error.to_string());
        }
        if self.back_end == BackEnd::RawTracepoint {
            for name in SWITCHES_RAW {
                let program: &mut RawTracePoint = find(&mut self.ebpf, name)?;
                program.load().map_err(load_error(name))?;
            }
        }
        if self.blocks.is_some_and(|blocks| blocks.wakers) {
            let program: &mut RawTracePoint = find(&mut self.ebpf, program::WAKING)?;
            program.load().map_err(load_error(program::WAKING))?;
        }
        Ok(())
    }

    fn load_tracing(&mut self) -> Result<(), RecordError> {
        let btf = Btf::from_sys_fs().map_err(RecordError::kernel("read the kernel's types"))?;
        for name in SWITCHES {
            let program: &mut BtfTracePoint = find(&mut self.ebpf, name)?;
            program.load(SWITCH, &btf).map_err(load_error(name))?;
        }
        for name in [program::BEGIN, program::FINISH] {
            let program: &mut Iter = find(&mut self.ebpf, name)?;
            program.load("task", &btf).map_err(load_error(name))?;
        }
        Ok(())
    }

    /// Begins to watch the scheduler, and takes on the threads that are there already.
    pub(super) fn start_switch(&mut self) -> Result<(), RecordError> {
        let Some(blocks) = self.blocks else { return Ok(()) };
        match self.back_end {
            BackEnd::TpBtf => {
                for name in SWITCHES {
                    let program: &mut BtfTracePoint = find(&mut self.ebpf, name)?;
                    program.attach().map_err(attach_error(SWITCH))?;
                }
                self.set_watching(true)?;
                self.iterate(program::BEGIN)?;
            }
            BackEnd::RawTracepoint => {
                for name in SWITCHES_RAW {
                    let program: &mut RawTracePoint = find(&mut self.ebpf, name)?;
                    program.attach(SWITCH).map_err(attach_error(SWITCH))?;
                }
                self.set_watching(true)?;
            }
        }
        if blocks.wakers {
            let program: &mut RawTracePoint = find(&mut self.ebpf, program::WAKING)?;
            program.attach("sched_waking").map_err(attach_error("sched_waking"))?;
        }
        Ok(())
    }

    /// Stops watching the scheduler, and takes the stacks of what has not come back.
    pub(super) fn stop_switch(&mut self) -> Result<(), RecordError> {
        if self.blocks.is_none() {
            return Ok(());
        }
        // All at once: what one program sees and the other does not would be counted wrongly.
        self.set_watching(false)?;
        match self.back_end {
            BackEnd::TpBtf => {
                // Unloading detaches; the threads stay in the table.
                for name in SWITCHES {
                    let program: &mut BtfTracePoint = find(&mut self.ebpf, name)?;
                    program.unload().map_err(RecordError::kernel("stop watching the scheduler"))?;
                }
                self.iterate(program::FINISH)
            }
            BackEnd::RawTracepoint => {
                for name in SWITCHES_RAW {
                    let program: &mut RawTracePoint = find(&mut self.ebpf, name)?;
                    program.unload().map_err(RecordError::kernel("stop watching the scheduler"))?;
                }
                Ok(())
            }
        }
    }

    /// Tells the kernel half whether switches, births, other programs and ends belong to the recording.
    fn set_watching(&mut self, is_watching: bool) -> Result<(), RecordError> {
        let map = self.ebpf.map_mut(map::WATCHING).ok_or_else(|| missing(map::WATCHING))?;
        Array::<_, u32>::try_from(map)
            .and_then(|mut watching| watching.set(0, u32::from(is_watching), 0))
            .map_err(RecordError::kernel("begin or stop to watch the scheduler"))
    }

    /// Runs a task iterator once over all threads.
    fn iterate(&mut self, name: &str) -> Result<(), RecordError> {
        let error = |error: String| RecordError::Kernel {
            what: "walk over all threads".to_owned(),
            reason: error,
        };
        let program: &mut Iter = find(&mut self.ebpf, name)?;
        let link = program.attach().map_err(|e| error(e.to_string()))?;
        let link = program.take_link(link).map_err(|e| error(e.to_string()))?;
        let mut file = link.into_file().map_err(|e| error(e.to_string()))?;
        // Reading is what runs it; it writes nothing.
        file.read_to_end(&mut Vec::new()).map_err(|e| error(e.to_string()))?;
        Ok(())
    }

    /// All threads in the table.
    pub(super) fn threads(&self) -> Result<Vec<(u32, Thread)>, RecordError> {
        let map = self.ebpf.map(map::THREADS).ok_or_else(|| missing(map::THREADS))?;
        let threads = HashMap::<_, u32, [u8; THREAD_BYTES]>::try_from(map)
            .map_err(RecordError::kernel("open the table of threads"))?;
        Ok(threads
            .iter()
            .flatten()
            .map(|(tid, bytes)| (tid, zerocopy::transmute!(bytes)))
            .collect())
    }
}

fn load_error(name: &'static str) -> impl Fn(ProgramError) -> RecordError {
    move |error| RecordError::kernel(format!("load the program {name}"))(error)
}

fn attach_error(name: &'static str) -> impl Fn(ProgramError) -> RecordError {
    move |error| RecordError::kernel(format!("attach to the tracepoint {name}"))(error)
}
