//! A recording in progress: set up, start, drain.

use std::{
    collections::HashSet,
    ffi::OsString,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant, SystemTime},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
    time::{ClockId, clock_gettime},
};
use wingbeat_bpf_loader::{
    command::{LaunchError, Launched},
    perf,
};
use wingbeat_profiler_abi::{
    counter,
    heap::state,
    off_cpu::{OFF_CPU, Thread},
};

use crate::{
    counts::{Clocks, Counters, Ticks},
    error::{RecordError, TargetError},
    model::{Meta, Mode},
    proc::{self, MachineTime},
    recorder::{Recorder, Scope, event::Event, off_cpu::reconstruct_leaving},
    session::{
        CpuTime, Ended, Finished, OffCpuAccounts, Options, Progress, SpaceAccounts, Unwind,
        Unwinding,
        heap::Probes,
        kernel::{BackEnd, KernelHalf, Pace},
        limits::raise_limit,
        object::{Blocks, Settings},
        ring::{Batch, buffer_bytes},
        sideband::Sideband,
        tables::Tables,
    },
    targets::{Targets, with_descendants},
    wire,
};

/// Maximum interval of checks of the ring buffer.
const DRAIN_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum delay between a sample's time and its arrival in the ring buffer.
const SETTLE_NS: u64 = 1_000_000;

/// `CLOCK_MONOTONIC`, the clock of `bpf_ktime_get_ns`.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Launches a command, possibly stopped before its first instruction.
fn launch(
    words: &[OsString],
    options: &Options,
    is_stopped: bool,
) -> Result<Launched, RecordError> {
    let (program, arguments) = words.split_first().ok_or(TargetError::EmptyCommand)?;
    let start = if is_stopped { Launched::start_stopped } else { Launched::start_with };
    start(program, arguments, options.printing, options.caller.as_ref()).map_err(
        |error| match error {
            LaunchError::Start(source) => {
                RecordError::Launch { program: program.to_string_lossy().into_owned(), source }
            }
            LaunchError::Watch(source) => RecordError::system("watch the command")(source),
        },
    )
}

/// Opens a process descriptor, which unlike a PID cannot refer to another process later.
fn open_process(pid: u32) -> Result<OwnedFd, RecordError> {
    let id = Pid::from_raw(pid as i32).ok_or(RecordError::Vanished(pid))?;
    match pidfd_open(id, PidfdFlags::empty()) {
        Ok(process) => Ok(process),
        Err(Errno::SRCH) => Err(RecordError::Vanished(pid)),
        Err(error) => Err(RecordError::system(format!("watch PID {pid}"))(error.into())),
    }
}

/// A recording in progress.
pub(super) struct Session {
    pub(super) kernel_half: KernelHalf,
    /// `None` if stacks are walked by frame pointers.
    pub(super) tables: Option<Tables>,
    /// Set if allocations are recorded.
    probes: Option<Probes>,
    pub(super) sideband: Sideband,
    pub(super) batch: Batch,
    pub(super) recorder: Recorder,
    pub(super) cpus: Vec<u32>,
    command: Option<Launched>,
    /// Processes to wait for, if any were given. Each becomes readable at its exit.
    waited_for: Vec<OwnedFd>,
    cpu_time_before_ns: u64,
    machine_before: MachineTime,
    /// This process is in a PID namespace other than the initial one.
    namespaced: bool,
    pub(super) start: SystemTime,
    pub(super) start_ns: u64,
    pub(super) started: Instant,
    /// End of the current window of a continuous recording. Later data belongs to the next.
    pub(super) cut_ns: u64,
    /// Read but not processed: later than the last samples read.
    pub(super) events: Vec<Event>,
    /// Samples or blocks since the start.
    samples: u64,
    /// Invalid records: the two halves of the profiler do not match.
    undecoded: u64,
    pub(super) target: String,
    /// Expected slowdown of running targets, as a share of their CPU time.
    pub(super) expected_slowdown: Option<f64>,
    /// Anonymous memory of the targets, before the recording and at its observed maximum, if allocations are recorded.
    memory_bytes: (u64, u64),
    /// `stop` was signalled.
    pub(super) interrupted: bool,
    ended: Option<Ended>,
}

/// Why a wait ended.
struct Wakeup {
    interrupted: bool,
    command_ended: bool,
}

