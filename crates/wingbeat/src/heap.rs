//! `wingbeat heap`: parses flags, calls the library, prints text.

pub(crate) mod args;
pub(crate) mod report;

use std::{
    os::fd::BorrowedFd,
    path::{Path, PathBuf},
    process::ExitCode,
};

use wingbeat_profiler::{
    debuginfod::DebugFiles,
    export::{self, Format, HeapFacts, UnknownFormat},
    model::{Mode, Profile},
    session::{self, Finished, HeapAccounts, HeapOptions, Options, Progress},
    symbolize::symbolize,
    targets::Targets,
};
use wingbeat_text::{grouped, share};

pub(crate) use self::args::HeapArgs;
use self::args::{HeapFormat, Show};
use crate::{
    output::{PendingFile, Written, given_twice},
    progress,
    receiver::Receiver,
    shell::{error, interruptible_by_socket, message},
};

pub(crate) fn run(args: &HeapArgs, quiet: bool, verbose: bool) -> anyhow::Result<ExitCode> {
    let receiver = args.receiver.get()?;
    let options = Options { caller: receiver.launches_as(&args.receiver), ..options(args) };
    options.targets.check()?;
    let Some(paths) = paths(args) else { return Ok(ExitCode::from(2)) };
    let outputs = outputs(&paths, &receiver)?;
    if let Some(text) = given_twice(outputs.iter().map(|(file, _)| file)) {
        error!("{text}");
        return Ok(ExitCode::from(2));
    }
    let recording = interruptible_by_socket(|stop| record(&options, stop, quiet))??;
    let profile = symbolize(&recording, &DebugFiles::default(), &mut |_, _| {}).profile;
    let Some(accounts) = recording.heap.clone() else {
        anyhow::bail!("the recording has no account of the heap");
    };
    let mut written = Written::default();
    if !profile.sites.is_empty() {
        write(&mut written, outputs, &profile, &accounts, args.show);
    }
    report::print(&profile, &recording, &accounts, &written.outputs, quiet, verbose);
    if profile.sites.is_empty() {
        error!("{}", report::nothing(&recording, &accounts));
    }
    receiver.show(&written.outputs);
    written.finish()?;
    Ok(exit_code(&recording, !profile.sites.is_empty()))
}

/// The output files; `None` after reporting contradictory flags.
pub(crate) fn paths(args: &HeapArgs) -> Option<Vec<PathBuf>> {
    let paths = args.outputs();
    if paths.is_none() {
        error!("--open shows a flame graph, and no output is one: add -o FILE.svg");
    }
    paths
}

/// Records until the end. Prints the expected cost first, then progress on a terminal.
pub(crate) fn record(
    options: &Options,
    stop: BorrowedFd<'_>,
    quiet: bool,
) -> anyhow::Result<Finished> {
    let show_line = progress::recording(&options.targets, quiet);
    let show = &mut |progress: Progress| match progress.expected_slowdown {
        Some(share) if !quiet => {
            message!("expected to take {} more CPU time in the target", share::size(share));
        }
        Some(_) => {}
        None => show_line(progress),
    };
    Ok(session::record(options, stop, show)?)
}

/// The output files, with known formats and writable paths, checked before the recording.
pub(crate) fn outputs(
    paths: &[PathBuf],
    receiver: &Receiver,
) -> anyhow::Result<Vec<(PendingFile, HeapFormat)>> {
    paths.iter().map(|path| Ok((receiver.file(path)?, HeapFormat::from_path(path)?))).collect()
}

/// Checks that a file name implies a format.
pub(crate) fn check_name(path: &Path) -> Result<(), UnknownFormat> {
    HeapFormat::from_path(path).map(drop)
}

fn options(args: &HeapArgs) -> Options {
    let targets = match args.command.is_empty() {
        true => Targets::Pids(args.pid.clone()),
        false => Targets::Command(args.command.clone()),
    };
    Options {
        mode: Mode::Heap,
        duration: args.duration,
        inherit: !args.no_inherit,
        buffer_bytes: Some(if args.exact { EXACT_BUFFER_BYTES } else { BUFFER_BYTES }),
        heap: HeapOptions {
            sample_bytes: if args.exact { 0 } else { args.sample },
            budget_percent: args.budget,
        },
        ..Options::new(targets)
    }
}

/// Stacks of one second: when sampling every allocation, there may be a million.
const EXACT_BUFFER_BYTES: u32 = 128 << 20;
const BUFFER_BYTES: u32 = 16 << 20;

/// Writes as many files as possible.
fn write(
    written: &mut Written,
    outputs: Vec<(PendingFile, HeapFormat)>,
    profile: &Profile,
    accounts: &HeapAccounts,
    show: Show,
) {
    let mode = match accounts.sample_bytes {
        0 => "heap".to_owned(),
        bytes => format!("heap, sampled every {} bytes", grouped(bytes)),
    };
    let pid = profile.processes.first().map_or(0, |process| process.pid);
    let facts = HeapFacts { pid, mode, peak_ns: Some(accounts.peak_ns) };
    let drawn = &shown(profile, show);
    let files = HeapFiles { in_dhat: profile, in_pprof: profile, drawn, facts: &facts };
    write_outputs(written, outputs, &files);
}

/// The contents of files about memory, by their format.
pub(crate) struct HeapFiles<'a> {
    pub(crate) in_dhat: &'a Profile,
    pub(crate) in_pprof: &'a Profile,
    /// For flame graphs and collapsed stacks.
    pub(crate) drawn: &'a Profile,
    pub(crate) facts: &'a HeapFacts,
}

pub(crate) fn write_outputs(
    written: &mut Written,
    outputs: Vec<(PendingFile, HeapFormat)>,
    files: &HeapFiles<'_>,
) {
    let HeapFiles { in_dhat, in_pprof, drawn, facts } = files;
    for (file, format) in outputs {
        written.write(file, &format.to_string(), |writer| match format {
            HeapFormat::Dhat => export::write_dhat(in_dhat, facts, writer),
            HeapFormat::Pprof => export::write(in_pprof, Format::Pprof, writer),
            HeapFormat::FlameGraph => export::write(drawn, Format::FlameGraph, writer),
            HeapFormat::Folded => export::write(drawn, Format::Folded, writer),
        });
    }
}

/// The profile with the selected values as its live bytes.
fn shown(profile: &Profile, show: Show) -> Profile {
    let mut shown = profile.clone();
    for site in &mut shown.sites {
        site.at_end = match show {
            Show::Live => site.at_end,
            Show::Peak => site.at_peak,
            Show::Total => site.total,
        };
    }
    let words = match show {
        Show::Live => "live at the end",
        Show::Peak => "live at the peak",
        Show::Total => "allocated",
    };
    shown.meta.target = format!("{}: bytes {words}", shown.meta.target);
    shown
}

pub(crate) fn exit_code(recording: &Finished, has_samples: bool) -> ExitCode {
    match &recording.ended {
        Some(ended) if ended.by_itself && ended.code() != 0 => {
            ExitCode::from(u8::try_from(ended.code()).unwrap_or(1))
        }
        _ if !has_samples => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}
