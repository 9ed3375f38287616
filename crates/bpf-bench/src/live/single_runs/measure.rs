//! Times single runs of selected programs, for a duration or while a command runs.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd},
    time::{Duration, Instant},
};

use wingbeat_bpf_loader::{
    empty_baseline::Baseline,
    fd_holders::Owners,
    loader::{
        CounterEvent, LoadedMap, MapError, Moment, PerfCounter, TraceTarget, Tracer,
        TrampolineError,
    },
    program::ProgramInfo,
    program::TailCalls,
};

use super::{CounterReport, EmptyRuns, SingleRuns};
use crate::{
    Warning,
    instrument::tracer::{RunRecords, Tracers, WrongLen, read_results, tracers, value_len_bytes},
    live::{
        Attachments, LiveError, LiveOutcome, Options, Progress,
        change::{Rates, now_ns},
        check_rights, cpus_online,
        measure::measured_time,
        report::{LiveReport, ProgramReport, busiest_first},
        sampler::{Held, hold, is_sysctl_on},
        warning,
    },
};

/// Interval of progress reports. Reading the records takes some 10 µs per CPU and program.
const SLICE: Duration = Duration::from_millis(200);

/// A program with its recorder.
struct Traced {
    held: Held,
    recorder: Recorder,
    began_ns: u64,
    misses_before: u64,
}

/// Like [`measure`](crate::live::measure()), but with tracers at the programs' entries and exits.
pub(in crate::live) fn measure(
    options: &Options,
    stop: BorrowedFd<'_>,
    show: &mut dyn FnMut(Progress),
) -> Result<LiveReport, LiveError> {
    check_rights()?;
    // Scan first, so that this process is not listed as an owner.
    let owners = Owners::scan().map_err(LiveError::system("list the processes"))?;
    let held = hold(&options.wanted)?;
    let attachments = Attachments::read().unwrap_or_default();
    let mut warnings = Vec::new();
    let counters = if options.counters { open_counters(&mut warnings)? } else { Vec::new() };
    let Empty { runs: empty, were_statistics_on } = run_empty(&counters).map_err(no_tracing)?;
    if were_statistics_on {
        warnings.push(warning::statistics_were_on(is_sysctl_on(), &owners.keep_statistics_on));
    }
    let traced = trace_all(held, &counters, !options.wanted.is_empty(), &mut warnings)?;
    let started = Instant::now();
    let (ended_by, command) = measured_time(options, stop, show, SLICE, || {
        let mut runs = 0_u64;
        for one in &traced {
            runs = runs.saturating_add(one.recorder.read().map_err(unreadable)?.recorded.count);
        }
        Ok((runs, SLICE))
    })?;
    let duration_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);

    let mut programs = Vec::with_capacity(traced.len());
    for one in traced {
        let id = one.held.info.id;
        let report = report_of(one, &empty, &counters)?;
        let report = report.with_holders(owners.of(id), attachments.of(id));
        warnings.extend(warning::about_runs(&report));
        warnings.extend(warning::about_single_runs(&report));
        programs.push(report);
    }
    warnings.extend(warning::about_owners(&owners, &programs));
    Ok(LiveReport {
        ended_by,
        empty_run_ns: Some(empty.single_runs.mean_ns),
        command,
        empty: Some(empty),
        warnings,
        ..LiveReport::new(busiest_first(programs), cpus_online(), duration_ns)
    })
}

/// Opens the hardware counters, or the kernel's software counters as a fallback.
fn open_counters(warnings: &mut Vec<Warning>) -> Result<Vec<PerfCounter>, LiveError> {
    let (mut opened, mut refused) = (Vec::new(), Vec::new());
    for event in CounterEvent::HARDWARE {
        match PerfCounter::open(event) {
            Ok(counter) => opened.push(counter),
            Err(error) => refused.push((event, error)),
        }
    }
    if let Some((_, error)) = refused.first() {
        let events: Vec<_> = refused.iter().map(|(event, _)| event.name()).collect();
        warnings.push(warning::no_counters(&events, &error.to_string()));
    }
    if !opened.is_empty() {
        return Ok(opened);
    }
    let software = CounterEvent::SOFTWARE.into_iter().map(PerfCounter::open);
    software.collect::<io::Result<_>>().map_err(LiveError::system("open counters of perf"))
}

