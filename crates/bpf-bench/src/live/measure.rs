//! Measures selected programs for a duration, or while a command runs.

use std::{
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

use wingbeat_bpf_loader::{owners::Owners, program::ProgramInfo};

use super::{
    Attachments, LiveError, Options, Progress, Statistics,
    change::{Change, Rates, Reading},
    check_rights,
    command::measured_time,
    cpus_online,
    held::{Held, hold},
    report::{CommandReport, EndedBy, LiveReport, ProgramReport, Vanished, busiest_first},
    single_runs,
    uncertainty::{Slices, Sums},
    warning,
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
