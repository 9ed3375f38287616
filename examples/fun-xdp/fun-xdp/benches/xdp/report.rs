//! Prints the results: Bencher Metric Format on stdout, a table on stderr.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    process::ExitCode,
};

use fun_xdp::Version;
use serde::Serialize;
use wingbeat_stats::{
    Sample,
    bootstrap::Bootstrap,
    sample::{NotASample, quantile_of_sorted},
};

/// A program with its mean run time per round.
pub(crate) struct Row {
    pub version: Version,
    pub ns_per_run: Vec<f64>,
}

impl Row {
    pub(crate) fn new(version: Version) -> Self {
        Self { version, ns_per_run: Vec::new() }
    }

    /// Difference to another program per round, which cancels the drift of the machine.
    fn beyond(&self, other: &Self) -> Vec<f64> {
        self.ns_per_run.iter().zip(&other.ns_per_run).map(|(own, other)| own - other).collect()
    }
}

/// Nanoseconds per run, with the names of Bencher Metric Format.
#[derive(Serialize)]
struct Figures {
    #[serde(rename = "value")]
    median: f64,
    /// The 95 % interval of the median.
    #[serde(rename = "lower_value")]
    lower: f64,
    #[serde(rename = "upper_value")]
    upper: f64,
}

impl Figures {
    fn of(values: Vec<f64>) -> Result<Self, NotASample> {
        let sample = Sample::new(values)?;
        let median = |sorted: &[f64]| quantile_of_sorted(sorted, 0.5);
        let interval = Bootstrap::default().percentile(&sample, median);
        Ok(Self {
            median: median(sample.values()),
            // A single round has no interval.
            lower: interval.map_or(sample.min(), |interval| interval.lower),
            upper: interval.map_or(sample.max(), |interval| interval.upper),
        })
    }
}

/// Prints the results; returns a failure if that is impossible.
pub(crate) fn print(rows: &[Row]) -> ExitCode {
    let mut metrics = BTreeMap::new();
    if !rows.is_empty() {
        eprintln!("ns per run   median  95 % interval     to the one before  95 % interval");
    }
    let before = [None].into_iter().chain(rows.iter().map(Some));
    for (row, before) in rows.iter().zip(before) {
        match line(row, before) {
            Ok((text, figures)) => {
                eprintln!("{text}");
                metrics.insert(row.version.program(), Measures { latency: figures });
            }
            Err(error) => {
                eprintln!("xdp: no figures for {}: {error}", row.version);
                return ExitCode::FAILURE;
            }
        }
    }
    match write(&metrics) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xdp: cannot write the results to stdout: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A line of the table, with its figures.
fn line(row: &Row, before: Option<&Row>) -> Result<(String, Figures), NotASample> {
    let figures = Figures::of(row.ns_per_run.clone())?;
    let Figures { median, lower, upper } = &figures;
    let mut text = format!("{:<10} {median:>8.1}  {lower:>6.1} … {upper:<6.1}", row.version);
    if let Some(before) = before {
        let Figures { median, lower, upper } = Figures::of(row.beyond(before))?;
        text += &format!("  {median:>+17.1}  {lower:>+6.1} … {upper:+.1}");
    }
    Ok((text, figures))
}

/// The measures of a benchmark in Bencher Metric Format.
#[derive(Serialize)]
struct Measures {
    latency: Figures,
}

fn write(metrics: &BTreeMap<&str, Measures>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, metrics)?;
    writeln!(out)?;
    out.flush()
}
