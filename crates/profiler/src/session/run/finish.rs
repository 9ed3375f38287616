//! End of a recording: stops it, reads the rest, and closes the accounts.

use wingbeat_profiler_abi::{counter, heap::state};

use super::{Session, now_ns};
use crate::{
    counts::{Clocks, Ticks},
    error::RecordError,
    model::Mode,
    proc::{self, MachineTime},
    recorder::off_cpu::reconstruct_leaving,
    session::{
        CpuTime, Finished, OffCpuAccounts, Options, SpaceAccounts, Unwinding, counters::Counters,
        kernel::BackEnd, tables::Tables,
    },
    targets::Targets,
};

impl Session {
    pub(in crate::session) fn finish(mut self, options: &Options) -> Result<Finished, RecordError> {
        let ran_ns = self.kernel_half.stop()?;
        self.kernel_half.stop_switch()?;
        let end_ns = now_ns();
        if let Some(probes) = &mut self.probes {
            self.kernel_half.set_heap_state(state::COUNTING)?;
            probes.note_end(&self.kernel_half)?;
        }
        let machine = MachineTime::read();
        let duration_ns = self.started.elapsed().as_nanos() as u64;
        // While running targets can still be queried.
        let cpu_time = self.cpu_time(options, machine)?;
        self.see_memory();
        self.drain(true)?;
        self.recorder.heap.finish(end_ns);
        if let Some(probes) = &mut self.probes {
            probes.stop();
        }
        self.kernel_half.close_ring();
        self.sideband.close();
        let off_cpu = match options.mode.blocks() {
            true => Some(self.off_cpu(options, end_ns)?),
            false => None,
        };
        let mut left = Vec::new();
        if let Some(mut command) = self.command.take() {
            let mut ended = command.end().map_err(RecordError::system("end the command"))?;
            // Ctrl-C reaches the command too, possibly before us.
            ended.by_itself &= !self.interrupted;
            self.ended = Some(ended);
            left = self.left(command.pid());
        }
        let counters = self.kernel_half.counters()?;
        let heap = self
            .probes
            .take()
            .map(|probes| probes.accounts(&counters, &self.recorder, self.start_ns));
        let space = SpaceAccounts::of(&self.recorder, &counters, self.start_ns);
        let ticks = self.ticks(options, &counters, (ran_ns, machine));
        Ok(Finished {
            meta: self.meta(options, duration_ns),
            cpus: self.cpus.len() as u32,
            off_cpu,
            heap,
            space,
            ticks,
            cpu_time,
            cpu_time_before_ns: self.cpu_time_before_ns,
            record_bytes: counters.get(counter::RECORD_BYTES),
            unwinding: Unwinding {
                unwind: options.unwind,
                tables: self.tables.as_ref().map(Tables::counts),
                copied: counters.get(counter::COPIED),
            },
            children_lost: counters.get(counter::CHILDREN_LOST) + self.kernel_half.forks_missed(),
            ended: self.ended,
            left,
            grown_bytes: self.memory_bytes.1.saturating_sub(self.memory_bytes.0),
            recorder: self.recorder,
            kernel_half: self.kernel_half,
            events_lost: self.sideband.lost,
            _sideband: self.sideband,
        })
    }

    /// Targets still running after the command.
    fn left(&self, command: u32) -> Vec<(u32, String)> {
        let others = self.kernel_half.targets().into_iter().filter(|pid| *pid != command);
        let living = others.filter_map(|pid| {
            let stat = proc::Stat::read(pid).filter(|stat| !stat.is_zombie())?;
            Some((pid, stat.comm))
        });
        let mut left: Vec<_> = living.collect();
        left.sort_unstable();
        left
    }

    /// Reports blocks in progress, and closes the accounts of live threads.
    fn off_cpu(&mut self, options: &Options, end_ns: u64) -> Result<OffCpuAccounts, RecordError> {
        let mut still_blocked = 0;
        let mut reconstructed = 0;
        for (tid, mut thread) in self.kernel_half.threads()? {
            if thread.is_final == 0
                && let Some(runtime_ns) = proc::thread_cpu_time_ns(thread.pid, tid)
            {
                reconstructed += u64::from(reconstruct_leaving(&mut thread, runtime_ns, end_ns));
            }
            still_blocked += u64::from(self.recorder.thread_left(tid, &thread, end_ns));
        }
        let counters = self.kernel_half.counters()?;
        let mut switches = counters.switches(still_blocked);
        switches.out += reconstructed;
        switches.reconstructed += reconstructed;
        Ok(OffCpuAccounts {
            min_block_ns: options.min_block_ns,
            back_end: match self.kernel_half.back_end {
                BackEnd::TpBtf => "tp_btf",
                BackEnd::RawTracepoint => "raw_tracepoint",
            },
            fell_back: self.kernel_half.fell_back.clone(),
            switches,
            stacks_lost: counters.get(counter::STACKS_LOST),
            walked: counters.get(counter::WALKED),
            reused: counters.get(counter::REUSED),
        })
    }

    fn cpu_time(&self, options: &Options, machine: MachineTime) -> Result<CpuTime, RecordError> {
        let is_all = options.targets == Targets::All;
        if is_all && !self.namespaced {
            return Ok(CpuTime { ns: machine.busy_ns, exited_ns: None });
        }
        let pids = match is_all {
            true => proc::pids().into_iter().collect(),
            false => self.kernel_half.targets(),
        };
        let live_ns: u64 = pids.into_iter().map(proc::cpu_time_ns).sum();
        let exited_ns = self.kernel_half.counter(counter::EXITED_CPU_NS)?;
        Ok(CpuTime { ns: live_ns + exited_ns, exited_ns: (live_ns == 0).then_some(exited_ns) })
    }

    /// Ticks that the kernel half saw, and those it missed, given the clocks' running time.
    fn ticks(
        &self,
        options: &Options,
        counters: &Counters,
        (ran_ns, machine): (u64, MachineTime),
    ) -> Ticks {
        let mut ticks = counters.ticks();
        if self.undecoded > 0 {
            ticks.sampled -= self.undecoded.min(ticks.sampled);
            ticks.failed.insert("record not understood".to_owned(), self.undecoded);
        }
        // Page faults without a sample were not missed.
        if options.mode != Mode::Pages {
            ticks.add_unseen(&Clocks {
                ran_ns,
                idle_ns: machine.idle_ns - self.machine_before.idle_ns.min(machine.idle_ns),
                frequency_hz: options.frequency_hz,
                cpus: self.cpus.len() as u32,
            });
        }
        ticks
    }
}