impl Session {
    pub(super) fn set_up(options: &Options, namespaced: bool) -> Result<Self, RecordError> {
        let cpus = perf::online_cpus().map_err(RecordError::system("list the CPUs"))?;
        let is_command = matches!(options.targets, Targets::Command(_));
        let settings = Settings {
            all: options.targets == Targets::All,
            inherit: options.inherit,
            namespaced,
            launcher: is_command.then(std::process::id),
            buffer_bytes: options.buffer_bytes.unwrap_or_else(|| buffer_bytes(options, cpus.len())),
            blocks: options
                .mode
                .blocks()
                .then_some(Blocks { min_block_ns: options.min_block_ns, wakers: options.wakers }),
            sample_bytes: (options.mode == Mode::Heap).then_some(options.heap.sample_bytes),
            space: options.mode == Mode::Pages,
            faults: options.takes_faults(),
            unwind: options.unwind,
            unwind_bytes: options.unwind_bytes,
        };
        let mut kernel_half = KernelHalf::load(settings)?;
        let tables = kernel_half.tables.take();
        let sideband = Sideband::open(&cpus)?;
        let scope = match options.targets {
            Targets::All => Scope::All,
            _ => Scope::Processes { pids: HashSet::new(), inherit: options.inherit },
        };
        let start_ns = now_ns();
        let mut recorder = Recorder::new(start_ns, scope);
        recorder.jit.is_off = options.unwind == Unwind::FramePointer;
        if options.mode.blocks() {
            recorder.watch_blocks();
        }
        if options.mode == Mode::Pages {
            recorder.watch_space();
        }
        let probes = (options.mode == Mode::Heap).then(|| {
            recorder.watch_heap(options.heap.sample_bytes);
            Probes::default()
        });
        Ok(Self {
            kernel_half,
            tables,
            probes,
            sideband,
            batch: Batch::default(),
            recorder,
            cpus,
            command: None,
            waited_for: Vec::new(),
            cpu_time_before_ns: 0,
            machine_before: MachineTime::default(),
            namespaced,
            start: SystemTime::now(),
            start_ns,
            started: Instant::now(),
            cut_ns: u64::MAX,
            events: Vec::new(),
            samples: 0,
            undecoded: 0,
            target: options.targets.describe(),
            expected_slowdown: None,
            memory_bytes: (0, 0),
            interrupted: false,
            ended: None,
        })
    }

    /// Starts the clocks, then the targets.
    pub(super) fn start(&mut self, options: &Options) -> Result<(), RecordError> {
        if !matches!(options.targets, Targets::Command(_)) {
            raise_limit();
        }
        if let Targets::Pids(pids) = &options.targets {
            self.take_on(pids, options.inherit)?;
            if let Some(tables) = &mut self.tables {
                tables.update(&mut self.recorder, now_ns())?;
                tables.finish(&self.recorder)?;
            }
        }
        self.machine_before = MachineTime::read();
        if options.targets == Targets::All {
            // The machine's CPU time includes more than the PID namespace.
            self.cpu_time_before_ns = match self.namespaced {
                true => proc::pids().into_iter().map(proc::cpu_time_ns).sum(),
                false => self.machine_before.busy_ns,
            };
            self.recorder.name_all();
        }
        if let (Some(probes), Targets::Pids(pids)) = (&mut self.probes, &options.targets) {
            let (kernel_half, recorder) = (&self.kernel_half, &mut self.recorder);
            let share = probes.watch_running(kernel_half, recorder, options, pids)?;
            self.expected_slowdown = Some(share);
            let bytes = self.memory_of_targets();
            self.memory_bytes = (bytes, bytes);
        }
        self.begin_at(now_ns());
        self.recorder.start_at(self.start_ns);
        self.kernel_half.start_switch()?;
        self.kernel_half.start_space()?;
        self.start_clocks(options)?;
        if let Targets::Command(words) = &options.targets {
            let command = launch(words, options, self.probes.is_some())?;
            raise_limit();
            self.recorder.follow(command.pid());
            if let Some(probes) = &mut self.probes {
                probes.watch_command(&self.kernel_half, &mut self.recorder, &command)?;
            }
            self.command = Some(command);
        }
        Ok(())
    }

    /// Starts the sampler's events.
    pub(super) fn start_clocks(&mut self, options: &Options) -> Result<(), RecordError> {
        if options.takes_faults() {
            self.kernel_half.start(&self.cpus, Pace::Faults(options.faults))?;
        }
        if options.mode.samples() && options.mode != Mode::Pages {
            self.kernel_half.start(&self.cpus, Pace::Hz(options.frequency_hz))?;
        }
        Ok(())
    }

    /// Sets the start of the recording or of a window.
    pub(super) fn begin_at(&mut self, start_ns: u64) {
        let (start, started) = (SystemTime::now(), Instant::now());
        let ago = Duration::from_nanos(now_ns().saturating_sub(start_ns));
        self.start_ns = start_ns;
        self.start = start.checked_sub(ago).unwrap_or(start);
        self.started = started.checked_sub(ago).unwrap_or(started);
    }

