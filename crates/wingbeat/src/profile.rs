//! `wingbeat profile`: parses flags, calls the library, prints text.

mod args;
mod kept;
mod pages;
mod report;

use std::{io, os::fd::BorrowedFd, path::PathBuf, process::ExitCode};

use clap::{Args as _, Command, error::ErrorKind};
use wingbeat_profiler::{
    advice::Document,
    debuginfod::{DebugFiles, Debuginfod, Settings},
    export::{self, Format},
    fold::fold_runtime,
    model::{BinaryKind, Mode, Profile},
    session::{self, Finished, Options},
    summary::{NameSources, OwnCost, Summary},
    symbolize::{Symbolized, symbolize, wanted},
    targets::Targets,
};

use crate::{
    heap,
    output::{PendingFile, Written, given_twice},
    profile::args::StackHalf,
    progress,
    receiver::{Receiver, ReceiverArgs, is_picture},
    shell::{forget_signals, interruptible_by_socket, json_text, print},
    values,
};

pub(crate) use crate::profile::args::{Memory, ProfileArgs, unwind_bytes};

/// Incremented when a field of the summary is renamed or removed.
const SCHEMA_VERSION: u32 = 1;

pub(crate) fn run(args: &ProfileArgs, quiet: bool, verbose: bool) -> anyhow::Result<ExitCode> {
    check_flags(args);
    let receiver = args.receiver.get()?;
    if let Some(folder) = &args.from {
        return kept::run(args, folder, &receiver, quiet);
    }
    let options = Options { caller: receiver.launches_as(&args.receiver), ..options(args) };
    options.targets.check()?;
    if args.mode() == Mode::Pages {
        return pages(args, &options, &receiver, quiet);
    }
    let debuginfod = debuginfod_client(&args.debuginfod);
    let outputs = pending_outputs(&args.output, &receiver)?;
    let summary_file = args.summary_json.as_deref().map(|path| receiver.file(path)).transpose()?;
    check_outputs(outputs.iter().map(|(file, _)| file).chain(&summary_file));
    let mut cost = OwnCost::start();
    let (recording, debug_files) = interruptible_by_socket(|stop| -> anyhow::Result<_> {
        let recording = record(&options, stop, quiet)?;
        cost.record_done();
        let client = debuginfod.as_ref();
        let files = client.map(|client| fetch_debug_files(client, &recording, stop, quiet));
        Ok((recording, files))
    })??;
    let account = debug_files.as_ref().map(|files| files.account.clone());
    let Symbolized { mut profile, refused, unusable } =
        name(&recording, &debug_files.unwrap_or_default(), quiet);
    keep(&mut profile, args.stacks);
    let folded = args.fold_runtime.then(|| fold_runtime(&mut profile));
    let without_idle = args.hide_idle.then(|| profile.without_idle());
    let (shown, idle_hidden) = match &without_idle {
        Some((shown, hidden)) => (shown, *hidden),
        None => (&profile, 0),
    };
    cost.symbolize_done();
    // Without samples there is nothing to draw: the report says why, and no file is written.
    let mut written = Written::default();
    if !shown.is_empty() {
        let by_thread = args.by_thread.then(|| shown.by_thread());
        write(&mut written, outputs, shown, by_thread.as_ref());
    }
    cost.write_done();

    let mut summary = Summary::new(
        &recording,
        &profile,
        NameSources { refused, unusable, debuginfod: account },
        cost.total(),
        idle_hidden,
        ReceiverArgs::command_line(),
        written.outputs.clone(),
    );
    summary.folded = folded;
    let json = || json_text(SCHEMA_VERSION, &Document::of(&summary, shown.samples.len() as u64));
    if let Some(file) = summary_file {
        let text = json()?;
        written.failures.extend(file.write(|writer| writer.write_all(text.as_bytes())).err());
    }
    let is_json = args.format.get() == values::Format::Json;
    report::print(&summary, shown, is_json, quiet, verbose);
    if is_json {
        print(&json()?)?;
    }
    receiver.show(&summary.outputs);
    written.finish()?;
    Ok(heap::exit_code(&recording, !shown.is_empty()))
}

/// Writes a profile; uses `by_thread` for formats that do not separate threads.
fn write(
    written: &mut Written,
    outputs: Vec<(PendingFile, Format)>,
    profile: &Profile,
    by_thread: Option<&Profile>,
) {
    for (file, format) in outputs {
        let profile = match format {
            Format::FlameGraph | Format::Folded => by_thread.unwrap_or(profile),
            Format::Pprof | Format::Firefox { .. } => profile,
        };
        let bytes = |writer: &mut dyn io::Write| export::write(profile, format, writer);
        written.write(file, &format.to_string(), bytes);
    }
}

/// Page fault samples are about memory, like heap profiles.
fn pages(
    args: &ProfileArgs,
    options: &Options,
    receiver: &Receiver,
    quiet: bool,
) -> anyhow::Result<ExitCode> {
    if let Some(error) = args.output.iter().find_map(|path| heap::check_name(path).err()) {
        wrong_usage(ErrorKind::ValueValidation, error.to_string());
    }
    let outputs = heap::outputs(&args.output, receiver)?;
    check_outputs(outputs.iter().map(|(file, _)| file));
    pages::run(options, outputs, args.show.unwrap_or_default(), receiver, quiet)
}

