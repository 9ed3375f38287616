//! Measures chosen programs over a time, or while a command runs.

use std::{
    ffi::OsString,
    io,
    os::fd::{BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use wingbeat_bpf::{
    owners::Owners,
    program::{self, Info},
};

use super::{
    Attachments, LiveError, Statistics,
    change::{Change, Rates},
    check_rights,
    choose::{Loaded, Wanted, matching},
    command::{Ended, Launched},
    cpus_online,
    reading::Reading,
    report::{
        CommandReport, EndedBy, ProgramReport, Report, SCHEMA_VERSION, Total, Vanished, label,
    },
    sampler::name_of,
    single_runs,
    uncertainty::{Slices, Sums},
    warning,
};
use crate::warning::Warning;

/// Slices begin this long.
const SLICE: Duration = Duration::from_millis(20);

/// Reading the counters takes at most this part of the time.
const READING_SHARE_MAX: u32 = 50;

/// A mean of fewer runs is worth a warning.
const RUNS_FEW: u64 = 100;

/// What to measure.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Ids, names, tags and pins; none means all programs.
    pub wanted: Vec<String>,
    /// How long; `None` until the command ends, or a signal comes.
    pub duration: Option<Duration>,
    /// A command to launch, with its arguments; may be empty.
    pub command: Vec<OsString>,
    /// Time single runs, by programs at the entry and the exit of those that are measured.
    pub single_runs: bool,
    /// Read counters of perf around each run; times single runs, too.
    pub counters: bool,
}

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Time since the beginning.
    pub elapsed: Duration,
    /// Time in all, if it is known.
    pub total: Option<Duration>,
    /// Runs of all measured programs so far.
    pub runs: u64,
}

/// Measures, until the time is over, the command has ended, or `stop` becomes readable, and calls
/// `show` some times a second. The programs are held meanwhile, so that they survive whoever loaded
/// them; statistics are afterwards as they were.
///
/// # Errors
///
/// When nothing is as asked for, rights are missing, or the command cannot be started. That a program
/// never ran is no error here: [`Report::never_ran`] tells it.
pub fn measure(
    options: &Options,
    stop: BorrowedFd<'_>,
    show: &mut dyn FnMut(Progress),
) -> Result<Report, LiveError> {
    if options.single_runs || options.counters {
        return single_runs::measure(options, stop, show);
    }
    check_rights()?;
    // First of all, lest this process be found to be an owner.
    let owners = Owners::scan().map_err(LiveError::system("list the processes"))?;
    let held = hold(&options.wanted)?;
    let attachments = Attachments::read().unwrap_or_default();
    let statistics = Statistics::switch_on(&owners)?;
    let run = run(options, &held, stop, show)?;

    let change = Change::between(&run.before, &run.after);
    let mut warnings = statistics.warnings.clone();
    let rates_of = |id: u32| -> Option<Rates> {
        let position = change.programs.binary_search_by_key(&id, |counted| counted.info.id).ok()?;
        change.programs.get(position)?.rates
    };
    let mut programs = Vec::with_capacity(held.len());
    for (index, one) in held.iter().enumerate() {
        let id = one.info.id;
        let report =
            ProgramReport::new(&one.info, &one.name, rates_of(id), statistics.empty_run_ns);
        let mut report = report.with_holders(owners.of(id), attachments.of(id));
        report.time_per_run_interval = run.slices.interval(index);
        warnings.extend(warnings_about(&report));
        programs.push(report);
    }
    warnings.extend(warning::about_owners(&owners, &programs));
    programs.sort_by(|a, b| b.cpu_percent.unwrap_or(0.0).total_cmp(&a.cpu_percent.unwrap_or(0.0)));
    let cpus_online = cpus_online();
    let total = Total::of(&programs, cpus_online);
    let vanished = |info: &Info| Vanished { id: info.id, name: info.name.clone() };
    Ok(Report {
        schema_version: SCHEMA_VERSION,
        wingbeat: env!("CARGO_PKG_VERSION").to_owned(),
        duration_ns: change.interval_ns,
        ended_by: run.ended_by,
        cpus_online,
        empty_run_ns: statistics.empty_run_ns,
        programs,
        total,
        vanished: change.vanished.iter().map(vanished).collect(),
        command: run.command.map(|ended| command_report(&options.command, ended)),
        empty: None,
        warnings,
    })
}

pub(super) fn warnings_about(program: &ProgramReport) -> Vec<Warning> {
    let misses = program.recursion_misses.filter(|&misses| misses > 0);
    let runs = program.runs.filter(|runs| (1..RUNS_FEW).contains(runs));
    let left_out = misses.map(|misses| warning::recursion(&program.label(), misses));
    left_out.into_iter().chain(runs.map(|runs| warning::few_runs(&program.label(), runs))).collect()
}

pub(super) fn command_report(words: &[OsString], ended: Ended) -> CommandReport {
    CommandReport {
        words: words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        exit_code: ended.code(),
        ended_by_itself: ended.by_itself,
    }
}

/// A program that stays loaded because of this descriptor.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) descriptor: OwnedFd,
    pub(super) info: Info,
    pub(super) name: String,
}

