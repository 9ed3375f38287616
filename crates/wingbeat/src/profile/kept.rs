//! `wingbeat profile --from`: merges the agent's saved windows into the outputs of `profile`.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read as _,
    path::Path,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, bail};
use clap::error::ErrorKind;
use time::{OffsetDateTime, macros::format_description};
use wingbeat_agent::{Entry, Kind, Listing, WindowArchive};
use wingbeat_profiler::{
    diff::BYTES_MAX,
    export::{
        Format,
        top::{Row, Top},
    },
    fold::fold_runtime,
    merge::{Merge, Part},
    model::{Mode, Profile},
    summary::Output,
};
use wingbeat_text::{Block, Line, bytes, duration, list, listed, plural, row};

use super::report::{SHARES, percent};
use crate::{
    output::{Written, written},
    profile::{Memory, ProfileArgs, check_outputs, keep, pending_outputs, write, wrong_usage},
    progress,
    receiver::Receiver,
    shell::{message, recorded, tell, titled, warning},
};

/// Maximum files with a warning each; the rest are counted.
const WARNINGS_MAX: usize = 3;

/// Width of the list of services in a message, in characters.
const SERVICES_WIDTH: usize = 200;

pub(super) fn run(
    args: &ProfileArgs,
    folder: &Path,
    receiver: &Receiver,
    quiet: bool,
) -> anyhow::Result<ExitCode> {
    if args.mode() == Mode::Wall {
        let text = "the agent keeps on-cpu, off-cpu and pages: --mode wall is for recordings";
        wrong_usage(ErrorKind::ArgumentConflict, text.to_owned());
    }
    let outputs = pending_outputs(&args.output, receiver)?;
    check_outputs(outputs.iter().map(|(file, _)| file));
    let chosen = choose(args, folder)?;
    for other in chosen.others.iter().filter(|_| !quiet) {
        message!("there is {} of that time, too: --mode {0}", other.name());
    }
    let has_timeline = outputs.iter().any(|(_, format)| matches!(format, Format::Firefox { .. }));
    let (merge, skipped) = read(&chosen, has_timeline, quiet);
    say_skipped(&skipped);
    let covered = merge.windows();
    let mut profile = merge.finish(target(args, folder, &chosen.entries));
    keep(&mut profile, args.stacks);
    if args.fold_runtime {
        fold_runtime(&mut profile);
    }
    if profile.is_empty() {
        bail!("nothing could be read of that time: see the warnings above");
    }
    let mut written = Written::default();
    write(&mut written, outputs, &shown(&profile, args.show.unwrap_or_default()), None);
    if !quiet {
        print(&profile, covered, &written.outputs);
    }
    receiver.show(&written.outputs);
    written.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// The windows to read.
struct Chosen {
    entries: Vec<Entry>,
    mode: Mode,
    /// Other modes saved over the same time.
    others: Vec<Mode>,
}

fn choose(args: &ProfileArgs, folder: &Path) -> anyhow::Result<Chosen> {
    let since = args.since.unwrap_or(SystemTime::UNIX_EPOCH);
    // Without a limit, includes windows from a clock that was ahead.
    let newest = match args.since {
        None => WindowArchive::range(folder)?
            .and_then(|(_, newest)| newest.checked_add(Duration::from_secs(2))),
        Some(_) => None,
    };
    let now = SystemTime::now();
    let until = args.until.unwrap_or_else(|| newest.map_or(now, |newest| newest.max(now)));
    if since >= until {
        let text = format!("--since {} is not before --until {}", day(since), day(until));
        wrong_usage(ErrorKind::ValueValidation, text);
    }
    let Listing { mut entries, damaged } = WindowArchive::list(folder, since, until)?;
    for path in &damaged {
        warning!("{}: its labels.json is damaged, and the window is left out", path.display());
    }
    if entries.is_empty() {
        bail!("{}", nothing(folder, (since, until), &damaged)?);
    }
    let (count, services) = (entries.len(), services(&entries));
    entries.retain(|entry| is_wanted(args, entry));
    if entries.is_empty() {
        bail!(
            "none of {} is what --service and --label ask for: the services of that time are {services}",
            plural(count as u64, "profile")
        );
    }
    let kinds: Vec<Kind> =
        Kind::ALL.into_iter().filter(|kind| entries.iter().any(|it| it.kind == *kind)).collect();
    let mode = args.given_mode;
    // In the order of `Kind::ALL`, on-CPU time is the first.
    let Some(mode) = mode.or_else(|| kinds.first().map(|kind| kind.mode())) else {
        bail!("there is no profile of that time");
    };
    entries.retain(|entry| entry.kind.mode() == mode);
    let others: Vec<Mode> = kinds.into_iter().map(Kind::mode).filter(|it| *it != mode).collect();
    if entries.is_empty() {
        let names: Vec<&str> = others.iter().map(|it| it.name()).collect();
        bail!(
            "no {} profiles were kept of that time, only {}: choose another --mode",
            mode.name(),
            names.join(" and ")
        );
    }
    // Without the flag, mentions the other modes.
    let others = if args.given_mode.is_some() { Vec::new() } else { others };
    Ok(Chosen { entries, mode, others })
}

fn is_wanted(args: &ProfileArgs, entry: &Entry) -> bool {
    let label = |name: &str| entry.labels.get(name).map_or("", String::as_str);
    let service = label("service_name");
    (args.service.is_empty() || args.service.iter().any(|it| it.matches(service)))
        && args.label.iter().all(|(name, value)| value.matches(label(name)))
}

/// Why nothing matches, with the alternatives.
fn nothing(
    folder: &Path,
    (since, until): (SystemTime, SystemTime),
    damaged: &[std::path::PathBuf],
) -> anyhow::Result<String> {
    let folder_name = folder.display();
    Ok(match WindowArchive::range(folder)? {
        None => format!(
            "{folder_name} has no windows: give the folder that `wingbeat agent --keep` writes to"
        ),
        Some(_) if !damaged.is_empty() => {
            format!("{folder_name} has nothing of that time that is whole")
        }
        Some((oldest, newest)) => {
            let from =
                if since == SystemTime::UNIX_EPOCH { "its begin".to_owned() } else { day(since) };
            format!(
                "{folder_name} has nothing from {from} to {}: its windows are from {} to {}",
                day(until),
                day(oldest),
                day(newest)
            )
        }
    })
}

/// The services with the most profiles.
fn services(entries: &[Entry]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for service in entries.iter().filter_map(|entry| entry.labels.get("service_name")) {
        *counts.entry(service).or_default() += 1;
    }
    let mut sorted: Vec<_> = counts.into_iter().collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let names: Vec<String> = sorted.into_iter().map(|(name, _)| name.to_owned()).collect();
    listed(&names, SERVICES_WIDTH)
}

/// Omitted files, with reasons.
type Skipped = Vec<String>;

fn read(chosen: &Chosen, has_timeline: bool, quiet: bool) -> (Merge, Skipped) {
    let bar = progress::Symbolizing::of("{spinner} reading {pos}/{len} profiles", quiet);
    let mut merge = Merge::new(chosen.mode, has_timeline);
    let mut skipped = Vec::new();
    for (done, entry) in chosen.entries.iter().enumerate() {
        bar.show(done, chosen.entries.len());
        let part = Part { process: &process(entry), start: entry.start, duration: entry.duration };
        let added = read_part(&entry.path).and_then(|bytes| merge.add(&bytes, &part));
        if let Err(error) = added {
            skipped.push(format!("{}: {error:#}", entry.path.display()));
        }
    }
    (merge, skipped)
}

fn say_skipped(skipped: &Skipped) {
    for text in skipped.iter().take(WARNINGS_MAX) {
        warning!("{text}; it is left out");
    }
    if let Some(more) = skipped.len().checked_sub(WARNINGS_MAX).filter(|more| *more > 0) {
        warning!("{} more cannot be read, and are left out", plural(more as u64, "file"));
    }
}

fn read_part(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).context("cannot open it")?;
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).context("cannot read it")?;
    Ok(bytes)
}

