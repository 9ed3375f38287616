//! `wingbeat compare`: runs two revisions interleaved, and prints the result. `wingbeat_track::compare` has the
//! implementation, docs/compare.md is the reference.

use std::{
    env,
    ffi::OsString,
    io::{self, Write as _},
    ops::Bound,
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use indicatif::ProgressBar;
use wingbeat_text::plural;
use wingbeat_track::{
    adapter::Adapter,
    compare::{Comparison, Event, Plan, compare, judge::Settings, output},
    model::Average,
    output::Style,
};

use crate::{
    output::{PendingFile, deliver},
    progress,
    shell::{interruptible, json_text, message, refuse_flags_behind, report_style, warning_text},
    values::{FormatArgs, Named, Values, duration, named, share, share_within, time_seed},
};

/// Flags of `wingbeat compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// Revision to compare with: a branch, a tag, a hash, HEAD~1
    #[arg(long, value_name = "REV")]
    base: String,
    /// Revision to test [default: the working tree, with uncommitted changes]
    #[arg(long, value_name = "REV")]
    head: Option<String>,
    /// Shell command that builds the benchmarks, once for each revision
    /// [default: `cargo bench --no-run` for `cargo bench`; otherwise the first run builds and is discarded]
    #[arg(long, value_name = "COMMAND")]
    build: Option<String>,
    /// Maximum time for the runs of both revisions, without the builds. At least six pairs are run
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2m")]
    time: Duration,
    /// Stop early once every benchmark would show a change of this many percent
    #[arg(long, value_name = "PERCENT", value_parser = positive, default_value = "1")]
    precision: f64,
    /// Parser for the tool's output; docs/adapters.md lists them
    #[arg(long, value_name = "ADAPTER", default_value = "magic")]
    adapter: Adapter,
    /// Use the mean or the median if the tool reports both
    #[arg(long, value_name = "AVERAGE", value_parser = named::<Average>())]
    average: Option<Average>,
    /// Exit with 1 if a benchmark is worse by more than the threshold, failed in the head, or is undecided
    #[arg(long)]
    err: bool,
    /// Largest acceptable worsening of a noisy measure, in percent
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "1")]
    threshold: f64,
    /// Largest acceptable worsening of an exact measure, such as instructions or sizes, in percent
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "0")]
    threshold_exact: f64,
    #[command(flatten)]
    format: FormatArgs<Format>,
    /// Write the result to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Seed for the random order of the runs [default: from the clock]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Command that runs the benchmarks and prints their results on stdout; a single argument is passed to
    /// the shell
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Forms of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Human,
    Json,
    Markdown,
}

impl Named for Format {
    const VALUES: Values<Self> = &[
        (Self::Human, "human", "A table"),
        (Self::Json, "json", "All data"),
        (Self::Markdown, "markdown", "A table for comments and summaries"),
    ];
}

/// Compares and prints. The exit code is 1 if `--err` is given and the head does not pass, otherwise 0.
pub(crate) fn run(args: &CompareArgs, quiet: bool, verbose: bool) -> anyhow::Result<ExitCode> {
    let output = args.output.as_deref().map(PendingFile::create).transpose()?;
    let plan = plan(args)?;
    let comparison = interruptible(|stop| {
        let mut shown = Shown::new(plan.time, quiet, verbose);
        compare(&plan, stop, &mut |event| shown.show(&event))
    })?;
    // Files have no width.
    let mut style = report_style(verbose);
    if output.is_some() {
        style.width = usize::MAX;
    }
    let format = args.format.get();
    let text = text(&comparison, format, style)?;
    deliver(output, &text, format == Format::Human, quiet)?;
    let passes = !comparison.is_worse() && !comparison.is_undecided();
    Ok(if args.err && !passes { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn plan(args: &CompareArgs) -> anyhow::Result<Plan> {
    refuse_flags_behind(&args.command)?;
    Ok(Plan {
        directory: env::current_dir().context("cannot determine the current folder")?,
        base: args.base.clone(),
        head: args.head.clone(),
        command: args.command.clone(),
        build: args.build.clone(),
        adapter: args.adapter,
        average: args.average,
        time: args.time,
        until: None,
        settings: Settings {
            precision: args.precision,
            threshold: args.threshold,
            threshold_exact: args.threshold_exact,
            ..Settings::default()
        },
        seed: args.seed.unwrap_or_else(time_seed),
    })
}

fn text(comparison: &Comparison, format: Format, style: Style) -> anyhow::Result<String> {
    Ok(match format {
        Format::Human => output::human(comparison, style),
        Format::Json => json_text(1, comparison)?,
        Format::Markdown => output::markdown(comparison),
    })
}

fn positive(text: &str) -> Result<f64, String> {
    share_within(text, (Bound::Excluded(0.0), Bound::Unbounded))
        .map_err(|error| format!("{error}: no number of runs can detect every change"))
}

/// A progress bar on a terminal; with `-v` also the command's output.
struct Shown {
    bar: ProgressBar,
    time: Duration,
    quiet: bool,
    verbose: bool,
}

impl Shown {
    fn new(time: Duration, quiet: bool, verbose: bool) -> Self {
        let bar = progress::bar("{bar:30} {msg}", Some(millis(time)), quiet || verbose);
        Self { bar, time, quiet, verbose }
    }

    fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Building(side, line) => self.say(&format!("building {}: {line}", side.name())),
            Event::Notice(text) => self.say(&warning_text(text)),
            Event::Output(side, stdout, stderr) if self.verbose => {
                message!("{}:", side.name());
                let mut terminal = io::stderr().lock();
                // Ignores a closed stderr.
                let _ = terminal.write_all(stdout).and_then(|()| terminal.write_all(stderr));
            }
            Event::Output(..) => {}
            Event::Pairs(pairs, elapsed) => {
                self.bar.set_position(millis((*elapsed).min(self.time)));
                let seconds = elapsed.as_secs();
                let most = self.time.as_secs();
                let pairs = plural(*pairs, "pair");
                self.bar.set_message(format!("{pairs}, {seconds} of {most} s at most"));
            }
        }
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            self.bar.suspend(|| message!("{text}"));
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}
