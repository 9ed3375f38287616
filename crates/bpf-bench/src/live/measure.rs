//! Measures selected programs for a duration, or while a command runs.

use std::{
    ffi::OsString,
    io,
    os::fd::{AsFd as _, BorrowedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use wingbeat_bpf_loader::{
    command::{Ended, LaunchError, Launched},
    fd_holders::Owners,
    program::ProgramInfo,
};
use wingbeat_stats::student;

use super::{
    Attachments, LiveError, Options, Progress, Statistics,
    change::{Change, Rates, Reading},
    check_rights, cpus_online,
    report::{
        CommandReport, EndedBy, LiveReport, MeanInterval, ProgramReport, Vanished, busiest_first,
    },
    sampler::{Held, hold},
    single_runs, warning,
};

/// Initial length of slices.
const SLICE: Duration = Duration::from_millis(20);

/// Reading the counters takes at most 1/50 of the time.
const READING_SHARE_MAX: u32 = 50;

/// Measures until the time is over, the command has ended, or `stop` becomes readable, and calls
/// `show` several times a second. Holds the programs meanwhile, so that they survive their owners,
/// and restores the statistics setting afterwards. Fails if no program matches, privileges are
/// missing, or the command cannot be started. A program that never ran is not an error here: see
/// [`LiveReport::never_ran`].
pub fn measure(
    options: &Options,
    stop: BorrowedFd<'_>,
    show: &mut dyn FnMut(Progress),
) -> Result<LiveReport, LiveError> {
    if options.single_runs || options.counters {
        return single_runs::measure(options, stop, show);
    }
    check_rights()?;
    // Scan first, so that this process is not listed as an owner.
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
        warnings.extend(warning::about_runs(&report));
        programs.push(report);
    }
    warnings.extend(warning::about_owners(&owners, &programs));
    Ok(LiveReport {
        ended_by: run.ended_by,
        empty_run_ns: statistics.empty_run_ns,
        vanished: change.vanished.iter().map(Vanished::from).collect(),
        command: run.command,
        warnings,
        ..LiveReport::new(busiest_first(programs), cpus_online(), change.interval_ns)
    })
}

/// Results of the measured time.
struct Run {
    before: Reading,
    after: Reading,
    slices: Slices,
    ended_by: EndedBy,
    command: Option<CommandReport>,
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
    let (mut after, mut slice) = (Reading::begin(), SLICE);
    let (ended_by, command) = measured_time(options, stop, show, slice, || {
        let began = Instant::now();
        after = read(held)?;
        slice = slice.max(began.elapsed().saturating_mul(READING_SHARE_MAX));
        if slices.push(sums(held, &after)) {
            slice = slice.saturating_mul(2);
        }
        Ok((runs_in(&after).saturating_sub(base), slice))
    })?;
    Ok(Run { before, after, slices, ended_by, command })
}

fn read(held: &[Held]) -> Result<Reading, LiveError> {
    let mut reading = Reading::begin();
    for one in held {
        let info = ProgramInfo::of(&one.descriptor)
            .map_err(LiveError::system("read a program's counters"));
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

/// Starts the command and waits until the time is over, the command has ended, or `stop` becomes
/// readable. Calls `read` after each slice, beginning with slices of the given length: it returns
/// the number of runs and the length of the next slice.
pub(super) fn measured_time(
    options: &Options,
    stop: BorrowedFd<'_>,
    show: &mut dyn FnMut(Progress),
    mut slice: Duration,
    mut read: impl FnMut() -> Result<(u64, Duration), LiveError>,
) -> Result<(EndedBy, Option<CommandReport>), LiveError> {
    let started = Instant::now();
    let launched = start(&options.command)?;
    let ended_by = loop {
        let left = options.duration.map(|duration| duration.saturating_sub(started.elapsed()));
        let waited = wait(stop, launched.as_ref(), left.map_or(slice, |left| left.min(slice)))?;
        let runs;
        (runs, slice) = read()?;
        let elapsed = started.elapsed();
        show(Progress { elapsed, total: options.duration, runs });
        let is_over = options.duration.is_some_and(|duration| elapsed >= duration);
        if let Some(ended_by) = waited.or(is_over.then_some(EndedBy::Time)) {
            break ended_by;
        }
    };
    Ok((ended_by, end(launched, &options.command)?))
}

/// Starts a command with our standard streams; `None` if empty.
fn start(words: &[OsString]) -> Result<Option<Launched>, LiveError> {
    let Some((program, arguments)) = words.split_first() else { return Ok(None) };
    Launched::start(program, arguments).map(Some).map_err(|error| match error {
        LaunchError::Start(source) => {
            LiveError::Launch { program: program.to_string_lossy().into_owned(), source }
        }
        LaunchError::Watch(source) => LiveError::system("watch the command")(source),
    })
}

/// Terminates the command, if there is one, and returns its status.
fn end(command: Option<Launched>, words: &[OsString]) -> Result<Option<CommandReport>, LiveError> {
    let Some(mut command) = command else { return Ok(None) };
    let ended: Ended = command.end().map_err(LiveError::system("end the command"))?;
    Ok(Some(CommandReport {
        words: words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        exit_code: ended.code(),
        ended_by_itself: ended.by_itself,
    }))
}

/// Waits for a duration, a signal or the end of the command, and returns the cause.
fn wait(
    stop: BorrowedFd<'_>,
    command: Option<&Launched>,
    time: Duration,
) -> Result<Option<EndedBy>, LiveError> {
    let failed = LiveError::system("wait");
    let mut watched = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
    watched.extend(command.map(|command| PollFd::from_borrowed_fd(command.as_fd(), PollFlags::IN)));
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
        // Ctrl-C reaches the command too, which may end first.
        (true, _) => Some(EndedBy::Signal),
        (false, true) => Some(EndedBy::Command),
        (false, false) => None,
    })
}

// Confidence interval of the mean time of a run, from its means over time slices.
//
// The statistics only have sums, so a single reading has no spread. Frequent readings give many
// short intervals, each with runs and time. The overall mean is the ratio of two sums, and its
// standard error follows from the deviations of the slices from that ratio (W. G. Cochran,
// Sampling Techniques, 3rd edition, section 6.4); the interval is Student's. It assumes
// independent slices. If the load changes slowly they are dependent, and the interval is too
// narrow.

/// Minimum number of slices with runs.
const SLICES_MIN: usize = 6;

pub(super) const CONFIDENCE: f64 = 0.95;

/// Maximum number of slices kept. Beyond that, pairs are merged.
const SLICES_MAX: usize = 128;

/// Runs and time of one program over a slice, or since it was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sums {
    pub(super) runs: u64,
    pub(super) time_ns: u64,
}