/// Rejects flags of other modes, and flags of saved windows in a recording.
pub(crate) fn check_flags(args: &ProfileArgs) {
    let mode = args.mode();
    let first = |flags: &[(bool, &'static str)]| {
        flags.iter().find(|(is_given, _)| *is_given).map(|(_, flag)| *flag)
    };
    // clap does not require `--from` for these if `--all` is given, which conflicts with it.
    let of_kept = first(&[
        (args.since.is_some(), "--since"),
        (args.until.is_some(), "--until"),
        (!args.service.is_empty(), "--service"),
        (!args.label.is_empty(), "--label"),
    ]);
    let of_time = first(&[
        (args.summary_json.is_some(), "--summary-json"),
        (args.by_thread, "--by-thread"),
        (args.fold_runtime, "--fold-runtime"),
        (!args.debuginfod.is_empty(), "--debuginfod"),
        (args.stacks != StackHalf::Both, "--stacks"),
        (args.format.get() == values::Format::Json, "--format json"),
    ]);
    let of_memory = first(&[(args.show.is_some(), "--show"), (args.faults.is_some(), "--faults")]);
    let off_cpu = first(&[
        (args.min_block.is_some(), "--min-block"),
        (args.wakers, "--wakers"),
        (args.hide_idle, "--hide-idle"),
    ]);
    let is_pages = mode == Mode::Pages;
    let conflict = if let Some(flag) = of_kept.filter(|_| args.from.is_none()) {
        format!("{flag} chooses from what was kept: add --from DIR instead of a target")
    } else if args.receiver.open && !args.output.iter().any(|path| is_picture(path)) {
        "--open shows a flame graph, and no output is one: add -o FILE.svg".to_owned()
    } else if let Some(flag) = of_time.filter(|_| is_pages) {
        format!("{flag} is about time, and --mode pages about memory: leave one of both out")
    } else if is_pages && args.frequency.is_some() {
        "--frequency is about time, and --mode pages samples page faults: --faults says how many"
            .to_owned()
    } else if let Some(flag) = of_memory.filter(|_| !is_pages) {
        format!("{flag} is about memory: add --mode pages")
    } else if let Some(flag) = off_cpu.filter(|_| is_pages || mode == Mode::OnCpu) {
        format!("{flag} is about time off the CPU: add --mode off-cpu or --mode wall")
    } else {
        return;
    };
    wrong_usage(ErrorKind::ArgumentConflict, conflict);
}

/// Rejects two outputs in one file.
fn check_outputs<'a>(files: impl Iterator<Item = &'a PendingFile>) {
    if let Some(text) = given_twice(files) {
        wrong_usage(ErrorKind::ArgumentConflict, text);
    }
}

/// Exits with a usage error.
fn wrong_usage(kind: ErrorKind, text: String) -> ! {
    let command = Command::new("profile").bin_name("wingbeat profile");
    ProfileArgs::augment_args(command).error(kind, text).exit()
}

fn options(args: &ProfileArgs) -> Options {
    let targets = if args.all {
        Targets::All
    } else if args.command.is_empty() {
        Targets::Pids(args.pid.clone())
    } else {
        Targets::Command(args.command.clone())
    };
    let standard = Options::new(targets);
    Options {
        mode: args.mode(),
        min_block_ns: args.min_block.map_or(standard.min_block_ns, |time| {
            u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
        }),
        wakers: args.wakers,
        frequency_hz: args.frequency.unwrap_or(standard.frequency_hz),
        duration: args.duration,
        inherit: !args.no_inherit,
        buffer_bytes: args.buffer_size,
        unwind: args.unwind,
        unwind_bytes: args.unwind_memory,
        faults: args.faults.unwrap_or(standard.faults),
        ..standard
    }
}

/// The output files, with known formats and writable paths, checked before the recording.
fn pending_outputs(
    paths: &[PathBuf],
    receiver: &Receiver,
) -> anyhow::Result<Vec<(PendingFile, Format)>> {
    paths.iter().map(|path| Ok((receiver.file(path)?, Format::from_path(path)?))).collect()
}

/// Records until the end, with progress on a terminal.
fn record(options: &Options, stop: BorrowedFd<'_>, quiet: bool) -> anyhow::Result<Finished> {
    let mut show = progress::recording(&options.targets, quiet);
    Ok(session::record(options, stop, &mut show)?)
}

/// Symbolizes a recording, with progress if it takes long.
fn name(recording: &Finished, debug_files: &DebugFiles, quiet: bool) -> Symbolized {
    let bar = progress::Symbolizing::new(quiet);
    symbolize(recording, debug_files, &mut |done, total| bar.show(done, total))
}

fn keep(profile: &mut Profile, half: StackHalf) {
    match half {
        StackHalf::Both => {}
        StackHalf::User => profile.retain_frames(|kind| !kind.is_kernel()),
        StackHalf::Kernel => profile.retain_frames(BinaryKind::is_kernel),
    }
}

/// The client for `--debuginfod` with these values and the environment; `None` without the flag. Reports invalid values
/// before the recording.
fn debuginfod_client(given: &[String]) -> Option<Debuginfod> {
    if given.is_empty() {
        return None;
    }
    match Settings::new(given, |name| std::env::var_os(name)) {
        Ok(settings) => Some(Debuginfod::new(settings)),
        Err(error) => wrong_usage(ErrorKind::ValueValidation, error.to_string()),
    }
}

/// Downloads missing debug information. A signal stops it, and the output is written without the rest; the signal that
/// ended the recording does not count.
fn fetch_debug_files(
    client: &Debuginfod,
    recording: &Finished,
    stop: BorrowedFd<'_>,
    quiet: bool,
) -> DebugFiles {
    forget_signals(stop);
    client.fetch(wanted(recording), stop, &mut progress::downloading(quiet))
}