    /// Processes the rest of the window, and returns its end: as planned, or now.
    pub(super) fn cut(&mut self) -> Result<u64, RecordError> {
        if self.interrupted || self.cut_ns == u64::MAX {
            self.cut_ns = self.cut_ns.min(now_ns());
        }
        let settled_ns = self.cut_ns.saturating_add(SETTLE_NS + 1);
        std::thread::sleep(Duration::from_nanos(settled_ns.saturating_sub(now_ns())));
        self.drain(false)?;
        Ok(self.cut_ns)
    }

    /// Makes existing processes targets, and their children if requested. Forks are tracked already, so a child is
    /// either found here or added by its fork.
    fn take_on(&mut self, pids: &[u32], inherit: bool) -> Result<(), RecordError> {
        self.waited_for = pids.iter().map(|&pid| open_process(pid)).collect::<Result<_, _>>()?;
        self.kernel_half.add_targets(pids.iter().copied())?;
        let family =
            if inherit { self.take_on_family(pids)? } else { pids.iter().copied().collect() };
        for &pid in &family {
            self.recorder.adopt(pid);
            self.cpu_time_before_ns += proc::cpu_time_ns(pid);
        }
        Ok(())
    }

    /// Makes all descendants of some targets targets too. Repeats until no new ones are found: a child forked by a
    /// process not yet in the table is added neither by its fork nor by the previous pass.
    fn take_on_family(&mut self, pids: &[u32]) -> Result<HashSet<u32>, RecordError> {
        let mut family: HashSet<u32> = pids.iter().copied().collect();
        loop {
            let found = with_descendants(pids);
            if found.is_subset(&family) {
                return Ok(family);
            }
            self.kernel_half.add_targets(found.iter().copied())?;
            family.extend(found);
        }
    }

