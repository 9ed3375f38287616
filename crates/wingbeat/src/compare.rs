//! `wingbeat compare`: has two revisions run by turns, prints what was found. What it takes is in
//! `wingbeat_track::compare`; docs/compare.md is the reference.

mod progress;

use std::{
    env,
    ffi::OsString,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, SystemTime},
};

use anyhow::Context as _;
use clap::ValueEnum;
use wingbeat_track::{
    adapter::Adapter,
    compare::{Comparison, Plan, compare, judge::Settings, output},
    model::Average,
    output::Style,
};

use crate::{
    bench::terminal_width,
    cli::{duration, tell},
    line::refuse_flags_behind,
    output::PendingFile,
};

/// Flags of `wingbeat compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// Revision to compare with: a branch, a tag, a hash, HEAD~1
    #[arg(long, value_name = "REV")]
    base: String,
    /// Revision under test [default: the working tree as it is, uncommitted changes included]
    #[arg(long, value_name = "REV")]
    head: Option<String>,
    /// Line for the shell that builds what the command runs, once for each revision
    /// [default: `cargo bench` is built with --no-run; else the first run builds, and is discarded]
    #[arg(long, value_name = "COMMAND")]
    build: Option<String>,
    /// How long the runs may take, both revisions together, without the builds. Six pairs are run
    /// even if that takes longer
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2m")]
    time: Duration,
    /// End early when a change of so many percent would have been seen in every benchmark
    #[arg(long, value_name = "PERCENT", value_parser = positive_percent, default_value = "1")]
    precision: f64,
    /// What reads the output of the command; docs/adapters.md lists them
    #[arg(long, value_name = "ADAPTER", default_value = "magic")]
    adapter: Adapter,
    /// Figure that stands for a benchmark, where the tool tells both: mean or median
    #[arg(long, value_name = "AVERAGE", value_parser = average)]
    average: Option<Average>,
    /// Exit with 1 if a benchmark is worse beyond the threshold, failed in the head, or could not be
    /// decided
    #[arg(long)]
    err: bool,
    /// Change of a noisy measure up to which worse is no failure
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "1")]
    threshold: f64,
    /// The same for exact measures, such as instructions and sizes
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "0")]
    threshold_exact: f64,
    /// Form of the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: Format,
    /// File to write the result to, instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Where the random order of the runs begins [default: by the clock]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Command that runs the benchmarks and prints their results on stdout; a single argument is a
    /// line for the shell
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Forms of the result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table
    #[default]
    Human,
    /// Everything
    Json,
    /// A table for comments and summaries
    Markdown,
}

/// Compares and prints. The exit code is 1 when `--err` is given and the head does not pass, else 0.
pub(crate) fn run(args: &CompareArgs, quiet: bool, verbose: bool) -> anyhow::Result<ExitCode> {
    let output = args.output.as_deref().map(PendingFile::create).transpose()?;
    let plan = plan(args)?;
    let comparison = progress::interruptible(|stop| {
        let mut progress = progress::Live::new(plan.time, quiet, verbose);
        compare(&plan, stop, &mut |event| progress.show(&event))
    })?;
    match output {
        Some(file) => {
            let path = file.path().to_owned();
            // A file has no width.
            let style = Style { width: usize::MAX, has_colours: false, is_verbose: verbose };
            let text = text(&comparison, args.format, style)?;
            let bytes = file.write(|writer| writer.write_all(text.as_bytes()))?;
            if !quiet && path != Path::new("-") {
                tell!("wrote {} ({bytes} bytes)", path.display());
            }
        }
        None => {
            let choice = anstream::AutoStream::choice(&io::stdout());
            let has_colours = choice != anstream::ColorChoice::Never;
            let style = Style { width: terminal_width(), has_colours, is_verbose: verbose };
            let text = text(&comparison, args.format, style)?;
            let mut stdout = anstream::stdout().lock();
            stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())?;
        }
    }
    let passes = !comparison.is_worse() && !comparison.is_undecided();
    Ok(if args.err && !passes { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn plan(args: &CompareArgs) -> anyhow::Result<Plan> {
    refuse_flags_behind(&args.command)?;
    let clock = || {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::from(now.subsec_nanos()) ^ now.as_secs() << 32
    };
    Ok(Plan {
        directory: env::current_dir().context("cannot tell the current folder")?,
        base: args.base.clone(),
        head: args.head.clone(),
        command: args.command.clone(),
        build: args.build.clone(),
        adapter: args.adapter,
        average: args.average,
        time: args.time,
        until: None,
        settings: Settings {
            precision: args.precision / 100.0,
            threshold: args.threshold / 100.0,
            threshold_exact: args.threshold_exact / 100.0,
            ..Settings::default()
        },
        seed: args.seed.unwrap_or_else(clock),
    })
}

fn text(comparison: &Comparison, format: Format, style: Style) -> anyhow::Result<String> {
    Ok(match format {
        Format::Human => output::human(comparison, style),
        Format::Json => output::json(comparison).context("cannot write JSON")?,
        Format::Markdown => output::markdown(comparison),
    })
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent),
        _ => Err("a percentage from 0 on is wanted, such as 2.5".to_owned()),
    }
}

fn positive_percent(text: &str) -> Result<f64, String> {
    let percent = percent(text)?;
    if percent > 0.0 {
        Ok(percent)
    } else {
        Err("no number of runs shows every change; give more than 0".to_owned())
    }
}

fn average(text: &str) -> Result<Average, String> {
    match text {
        "mean" => Ok(Average::Mean),
        "median" => Ok(Average::Median),
        _ => Err("mean or median is wanted".to_owned()),
    }
}