/// Process name: the service, and its program if named differently.
fn process(entry: &Entry) -> String {
    let label = |name: &str| entry.labels.get(name).map(String::as_str).filter(|it| !it.is_empty());
    match (label("service_name"), label("process_executable_name")) {
        (Some(service), Some(executable)) if service != executable => {
            format!("{service} ({executable})")
        }
        (Some(service), _) => service.to_owned(),
        (None, executable) => executable.unwrap_or("unknown_service").to_owned(),
    }
}

/// For titles: the source of the profile, and its time.
fn target(args: &ProfileArgs, folder: &Path, entries: &[Entry]) -> String {
    let start = entries.iter().map(|it| it.start).min();
    let end = entries.iter().filter_map(|it| it.start.checked_add(it.duration)).max();
    let services: Vec<&str> = args.service.iter().map(|it| it.text()).collect();
    let what = match services.is_empty() {
        true => folder.display().to_string(),
        false => services.join(", "),
    };
    match (start, end) {
        (Some(start), Some(end)) => format!("{what}, {} to {}", day(start), day(end)),
        _ => what,
    }
}

/// `2026-11-27 23:00:00 UTC`.
fn day(time: SystemTime) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second] UTC");
    OffsetDateTime::from(time).format(format).unwrap_or_default()
}

