//! `wingbeat changes`: reads series, detects change points, and prints them. `wingbeat_stats` has the statistics,
//! docs/changes.md the formats.

mod input;
mod report;

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use wingbeat_stats::changes::{Change, POINTS_MIN, Settings, find};
use wingbeat_text::{Style, human};

use self::input::{Input, Series};
use crate::{
    output::{PendingFile, deliver},
    shell::{message, row_width},
    values::{FormatArgs, Named, Values, fraction, share},
};

/// Flags of `wingbeat changes`.
#[derive(Debug, clap::Args)]
pub(crate) struct ChangesArgs {
    /// File with series, or - for stdin: CSV with a header and a column per series, after optional
    /// columns of labels; or JSON: {"name": [1.5, null, 1.7]}
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only the series of this name; may be given several times
    #[arg(long, value_name = "NAME")]
    series: Vec<String>,
    /// Smallest change to report, in percent
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "0.75")]
    min_change: f64,
    /// False-positive rate for a series without changes, whatever its length
    #[arg(long, value_name = "CHANCE", value_parser = chance, default_value = "0.001")]
    alpha: f64,
    /// Report only changes in the last N points of a series; the test still uses all points
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    last: Option<u64>,
    /// Exit with 1 if a change is reported
    #[arg(long)]
    err: bool,
    #[command(flatten)]
    format: FormatArgs<Format>,
    /// Write the result to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Forms of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Human,
    Json,
}

impl Named for Format {
    const VALUES: Values<Self> = &[
        (Self::Human, "human", "A table"),
        (
            Self::Json,
            "json",
            r#"{"series": {"name": [{"index", "before", "after", "change", "p"}]}}"#,
        ),
    ];
}

/// A series with its change points.
struct Found {
    series: Series,
    changes: Vec<Change>,
}

impl Found {
    /// Whether it is too short to detect a change.
    fn is_short(&self) -> bool {
        self.series.values.iter().filter(|value| value.is_finite()).count() < POINTS_MIN
    }
}

/// Detects and prints. The exit code is 1 if `--err` is given and a change is reported, otherwise 0.
pub(crate) fn run(args: &ChangesArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    let output = args.output.as_deref().map(PendingFile::create).transpose()?;
    let bytes = read(&args.file)?;
    let Input { series, labels, remark } =
        input::parse(&bytes, &args.series).with_context(|| name(&args.file))?;
    if let Some(remark) = remark.filter(|_| !quiet) {
        message!("note: {}: {remark}", name(&args.file));
    }
    let settings = Settings { false_alarm_chance: args.alpha, change_min: args.min_change };
    let found: Vec<Found> = series
        .into_iter()
        .map(|series| {
            let mut changes = find(&series.values, &settings);
            let points = series.values.len();
            let from = points.saturating_sub(args.last.map_or(points, last_points));
            changes.retain(|change| change.index >= from);
            Found { series, changes }
        })
        .collect();
    let labels = labels.as_deref();
    let text = match args.format.get() {
        Format::Human => {
            let width = if output.is_some() { usize::MAX } else { row_width() };
            let style = Style { has_colours: true, width, ..Style::default() };
            human(&report::blocks(&found, labels), style)
        }
        Format::Json => {
            if let Some(short) = report::short(&found).filter(|_| !quiet) {
                message!("note: {short}");
            }
            report::json(&found, labels)?
        }
    };
    deliver(output, &text, args.format.get() == Format::Human, quiet)?;
    let is_changed = found.iter().any(|found| !found.changes.is_empty());
    Ok(if args.err && is_changed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let read = || -> io::Result<Vec<u8>> {
        if path != Path::new("-") {
            return fs::read(path);
        }
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().with_context(|| format!("cannot read {}", name(path)))
}

fn name(path: &Path) -> String {
    if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() }
}

fn last_points(last: u64) -> usize {
    usize::try_from(last).unwrap_or(usize::MAX)
}

fn chance(text: &str) -> Result<f64, String> {
    match fraction(text) {
        Some(chance) if chance > 0.0 && chance < 1.0 => Ok(chance),
        _ => Err("expected a rate between 0 and 1, such as 0.01 or 1%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances() {
        let check = |text, expected| assert_eq!(chance(text).ok(), expected, "{text}");
        check("0.05", Some(0.05));
        check("1e-6", Some(1e-6));
        check("0", None);
        check("1", None);
        check("NaN", None);
        check("5%", Some(0.05));
        check("100%", None);
    }
}
