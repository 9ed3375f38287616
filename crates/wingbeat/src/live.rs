//! `wingbeat live`: measures loaded programs in place.

use std::{ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

use wingbeat_bpf_bench::live::{EndedBy, LiveReport, Options, Progress, format::Format, measure};
use wingbeat_text::grouped;

use crate::{
    output::{PendingFile, deliver},
    progress::StatusLine,
    shell::{error, interruptible_by_socket, message, warning},
    values::{FormatArgs, duration},
};

/// Default duration without a time or command.
const DURATION: Duration = Duration::from_secs(5);

/// Flags of `wingbeat live`.
#[derive(Debug, clap::Args)]
pub(crate) struct LiveArgs {
    /// Programs to measure: by id, name, tag, or the path of a pin [default: all that are loaded]
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
    /// Measuring time: 10s, 500ms [default: until COMMAND ends, or 5s]
    // `time` is the former name in `live`.
    #[arg(short, long, alias = "time", value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Show how long single runs take (p50 to max), timed by programs at the entry and exit of the
    /// measured ones (fentry, fexit)
    #[arg(long)]
    distribution: bool,
    /// Also count perf events in each run: cycles, instructions and cache misses, or the kernel's
    /// software events where the machine has no hardware counters
    #[arg(long)]
    counters: bool,
    #[command(flatten)]
    format: FormatArgs<Format>,
    /// Write the result to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Command to run while measuring, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Measures and writes. The exit code is the command's if it fails, 1 if a program never ran, otherwise 0.
pub(crate) fn run(args: &LiveArgs, quiet: bool, verbose: bool) -> anyhow::Result<ExitCode> {
    let output = args.output.as_deref().map(PendingFile::create).transpose()?;
    let is_endless = args.command.is_empty();
    let options = Options {
        wanted: args.programs.clone(),
        duration: args.duration.or(is_endless.then_some(DURATION)),
        command: args.command.clone(),
        single_runs: args.distribution,
        counters: args.counters,
    };
    let report = measured(&options, quiet)?;
    let format = args.format.get();
    let text = format.write(&report)?;
    deliver(output, &text, format == Format::Human, quiet)?;
    Ok(tell_rest(&report, &options, quiet, verbose))
}

/// Measures until the end, with progress on a terminal.
fn measured(options: &Options, quiet: bool) -> anyhow::Result<LiveReport> {
    // A launched command shares the terminal, and its output must not be garbled.
    let line = StatusLine::new(quiet || !options.command.is_empty());
    Ok(interruptible_by_socket(|stop| {
        measure(options, stop, &mut |progress| line.show(progress_text(progress)))
    })??)
}

fn progress_text(progress: Progress) -> String {
    let total =
        progress.total.map_or_else(String::new, |total| format!(" of {:.1}", total.as_secs_f64()));
    let elapsed = progress.elapsed.as_secs_f64();
    format!("measuring, {elapsed:.1}{total} s, {} runs; Ctrl-C ends it", grouped(progress.runs))
}

/// Prints messages that are not in the result; returns the exit code.
fn tell_rest(report: &LiveReport, options: &Options, quiet: bool, verbose: bool) -> ExitCode {
    if !quiet {
        for warning in &report.warnings {
            warning!("{warning}");
        }
        if report.ended_by == EndedBy::Signal {
            message!("a signal ended the measurement; the result covers the time until then");
        }
    }
    let never_ran = report.never_ran(options.wanted.is_empty());
    if options.wanted.is_empty() && never_ran.len() > 1 && !verbose {
        error!("none of the {} loaded programs ran; -v shows what to do for each", never_ran.len());
    } else {
        for program in &never_ran {
            error!("{program}");
        }
    }
    match &report.command {
        Some(command) if command.ended_by_itself && command.exit_code != 0 => {
            ExitCode::from(u8::try_from(command.exit_code).unwrap_or(1))
        }
        _ if !never_ran.is_empty() => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}
