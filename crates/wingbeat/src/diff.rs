//! `wingbeat diff`.

mod functions;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use wingbeat_profile::diff::{self, Scaling, Stacks, differential_svg, read_stacks};
use wingbeat_text::Units;
use wingbeat_track::{
    explain::{self, NoSources, Pair},
    model::ProfileInfo,
    store::{AlertFilter, Store, StoredAlert},
};

use self::functions::Shown;
use crate::{
    output::PendingFile,
    shell::message,
    store::{
        StoreArgs,
        id::{Part, short},
    },
    values::{Format, FormatArgs},
};

/// Flags of `wingbeat diff`.
#[derive(Debug, clap::Args)]
pub(crate) struct DiffArgs {
    /// Profile before: .folded or .pb.gz
    #[arg(required_unless_present = "alert", conflicts_with = "alert")]
    before: Option<PathBuf>,
    /// Profile after: .folded or .pb.gz
    #[arg(required_unless_present = "alert")]
    after: Option<PathBuf>,
    /// Compare the profiles of an alert in the store (`wingbeat run --profile`), by UUID or by digits that it begins or
    /// ends with
    #[arg(long, value_name = "ID")]
    alert: Option<Part>,
    /// Write the flame graph to FILE instead of printing which functions changed. Widths are those of AFTER; red grew, blue shrank
    #[arg(short, long, value_name = "FILE.svg")]
    output: Option<PathBuf>,
    /// Compare absolute counts instead of shares of the total
    #[arg(long, requires = "output")]
    absolute: bool,
    #[command(flatten)]
    format: FormatArgs<Format>,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &DiffArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    match (&args.output, &args.alert, &args.before, &args.after) {
        (Some(output), ..) => draw(args, output, quiet)?,
        (None, Some(alert), ..) => {
            let (found, pair) = explained(&args.store.open()?, alert)?;
            let shown = Shown {
                explanation: &pair.explanation,
                title: format!("{} {}", found.alert.benchmark, found.alert.measure),
                unit: pair.measure.ladder().own().1.to_owned(),
                write: &|value| explain::written(&pair.measure, value),
            };
            show(args, &shown)?;
        }
        (None, None, Some(before), Some(after)) => {
            let (first, second) = (bytes(before)?, bytes(after)?);
            let names = [before, after].map(|path| path.to_string_lossy().into_owned());
            let files = [(&*names[0], &*first), (&*names[1], &*second)];
            let (explanation, unit) = diff::functions(files)?;
            let units = Units::new(&unit, explanation.is_exact);
            let shown = Shown {
                explanation: &explanation,
                title: format!("{} → {}", names[0], names[1]),
                unit,
                write: &|value| units.format(value),
            };
            show(args, &shown)?;
        }
        _ => bail!("two profiles are needed, BEFORE and AFTER, or --alert"),
    }
    Ok(ExitCode::SUCCESS)
}

fn show(args: &DiffArgs, shown: &Shown<'_>) -> anyhow::Result<()> {
    match args.format.get() {
        Format::Human => shown.print_text(),
        Format::Json => shown.print_json(),
    }
}

fn draw(args: &DiffArgs, output: &Path, quiet: bool) -> anyhow::Result<()> {
    if output.extension().is_none_or(|extension| extension != "svg") {
        bail!("{}: a difference is drawn as .svg", output.display());
    }
    if args.format.get() == Format::Json {
        bail!("-o writes a picture, which has no --format: leave out one of both");
    }
    let file = PendingFile::create(output)?;
    let ([before, after], sentences) = match (&args.alert, &args.before, &args.after) {
        (None, Some(before), Some(after)) => ([read(before)?, read(after)?], Vec::new()),
        (Some(alert), ..) => of_alert(&args.store.open()?, alert)?,
        _ => bail!("two profiles are needed, BEFORE and AFTER, or --alert"),
    };
    let scaling = if args.absolute { Scaling::None } else { Scaling::ToAfter };
    file.write(|writer| differential_svg(&before, &after, scaling, writer))?;
    if !quiet {
        message!(
            "wrote {} ({} before, {} after)",
            output.display(),
            before.total_text(),
            after.total_text()
        );
        for sentence in sentences {
            message!("{sentence}");
        }
    }
    Ok(())
}

/// An alert of the store with its UUID, and what its profiles explain.
fn explained(store: &Store, part: &Part) -> anyhow::Result<(StoredAlert, Pair)> {
    let all = store.alerts(&AlertFilter::default(), usize::MAX)?;
    let describe = |one: &StoredAlert| format!("{} {}", one.alert.benchmark, one.alert.measure);
    let uuid = part.find(&all, |one| one.alert.uuid, describe, ("alert", "wingbeat alerts"))?;
    let found = all.into_iter().find(|one| one.alert.uuid == uuid);
    let found = found.with_context(|| format!("there is no alert {uuid}"))?;
    let report = store.report(found.report)?.context("the report of the alert was deleted")?;
    let pair = explain::of_alert(store, &report, &found.alert, &NoSources)
        .map_err(|why| anyhow::anyhow!("the alert {uuid} cannot be explained: {why}"))?;
    Ok((found, pair))
}

/// Both profiles of an alert, and what they explain.
fn of_alert(store: &Store, part: &Part) -> anyhow::Result<([Stacks; 2], Vec<String>)> {
    let (found, pair) = explained(store, part)?;
    let stacks = |profile: &ProfileInfo| {
        let pprof = store.profile_content(profile.sha256)?.context("its profile was removed")?;
        let of = format!("{} of report {}", found.alert.benchmark, short(profile.report));
        anyhow::Ok(read_stacks(&of, &pprof)?)
    };
    Ok(([stacks(&pair.before)?, stacks(&pair.after)?], pair.sentences()))
}

fn read(path: &Path) -> anyhow::Result<Stacks> {
    Ok(read_stacks(&path.to_string_lossy(), &bytes(path)?)?)
}

fn bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
