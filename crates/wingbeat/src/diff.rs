//! `wingbeat diff`.

mod function_changes;
mod stored;

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use wingbeat_profiler::{
    diff::{self, BYTES_MAX, Scaling, differential_svg},
    summary::Output,
};
use wingbeat_text::Units;
use wingbeat_track::model::{BenchmarkName, Slug};

use self::{
    function_changes::FunctionChanges,
    stored::{Sides, StoredProfiles},
};
use crate::{
    receiver::Receiver,
    shell::message,
    store::{StoreArgs, id::Part},
    values::{Format, FormatArgs},
};

/// Flags of `wingbeat diff`.
#[derive(Debug, clap::Args)]
pub(crate) struct DiffArgs {
    /// Profile before: .folded or .pb.gz
    #[arg(required_unless_present_any = ["alert", "reports"], conflicts_with_all = ["alert", "reports"])]
    before: Option<PathBuf>,
    /// Profile after: .folded or .pb.gz
    #[arg(required_unless_present_any = ["alert", "reports"])]
    after: Option<PathBuf>,
    /// Compare the profiles of an alert in the store (`wingbeat run --profile`), by UUID or by digits that it begins or
    /// ends with
    #[arg(long, value_name = "ID", conflicts_with = "reports")]
    alert: Option<Part>,
    /// Compare the profiles of a benchmark in two reports in the store, by UUIDs or digits that they begin or end with
    #[arg(long, value_name = "BEFORE..AFTER", requires_all = ["benchmark", "measure"])]
    reports: Option<Sides>,
    /// The benchmark that the reports are compared by
    #[arg(long, value_name = "NAME", requires = "reports")]
    benchmark: Option<BenchmarkName>,
    /// The measure that the reports are compared by: latency, instructions
    #[arg(long, value_name = "NAME", requires = "reports")]
    measure: Option<Slug>,
    /// Write the flame graph to FILE instead of printing which functions changed. Widths are those of AFTER; red grew, blue shrank
    #[arg(short, long, value_name = "FILE.svg", value_parser = picture, conflicts_with_all = ["format", "json"])]
    output: Option<PathBuf>,
    /// Open the flame graph in the browser of the user who called, under sudo too
    #[arg(long, requires = "output")]
    open: bool,
    /// Compare absolute counts of the files instead of shares of the total
    #[arg(long, requires = "output", conflicts_with_all = ["alert", "reports"])]
    absolute: bool,
    #[command(flatten)]
    format: FormatArgs<Format>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Parses the path of a picture.
fn picture(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().is_some_and(|extension| extension == "svg") {
        true => Ok(path),
        false => Err("a difference is drawn as .svg".to_owned()),
    }
}

pub(crate) fn run(args: &DiffArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    let stored = args.stored()?;
    if let Some(output) = &args.output {
        draw(args, stored.as_ref(), output, quiet)?;
    } else if let Some(stored) = stored {
        stored.show(|shown| show(args, shown))?;
    } else {
        let [before, after] = args.files()?;
        let (first, second) = (bytes(before)?, bytes(after)?);
        let names = [before, after].map(|path| path.to_string_lossy().into_owned());
        let files = [(&*names[0], &*first), (&*names[1], &*second)];
        let (explanation, unit) = diff::functions(files)?;
        let units = Units::new(&unit, explanation.is_exact);
        let shown = FunctionChanges {
            explanation: &explanation,
            title: format!("{} → {}", names[0], names[1]),
            unit,
            write: &|value| units.format(value),
            explained: None,
        };
        show(args, &shown)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl DiffArgs {
    /// The profiles in the store, unless files are given.
    fn stored(&self) -> anyhow::Result<Option<StoredProfiles>> {
        if let Some(alert) = &self.alert {
            return StoredProfiles::of_alert(&self.store.open()?, alert).map(Some);
        }
        let (Some(sides), Some(benchmark), Some(measure)) =
            (&self.reports, &self.benchmark, &self.measure)
        else {
            return Ok(None);
        };
        StoredProfiles::of_reports(&self.store.open()?, sides, benchmark.clone(), measure).map(Some)
    }

    fn files(&self) -> anyhow::Result<[&Path; 2]> {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => Ok([before, after]),
            _ => bail!("two profiles are needed, BEFORE and AFTER, or --alert, or --reports"),
        }
    }
}

fn show(args: &DiffArgs, shown: &FunctionChanges<'_>) -> anyhow::Result<()> {
    match args.format.get() {
        Format::Human => shown.print_text(),
        Format::Json => shown.print_json(),
    }
}

fn draw(
    args: &DiffArgs,
    stored: Option<&StoredProfiles>,
    output: &Path,
    quiet: bool,
) -> anyhow::Result<()> {
    let receiver = Receiver::who_called(args.open)?;
    let file = receiver.file(output)?;
    let path = file.path().to_owned();
    let mut words = Vec::new();
    let bytes = match stored {
        Some(stored) => {
            words.push(format!("wrote {} ({})", output.display(), stored.whole()));
            words.extend(stored.sentences());
            file.write(|writer| stored.draw(writer))?
        }
        None => {
            let [before, after] = args.files()?;
            let (first, second) = (bytes(before)?, bytes(after)?);
            let names = [before, after].map(|path| path.to_string_lossy().into_owned());
            let files = [(&*names[0], &*first), (&*names[1], &*second)];
            let scaling = if args.absolute { Scaling::None } else { Scaling::ToAfter };
            file.write(|writer| {
                let [before, after] = differential_svg(files, scaling, writer)?;
                words.push(format!("wrote {} ({before} before, {after} after)", output.display()));
                anyhow::Ok(())
            })?
        }
    };
    if !quiet {
        words.iter().for_each(|line| message!("{line}"));
    }
    let path = path.to_string_lossy().into_owned();
    receiver.show(&[Output { path, format: "flame graph".to_owned(), bytes }]);
    Ok(())
}

/// A file, read up to just beyond the size limit, so that the parser rejects a larger one.
fn bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(bytes)
}