/// The kernel supports no tracers, or another failure.
fn no_tracing(error: EmptyError) -> LiveError {
    LiveError::NoTracing(error.to_string())
}

/// Attaches tracers to all programs. Failing is an error only for programs that were requested explicitly.
fn trace_all(
    all: Vec<Held>,
    counters: &[PerfCounter],
    was_asked_for: bool,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Traced>, LiveError> {
    let (mut traced, mut refused) = (Vec::with_capacity(all.len()), Vec::new());
    for held in all {
        let program = held.label();
        match trace(held, counters) {
            Ok(one) => {
                warnings.extend(about_tail_calls(&one.held, &program));
                traced.push(one);
            }
            Err(error) if was_asked_for => {
                return Err(LiveError::NotTraceable { program, reason: reason(&error) });
            }
            Err(error) => refused.push((program, reason(&error))),
        }
    }
    match refused.pop() {
        Some((program, reason)) if traced.is_empty() => {
            Err(LiveError::NotTraceable { program, reason })
        }
        last => {
            let refused = refused.iter().chain(&last);
            warnings.extend(refused.map(|(program, reason)| warning::not_traced(program, reason)));
            Ok(traced)
        }
    }
}

fn trace(held: Held, counters: &[PerfCounter]) -> Result<Traced, RecorderError> {
    let recorder = Recorder::attach(held.descriptor.as_fd(), counters)?;
    let misses_before = held.info.recursion_misses;
    Ok(Traced { held, recorder, began_ns: now_ns(), misses_before })
}

/// The kernel's message about tracing a tracer is unhelpfully short.
fn reason(error: &RecorderError) -> String {
    let text = error.to_string();
    match error {
        RecorderError::Trampoline(TrampolineError::Load { log, .. })
            if log.contains("Cannot recursively attach") || log.contains("Cannot nest") =>
        {
            format!(
                "{text}; it is a tracing program (fentry, fexit) itself, and the kernel attaches none to those"
            )
        }
        _ => text,
    }
}

fn about_tail_calls(held: &Held, program: &str) -> Option<Warning> {
    let TailCalls { has_table, is_in_table } = TailCalls::of(held.descriptor.as_fd()).ok()?;
    warning::tail_calls(program, has_table, is_in_table)
}

fn unreadable(error: RecorderError) -> LiveError {
    LiveError::System { what: "read what was recorded".to_owned(), source: io::Error::other(error) }
}

fn report_of(
    one: Traced,
    empty: &EmptyRuns,
    counters: &[PerfCounter],
) -> Result<ProgramReport, LiveError> {
    let Traced { held, recorder, began_ns, misses_before } = one;
    let interval_ns = now_ns().saturating_sub(began_ns);
    let info = ProgramInfo::of(&held.descriptor)
        .map_err(LiveError::system("read a program's counters"))?;
    let recording: Recording = recorder.finish().map_err(unreadable)?;
    let recorded = &recording.results.recorded;
    let rates = Rates {
        interval_ns,
        runs: recorded.count,
        run_time_ns: recorded.sum_ns,
        recursion_misses: info.recursion_misses.saturating_sub(misses_before),
    };
    let empty_mean_ns = Some(empty.single_runs.mean_ns);
    let mut report = ProgramReport::new(&info, &held.name, Some(rates), empty_mean_ns);
    if recording.results.entries > 0 {
        // Perhaps no run finished.
        report.outcome = LiveOutcome::Ran;
    }
    report.single_runs = SingleRuns::new(&recording, empty.single_runs.p50_ns);
    let sums = counters.iter().zip(&recording.results.counters).zip(&empty.counters);
    report.counters = sums
        .map(|((counter, &sums), empty)| {
            CounterReport::new(counter.event(), sums, recorded.count, Some(empty))
        })
        .collect();
    Ok(report)
}

/// Why an empty program cannot be measured. If the kernel rejects tracers here, it rejects them everywhere.
#[derive(Debug, thiserror::Error)]
pub(super) enum EmptyError {
    #[error("an empty program cannot be loaded with type information: {0}")]
    Load(io::Error),
    #[error("an empty program cannot be run: {0}")]
    Run(io::Error),
    #[error(transparent)]
    Recorder(#[from] RecorderError),
    #[error("the tracers of an empty program recorded none of its runs")]
    Nothing,
}

/// Results of an empty program.
#[derive(Debug)]
pub(super) struct Empty {
    pub(super) runs: EmptyRuns,
    pub(super) were_statistics_on: bool,
}

/// Runs an empty program without and with tracers.
fn run_empty(counters: &[PerfCounter]) -> Result<Empty, EmptyError> {
    let baseline = Baseline::load_with_types().map_err(EmptyError::Load)?;
    let were_statistics_on = baseline.are_statistics_on().map_err(EmptyError::Run)?;
    let bare_ns = baseline.mean_run_ns().map_err(EmptyError::Run)?;
    let recorder = Recorder::attach(baseline.as_fd(), counters)?;
    let traced_ns = baseline.mean_run_ns().map_err(EmptyError::Run)?;
    let recording = recorder.finish()?;
    let single_runs = SingleRuns::new(&recording, None).ok_or(EmptyError::Nothing)?;
    let counters = counters.iter().zip(&recording.results.counters).map(|(counter, &sums)| {
        CounterReport::new(counter.event(), sums, recording.results.recorded.count, None)
    });
    Ok(Empty {
        runs: EmptyRuns {
            counters: counters.collect(),
            added_ns: f64::from(traced_ns) - f64::from(bare_ns),
            single_runs,
        },
        were_statistics_on,
    })
}

/// Why the single runs of a program cannot be timed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecorderError {
    #[error(transparent)]
    Trampoline(#[from] TrampolineError),
    #[error(transparent)]
    Map(#[from] MapError),
    #[error(transparent)]
    Wrong(#[from] WrongLen),
    #[error("cannot read how many runs were left out: {0}")]
    Misses(io::Error),
}

/// Recorded and missed runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recording {
    pub(super) results: RunRecords,
    /// Runs for which the kernel skipped a tracer that was already running on that CPU.
    pub(super) recursion_misses: u64,
}

/// Times the runs of one program while it lives.
#[derive(Debug)]
pub(super) struct Recorder {
    entry: Tracer,
    exit: Tracer,
    results: LoadedMap,
    counters: usize,
}

impl Recorder {
    /// Starts timing the runs of `program`.
    pub(super) fn attach(
        program: BorrowedFd<'_>,
        counters: &[PerfCounter],
    ) -> Result<Self, RecorderError> {
        let target = TraceTarget::new(program)?;
        let results = LoadedMap::results_per_cpu(value_len_bytes(counters.len()))?;
        let mut maps = vec![results.as_fd()];
        maps.extend(counters.iter().map(|counter| counter.as_fd()));
        let code: Tracers = tracers(counters.len());
        let mut entry = Tracer::load(target, Moment::Entry, &code.entry, &maps)?;
        let mut exit = Tracer::load(target, Moment::Exit, &code.exit, &maps)?;
        // Attach the exit first, so that no recorded run lacks its exit. Clears what it records
        // until the entry is attached.
        exit.attach()?;
        results.clear_results()?;
        entry.attach()?;
        Ok(Self { entry, exit, results, counters: counters.len() })
    }

    /// Reads the records so far.
    pub(super) fn read(&self) -> Result<RunRecords, RecorderError> {
        Ok(read_results(&self.results.read_results()?, self.counters)?)
    }

    /// Detaches the tracers and returns their records. Nothing writes meanwhile, so all figures are consistent.
    pub(super) fn finish(mut self) -> Result<Recording, RecorderError> {
        self.entry.detach();
        self.exit.detach();
        let misses = |tracer: &Tracer| tracer.recursion_misses().map_err(RecorderError::Misses);
        let recursion_misses = misses(&self.entry)?.saturating_add(misses(&self.exit)?);
        Ok(Recording { results: self.read()?, recursion_misses })
    }
}
