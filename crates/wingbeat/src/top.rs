//! `wingbeat top`: cost of all loaded programs now.
//!
//! [`state`] has the model and its updates by keys, [`screen`] draws it, [`columns`] lays out the table; none of them
//! touches terminal or kernel. [`session`] sets the terminal's modes and runs the event loop over keys, clock and
//! kernel.

mod columns;
mod keys;
mod screen;
mod session;
mod state;

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
    thread,
    time::Duration,
};

use anyhow::bail;
use wingbeat_bpf_bench::live::{LiveReport, Total, Watch, format::Format};

use crate::{
    shell::{print, warning},
    top::{
        columns::{Column, Sort, UnknownColumn},
        state::is_wanted,
    },
    values::{duration, named},
};

/// Shortest interval between two readings: below it, reading itself would be the load.
const DELAY_MIN: Duration = Duration::from_millis(50);

/// Flags of `wingbeat top`.
#[derive(Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// Time between updates: 1s, 500ms
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = delay)]
    delay: Duration,
    /// Column to sort by: id, type, name, owners, runs, time or cpu
    #[arg(long, value_name = "COLUMN", default_value = "cpu")]
    #[arg(value_parser = |text: &str| text.parse::<Column>().map_err(|error: UnknownColumn| error))]
    sort: Column,
    /// Show only programs with TEXT in their name, type or owners
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// Measure once, for the time of --delay, and print to stdout
    #[arg(long)]
    once: bool,
    /// Output format of --once
    #[arg(long, value_parser = named::<Format>(), value_name = "FORMAT", requires = "once")]
    #[arg(default_value = "human", default_value_if("json", "true", "json"))]
    format: Format,
    /// Same as --format json
    #[arg(long = "json", id = "json", requires = "once", overrides_with = "format")]
    _json: bool,
}

fn delay(text: &str) -> Result<Duration, String> {
    let delay = duration(text)?;
    if delay < DELAY_MIN {
        Err(format!("at least {} ms", DELAY_MIN.as_millis()))
    } else {
        Ok(delay)
    }
}

/// Shows the table until the user quits, or prints it once.
pub(crate) fn run(args: &TopArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    if args.once {
        return once(args, quiet);
    }
    if !io::stdout().is_terminal() {
        bail!("stdout is not a terminal; `wingbeat top --once` prints one table and ends");
    }
    let watch = Watch::start()?;
    session::run(watch, args.delay, Sort::by(args.sort), args.filter.clone())?;
    Ok(ExitCode::SUCCESS)
}

fn once(args: &TopArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    let mut watch = Watch::start()?;
    thread::sleep(args.delay);
    let report = watch.next_report()?;
    let loaded = report.programs.len();
    let report = arranged(report, Sort::by(args.sort), &args.filter);
    // Disables statistics before any output can block.
    drop(watch);
    if !quiet {
        for warning in &report.warnings {
            warning!("{warning}");
        }
    }
    let format = args.format;
    let text = match format {
        Format::Human if report.programs.is_empty() && loaded > 0 => format!(
            "no program has {:?} in its name, type or owners; {loaded} loaded\n",
            args.filter
        ),
        format => format.write(&report)?,
    };
    if !quiet || format != Format::Human {
        print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The report with the selected programs, sorted; the total covers only these.
fn arranged(mut report: LiveReport, sort: Sort, filter: &str) -> LiveReport {
    report.programs.retain(|program| is_wanted(program, filter));
    report.programs.sort_by(|a, b| sort.compare(a, b));
    report.total = Total::of(&report.programs, report.cpus_online);
    report
}