/// Sums of some programs at the ends of slices: a row per reading.
#[derive(Debug, Default)]
pub(super) struct Slices {
    rows: Vec<Vec<Sums>>,
}

impl Slices {
    /// Adds a reading. Returns true if every second reading was dropped to save space: readings may
    /// then be half as frequent.
    pub(super) fn push(&mut self, row: Vec<Sums>) -> bool {
        self.rows.push(row);
        let is_full = self.rows.len() > SLICES_MAX;
        if is_full {
            let mut index = 0;
            self.rows.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        is_full
    }

    /// Interval of the mean of the program in column `program`.
    pub(super) fn interval(&self, program: usize) -> Option<MeanInterval> {
        let column: Vec<Sums> =
            self.rows.iter().filter_map(|row| row.get(program)).copied().collect();
        let slices: Vec<Sums> = column
            .windows(2)
            .filter_map(|pair| match pair {
                [from, to] => Some(Sums {
                    runs: to.runs.checked_sub(from.runs).filter(|&runs| runs > 0)?,
                    time_ns: to.time_ns.checked_sub(from.time_ns)?,
                }),
                _ => None,
            })
            .collect();
        interval(&slices)
    }
}

/// Interval of the ratio of the sums; `None` for fewer than six slices.
fn interval(slices: &[Sums]) -> Option<MeanInterval> {
    if slices.len() < SLICES_MIN {
        return None;
    }
    let count = slices.len() as f64;
    let runs: f64 = slices.iter().map(|slice| slice.runs as f64).sum();
    let time: f64 = slices.iter().map(|slice| slice.time_ns as f64).sum();
    let mean = time / runs;
    let squares: f64 =
        slices.iter().map(|slice| (slice.time_ns as f64 - mean * slice.runs as f64).powi(2)).sum();
    let standard_error = (count * squares / (count - 1.0)).sqrt() / runs;
    let half = student::quantile(0.5 + CONFIDENCE / 2.0, count - 1.0) * standard_error;
    let is_sane = mean.is_finite() && half.is_finite();
    is_sane.then(|| MeanInterval {
        lower_ns: (mean - half).max(0.0),
        upper_ns: mean + half,
        confidence: CONFIDENCE,
        slices: slices.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_started() {
        assert!(start(&[]).expect("nothing to start").is_none());
        let error = start(&["/no/such/program".into()]).expect_err("no such program");
        assert!(error.to_string().starts_with("cannot start /no/such/program: "), "{error}");
    }

    fn sums(runs: u64, time_ns: u64) -> Sums {
        Sums { runs, time_ns }
    }

    #[test]
    fn slices_of_equal_length_give_the_textbook_interval() {
        // Means 48, 52, 50, 50, 49, 51 of 100 runs each: mean 50, s = sqrt(2), t(0.975, 5) = 2.570582.
        let slices: Vec<_> =
            [48, 52, 50, 50, 49, 51].map(|mean| sums(100, 100 * mean)).into_iter().collect();
        let found = interval(&slices).expect("enough slices");
        let half = 2.570_582 * (2.0_f64 / 6.0).sqrt();
        assert!((found.lower_ns - (50.0 - half)).abs() < 1e-4, "{found:?}");
        assert!((found.upper_ns - (50.0 + half)).abs() < 1e-4, "{found:?}");
        assert_eq!(found.slices, 6);
    }

    #[test]
    fn constant_cost_is_certain_however_long_the_slices() {
        let slices: Vec<_> = (1..20).map(|runs| sums(runs, 40 * runs)).collect();
        let found = interval(&slices).expect("enough slices");
        assert!(
            (found.upper_ns - found.lower_ns).abs() < 1e-9 && (found.lower_ns - 40.0).abs() < 1e-9
        );
    }

    #[test]
    fn few_slices_tell_nothing() {
        assert_eq!(interval(&[sums(1, 1); 5]), None);
        let mut slices = Slices::default();
        // Ten readings, with runs between only two of them.
        for reading in 0..10 {
            slices.push(vec![sums(u64::from(reading > 4), u64::from(reading > 4))]);
        }
        assert_eq!(slices.interval(0), None);
        assert_eq!(slices.interval(1), None);
    }

    #[test]
    fn many_readings_are_thinned_without_losing_runs() {
        let mut slices = Slices::default();
        let thinned = (0..=1_000_u64).filter(|&i| slices.push(vec![sums(10 * i, 500 * i)])).count();
        assert!(thinned >= 3 && slices.rows.len() <= SLICES_MAX);
        assert_eq!(slices.rows[0][0], sums(0, 0));
        let found = slices.interval(0).expect("enough slices");
        assert!((found.lower_ns - 50.0).abs() < 1e-6 && found.slices >= 32);
    }
}