/// The profile with the selected bytes as values.
fn shown(profile: &Profile, show: Memory) -> Profile {
    let mut shown = profile.clone();
    for weight in shown.sums.iter_mut().map(|sum| &mut sum.weight) {
        weight.live = match show {
            Memory::Touched => weight.live,
            Memory::Mapped => weight.mapped,
            Memory::Kept => (weight.mapped.0, weight.kept_bytes),
        };
    }
    shown
}

/// Rows of a table.
const ROWS: usize = 10;

fn print(profile: &Profile, covered: (usize, Duration), outputs: &[Output]) {
    let meta = &profile.meta;
    let mut by_process: BTreeMap<u32, u64> = BTreeMap::new();
    for sum in &profile.sums {
        *by_process.entry(sum.thread).or_default() += value(profile, sum.weight);
    }
    let total: u64 = by_process.values().sum();
    let rate = match meta.mode {
        Mode::OnCpu => format!(" at {} Hz", meta.frequency_hz),
        _ => String::new(),
    };
    let head =
        format!("{}: {} of {}{rate}", meta.target, amount(meta.mode, total), meta.mode.name());
    let (windows, time) = covered;
    let windows = format!(
        "{}, with profiles of {} in {}",
        plural(windows as u64, "window"),
        whole_seconds(time),
        whole_seconds(Duration::from_nanos(meta.duration_ns)),
    );
    let mut processes: Vec<(u32, u64)> = by_process.into_iter().collect();
    processes.sort_by_key(|(_, value)| std::cmp::Reverse(*value));
    let name = |id: u32| profile.processes.get(id as usize).map_or("", |it| it.name.as_str());
    let services = processes.iter().take(ROWS);
    let services = services.map(|&(id, value)| share_row(meta.mode, (value, total), name(id)));
    let top = Top::of(profile, ROWS);
    // Tables convert samples to time, like those after a recording.
    let unit = if meta.mode == Mode::OnCpu { meta.period } else { 1 };
    let table = |title: &str, rows: &[Row], of: fn(&Row) -> u64| {
        let whole = top.total.saturating_mul(unit);
        let line =
            |row: &Row| share_row(meta.mode, (of(row).saturating_mul(unit), whole), &row.name);
        titled(title, &SHARES, rows.iter().map(line).collect())
    };
    let title = format!("Most by service ({})", processes.len());
    tell(&[
        Block::Section(vec![
            recorded("profile", &head, Vec::new()),
            Block::Indented(vec![list([windows])]),
        ]),
        titled(title, &SHARES, services.collect()),
        table("Most in the function itself", &top.by_self, |row| row.own),
        table("Most in the function and what it called", &top.by_total, |row| row.total),
        written(outputs),
    ]);
}

fn whole_seconds(time: Duration) -> impl std::fmt::Display {
    humantime::format_duration(Duration::from_secs(time.as_secs_f64().round() as u64))
}

/// On-CPU time instead of samples: rates may differ.
fn value(profile: &Profile, weight: wingbeat_profiler::model::Weight) -> u64 {
    match profile.meta.mode {
        Mode::OnCpu => weight.on_cpu_ns,
        mode => weight.value(mode),
    }
}

fn amount(mode: Mode, value: u64) -> String {
    match mode {
        Mode::OnCpu | Mode::OffCpu | Mode::Wall => duration(value),
        Mode::Heap | Mode::Pages => bytes(value),
    }
}

fn share_row(mode: Mode, (value, total): (u64, u64), name: &str) -> Vec<Line> {
    row([percent(value, total), amount(mode, value), name.to_owned()])
}
