//! `wingbeat bench --live`: flags in, calls, text out.

use std::{
    ffi::OsString,
    io::{self, IsTerminal as _, Write as _},
    os::{fd::AsFd as _, unix::net::UnixStream},
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
    low_level::pipe,
};
use wingbeat_bench::live::{EndedBy, Options, Progress, Report, format::Format, measure};
use wingbeat_text::grouped;

use crate::{
    cli::{styled_error, styled_warning, tell},
    output::PendingFile,
};

/// How long it takes when neither time nor command says it.
const DURATION: Duration = Duration::from_secs(5);

/// What `wingbeat bench --live` is to do.
#[derive(Debug)]
pub(crate) struct LiveArgs {
    /// A program that is loaded: its id, name, tag, or the path of its pin [default: all]
    pub(crate) programs: Vec<String>,
    /// How long to measure: 10s, 500ms [default: until COMMAND ends, or 5s]
    pub(crate) duration: Option<Duration>,
    /// Form of the result: human, json, bmf (Bencher Metric Format) or csv
    pub(crate) format: Format,
    /// File to write the result to, instead of stdout
    pub(crate) output: Option<PathBuf>,
    /// Command during which to measure, with its arguments
    pub(crate) command: Vec<OsString>,
    /// Time single runs
    pub(crate) distribution: bool,
    /// Read counters of perf around single runs
    pub(crate) counters: bool,
}

/// Measures and writes. The exit code is that of the command when it fails, 1 when a program never
/// ran, else 0.
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
    let text = args.format.write(&report)?;
    match output {
        Some(file) => drop(file.write(|writer| writer.write_all(text.as_bytes()))?),
        None => {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes())
                .and_then(|()| out.flush())
                .context("cannot write to stdout")?;
        }
    }
    Ok(tell_rest(&report, &options, quiet, verbose))
}

/// Measures until the end, showing how it goes if somebody watches.
fn measured(options: &Options, quiet: bool) -> anyhow::Result<Report> {
    let (stop, signalled) = UnixStream::pair().context("cannot make a socket for signals")?;
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Once it is over nobody waits for the socket: signals then do what they usually do.
        flag::register_conditional_default(signal, Arc::clone(&is_over))
            .context("cannot handle signals")?;
        let writer = signalled.try_clone().context("cannot make a socket for signals")?;
        pipe::register(signal, writer).context("cannot handle signals")?;
    }
    // A command that was launched shares the terminal, and its output must not be torn by ours.
    let is_hidden = quiet || !options.command.is_empty() || !io::stderr().is_terminal();
    let target =
        if is_hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(None, target);
    let report = measure(options, stop.as_fd(), &mut |progress| {
        bar.set_message(progress_text(progress));
        bar.tick();
    });
    bar.finish_and_clear();
    is_over.store(true, Ordering::Relaxed);
    Ok(report?)
}

fn progress_text(progress: Progress) -> String {
    let total =
        progress.total.map_or_else(String::new, |total| format!(" of {:.1}", total.as_secs_f64()));
    let elapsed = progress.elapsed.as_secs_f64();
    format!("measuring, {elapsed:.1}{total} s, {} runs; Ctrl-C ends it", grouped(progress.runs))
}

/// Tells what is not in the result, and gives the exit code.
fn tell_rest(report: &Report, options: &Options, quiet: bool, verbose: bool) -> ExitCode {
    if !quiet {
        for warning in &report.warnings {
            tell!("{}: {warning}", styled_warning());
        }
        if report.ended_by == EndedBy::Signal {
            tell!("a signal ended it; the result is of the time until then");
        }
    }
    let never_ran = report.never_ran(options.wanted.is_empty());
    if options.wanted.is_empty() && never_ran.len() > 1 && !verbose {
        tell!(
            "{}: none of the {} loaded programs ran; -v says of each what to do",
            styled_error(),
            never_ran.len()
        );
    } else {
        for program in &never_ran {
            tell!("{}: {program}", styled_error());
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