/// Takes hold of the programs that are meant, by ascending id, each once.
pub(super) fn hold(wanted: &[String]) -> Result<Vec<Held>, LiveError> {
    let mut all = hold_all()?;
    if all.is_empty() {
        return Err(LiveError::NothingLoaded);
    }
    if wanted.is_empty() {
        return Ok(all);
    }
    let loaded: Vec<Loaded> = all.iter().map(Held::loaded).collect();
    let mut ids = Vec::new();
    for text in wanted {
        match Wanted::from(text.as_str()) {
            Wanted::Word(word) => ids.extend(matching(&word, &loaded)?),
            Wanted::Pin(path) => {
                let failed = |source| LiveError::Pin { path: path.clone(), source };
                let descriptor = program::open_pinned(&path).map_err(failed)?;
                ids.push(Info::of(&descriptor).map_err(failed)?.id);
            }
        }
    }
    all.retain(|held| ids.contains(&held.info.id));
    Ok(all)
}

fn hold_all() -> Result<Vec<Held>, LiveError> {
    let ids = program::ids().map_err(LiveError::system("list the loaded programs"))?;
    let held = ids.into_iter().filter_map(|id| {
        // It may be gone already.
        let descriptor = program::open(id).ok()?;
        let info = Info::of(&descriptor).ok()?;
        let name = name_of(&info, &descriptor);
        Some(Held { descriptor, info, name })
    });
    Ok(held.collect())
}

impl Held {
    /// What to call it in a sentence.
    pub(super) fn label(&self) -> String {
        label(self.info.id, &self.name)
    }

    fn loaded(&self) -> Loaded {
        Loaded {
            id: self.info.id,
            name: self.name.clone(),
            kernel_name: self.info.name.clone(),
            tag: self.info.tag,
        }
    }
}

/// What the measured time gave.
struct Run {
    before: Reading,
    after: Reading,
    slices: Slices,
    ended_by: EndedBy,
    command: Option<Ended>,
}

fn run(
    options: &Options,
    held: &[Held],
    stop: BorrowedFd<'_>,
    show: &mut dyn FnMut(Progress),
) -> Result<Run, LiveError> {
    let mut slices = Slices::default();
    let before = read(held)?;
    let base = runs_in(&before);
    slices.push(sums(held, &before));
    let started = Instant::now();
    let mut launched = Launched::start(&options.command)?;
    let mut slice = SLICE;
    let (after, ended_by) = loop {
        let left = options.duration.map(|duration| duration.saturating_sub(started.elapsed()));
        let waited = wait(stop, launched.as_ref(), left.map_or(slice, |left| left.min(slice)))?;
        let began = Instant::now();
        let reading = read(held)?;
        slice = slice.max(began.elapsed().saturating_mul(READING_SHARE_MAX));
        if slices.push(sums(held, &reading)) {
            slice = slice.saturating_mul(2);
        }
        let elapsed = started.elapsed();
        let runs = runs_in(&reading).saturating_sub(base);
        show(Progress { elapsed, total: options.duration, runs });
        let is_over = options.duration.is_some_and(|duration| elapsed >= duration);
        match waited {
            Some(ended_by) => break (reading, ended_by),
            None if is_over => break (reading, EndedBy::Time),
            None => {}
        }
    };
    let ended = launched.as_mut().map(Launched::end).transpose();
    let command = ended.map_err(LiveError::system("end the command"))?;
    Ok(Run { before, after, slices, ended_by, command })
}

fn read(held: &[Held]) -> Result<Reading, LiveError> {
    let mut reading = Reading::begin();
    for one in held {
        let info =
            Info::of(&one.descriptor).map_err(LiveError::system("read a program's counters"));
        reading.add(info?);
    }
    Ok(reading)
}

fn runs_in(reading: &Reading) -> u64 {
    let counts = reading.entries.values().map(|entry| entry.info.run_count);
    counts.fold(0, u64::saturating_add)
}

fn sums(held: &[Held], reading: &Reading) -> Vec<Sums> {
    let of = |id: u32| {
        let info = &reading.entries.get(&id)?.info;
        Some(Sums { runs: info.run_count, time_ns: info.run_time_ns })
    };
    held.iter().map(|one| of(one.info.id).unwrap_or_default()).collect()
}

/// Waits for so long, or less if a signal came or the command ended, and tells which.
pub(super) fn wait(
    stop: BorrowedFd<'_>,
    command: Option<&Launched>,
    time: Duration,
) -> Result<Option<EndedBy>, LiveError> {
    let failed = LiveError::system("wait");
    let mut watched = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
    watched.extend(command.map(|command| PollFd::from_borrowed_fd(command.fd(), PollFlags::IN)));
    let time = match Timespec::try_from(time) {
        Ok(time) => time,
        Err(error) => return Err(failed(io::Error::other(error))),
    };
    match poll(&mut watched, Some(&time)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(failed(error.into())),
    }
    let is_ready = |fd: Option<&PollFd<'_>>| fd.is_some_and(|fd| !fd.revents().is_empty());
    Ok(match (is_ready(watched.first()), is_ready(watched.get(1))) {
        // Ctrl-C reaches the command too, and it may be the first to end.
        (true, _) => Some(EndedBy::Signal),
        (false, true) => Some(EndedBy::Command),
        (false, false) => None,
    })
}
