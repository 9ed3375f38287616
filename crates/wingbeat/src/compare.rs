//! `wingbeat compare`: has two revisions run by turns, prints what was found. What it takes is in
//! `wingbeat_track::compare`; docs/compare.md is the reference.

mod progress;

use std::{
    env,
    ffi::OsString,
    io,
    ops::Bound,
    path::PathBuf,
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
    line::refuse_flags_behind,
    output::{PendingFile, deliver},
    shell::{interruptible, stdout_has_colours, width_of},
    values::{duration, share, share_within},
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
    #[arg(long, value_name = "PERCENT", value_parser = positive, default_value = "1")]
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
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "1")]
    threshold: f64,
    /// The same for exact measures, such as instructions and sizes
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "0")]
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
    let comparison = interruptible(|stop| {
        let mut shown = progress::Shown::new(plan.time, quiet, verbose);
        compare(&plan, stop, &mut |event| shown.show(&event))
    })?;
    let style = match output {
        // A file has no width.
        Some(_) => Style { width: usize::MAX, has_colours: false, is_verbose: verbose },
        None => Style {
            width: width_of(io::stdout()),
            has_colours: stdout_has_colours(),
            is_verbose: verbose,
        },
    };
    deliver(output, &text(&comparison, args.format, style)?, quiet)?;
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
            precision: args.precision,
            threshold: args.threshold,
            threshold_exact: args.threshold_exact,
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

fn positive(text: &str) -> Result<f64, String> {
    share_within(text, (Bound::Excluded(0.0), Bound::Unbounded))
        .map_err(|error| format!("{error}: no number of runs shows every change"))
}

fn average(text: &str) -> Result<Average, String> {
    match text {
        "mean" => Ok(Average::Mean),
        "median" => Ok(Average::Median),
        _ => Err("mean or median is wanted".to_owned()),
    }
}