    pub(super) fn run(
        &mut self,
        options: &Options,
        stop: BorrowedFd<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), RecordError> {
        // A duration too long for the clock means no deadline.
        let deadline = options.duration.and_then(|duration| self.started.checked_add(duration));
        let mut last_progress = self.started;
        loop {
            let wait = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => DRAIN_INTERVAL,
            };
            let wait = match self.has_work() {
                true => Duration::ZERO,
                // Recent mappings have not been processed yet.
                false if !self.events.is_empty() => Duration::from_nanos(SETTLE_NS),
                false => wait.min(DRAIN_INTERVAL),
            };
            let wakeup = self.wait(stop, wait)?;
            self.interrupted |= wakeup.interrupted;
            let is_over = wakeup.interrupted || wakeup.command_ended;
            self.drain(false)?;
            if last_progress.elapsed() >= DRAIN_INTERVAL {
                last_progress = Instant::now();
                self.see_memory();
                progress(Progress {
                    elapsed: self.started.elapsed(),
                    samples: self.samples,
                    lost: self.kernel_half.counter(counter::LOST)?
                        + self.kernel_half.counter(counter::BLOCKS_LOST)?
                        + self.kernel_half.counter(counter::ALLOCATIONS_LOST)?,
                    expected_slowdown: None,
                });
            }
            let time_is_up = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if is_over || time_is_up || self.targets_are_gone() {
                return Ok(());
            }
            std::thread::sleep(options.rest);
        }
    }

    /// Updates the targets' memory, if allocations are recorded.
    fn see_memory(&mut self) {
        if self.probes.is_some() {
            self.memory_bytes.1 = self.memory_bytes.1.max(self.memory_of_targets());
        }
    }

    fn memory_of_targets(&self) -> u64 {
        self.kernel_half.targets().into_iter().filter_map(proc::anonymous_bytes).sum()
    }

    /// Whether there are tables to build.
    pub(super) fn has_work(&self) -> bool {
        let has_work =
            |tables: &Tables| tables.has_work() || !self.recorder.spaces.changed.is_empty();
        self.tables.as_ref().is_some_and(has_work)
    }

    /// Waits until there is data to drain or the recording is over.
    fn wait(&self, stop: BorrowedFd<'_>, limit: Duration) -> Result<Wakeup, RecordError> {
        let mut fds = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        if let Some(command) = &self.command {
            fds.push(PollFd::new(command, PollFlags::IN));
        }
        let enders = fds.len();
        let buffers = self.kernel_half.ring_fd().into_iter().chain(self.sideband.fds());
        fds.extend(buffers.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(limit.subsec_nanos()) };
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(RecordError::system("wait for samples")(error.into())),
        }
        let is_ready = |fd: &PollFd<'_>| fd.revents().contains(PollFlags::IN);
        Ok(Wakeup {
            interrupted: is_ready(&fds[0]),
            command_ended: fds[1..enders].iter().any(is_ready),
        })
    }

    fn targets_are_gone(&self) -> bool {
        let mut fds: Vec<PollFd<'_>> = self
            .waited_for
            .iter()
            .map(|process| PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN))
            .collect();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        !fds.is_empty() && poll(&mut fds, Some(&now)).is_ok_and(|ended| ended == fds.len())
    }

    /// Processes records and events in time order: an address refers to the mapping at the time of the sample.
    /// Reads samples first, so that all earlier events have been written when these are read. Later events wait,
    /// unless this is the last call. So does everything after the end of the window.
    fn drain(&mut self, is_last: bool) -> Result<(), RecordError> {
        let until_ns = now_ns() - SETTLE_NS;
        self.batch.read(&mut self.kernel_half);
        self.sideband.drain(&mut self.events);
        self.events.sort_by_key(|event| event.time_ns);
        // By now, compilers have written their records of code that ran before this time.
        self.recorder.read_jitdumps();
        let until_ns = if is_last { u64::MAX } else { until_ns.max(self.batch.last_ns()) };
        let until_ns = until_ns.min(self.cut_ns);
        let due = self.events.partition_point(|event| event.time_ns <= until_ns);
        let mut events = self.events.drain(..due).peekable();
        for record in self.batch.take(until_ns) {
            while let Some(event) = events.next_if(|event| event.time_ns <= record.time_ns()) {
                self.recorder.event(event);
            }
            self.samples += u64::from(matches!(
                record,
                wire::Record::Sample(_)
                    | wire::Record::Fault(_)
                    | wire::Record::Block(_)
                    | wire::Record::Allocation(_)
            ));
            self.recorder.record(record);
        }
        events.for_each(|event| self.recorder.event(event));
        self.undecoded += std::mem::take(&mut self.batch.undecoded);
        // At the end too: processes started since the last update and not probed must be known.
        if let Some(probes) = &mut self.probes {
            probes.update(&self.kernel_half, &mut self.recorder)?;
        }
        self.recorder.jit.advance(until_ns);
        match &mut self.tables {
            Some(tables) if !is_last => tables.update(&mut self.recorder, until_ns),
            Some(_) => Ok(()),
            None => {
                self.recorder.forget_requests();
                Ok(())
            }
        }
    }

    /// Counts the threads' time up to the end of a window at `end_ns`.
    pub(super) fn off_cpu_so_far(&mut self, end_ns: u64) -> Result<(), RecordError> {
        self.kernel_half.take_stacks()?;
        let threads = self.kernel_half.threads()?;
        self.batch.read(&mut self.kernel_half);
        let is_still_out = |(_, thread): &&(u32, Thread)| {
            thread.whereabouts == OFF_CPU && thread.since_ns < end_ns
        };
        let still_out: HashSet<u32> = threads.iter().filter(is_still_out).map(|it| it.0).collect();
        for record in self.batch.rest() {
            match record {
                // Walked just now. The thread has not moved since the window ended, so no other stack precedes it.
                wire::Record::KernelStack(half) if still_out.contains(&half.stack.header.tid) => {
                    self.recorder.kernel_stack(&half);
                }
                wire::Record::Block(block) => self.recorder.block_so_far(&block, end_ns),
                _ => {}
            }
        }
        for (tid, thread) in threads {
            self.recorder.thread_so_far(tid, &thread, end_ns);
        }
        Ok(())
    }

    /// The conditions of the recording since its start.
    pub(super) fn meta(&self, options: &Options, duration_ns: u64) -> Meta {
        Meta {
            mode: options.mode,
            target: self.target.clone(),
            start: self.start,
            start_ns: self.start_ns,
            duration_ns,
            frequency_hz: options.frequency_hz,
            period: period(options),
            fault_bytes: fault_bytes(options),
            system: system(),
        }
    }
}

/// Weight of a sample: nanoseconds or bytes.
fn period(options: &Options) -> u64 {
    match options.mode {
        Mode::Heap => options.heap.sample_bytes.into(),
        Mode::Pages => fault_bytes(options),
        Mode::OnCpu | Mode::OffCpu | Mode::Wall => 1_000_000_000 / options.frequency_hz,
    }
}

/// Memory represented by a page fault sample.
fn fault_bytes(options: &Options) -> u64 {
    options.faults * rustix::param::page_size() as u64
}

/// Name, release and machine of the running kernel.
fn system() -> String {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    format!("{} {} {}", text(name.sysname()), text(name.release()), text(name.machine()))
}

impl Session {
    pub(super) fn finish(mut self, options: &Options) -> Result<Finished, RecordError> {
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
