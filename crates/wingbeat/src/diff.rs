//! `wingbeat diff`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use wingbeat_profile::diff::{Scaling, Stacks, differential_svg, read_stacks};

use wingbeat_track::{
    explain::{self, NoSources},
    model::ProfileInfo,
    store::{AlertFilter, Store, StoredAlert},
};

use crate::{
    output::PendingFile,
    shell::message,
    store::{
        StoreArgs,
        id::{Part, short},
    },
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
    /// Write the flame graph to FILE. Widths are those of AFTER; red grew, blue shrank
    #[arg(short, long, value_name = "FILE.svg")]
    output: PathBuf,
    /// Compare absolute counts instead of shares of the total
    #[arg(long)]
    absolute: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &DiffArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    if args.output.extension().is_none_or(|extension| extension != "svg") {
        bail!("{}: a difference is drawn as .svg", args.output.display());
    }
    let file = PendingFile::create(&args.output)?;
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
            args.output.display(),
            before.total_text(),
            after.total_text()
        );
        for sentence in sentences {
            message!("{sentence}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Both profiles of an alert, and what they explain.
fn of_alert(store: &Store, part: &Part) -> anyhow::Result<([Stacks; 2], Vec<String>)> {
    let all = store.alerts(&AlertFilter::default(), usize::MAX)?;
    let describe = |one: &StoredAlert| format!("{} {}", one.alert.benchmark, one.alert.measure);
    let uuid = part.find(&all, |one| one.alert.uuid, describe, ("alert", "wingbeat alerts"))?;
    let found = all.into_iter().find(|one| one.alert.uuid == uuid);
    let found = found.with_context(|| format!("there is no alert {uuid}"))?;
    let report = store.report(found.report)?.context("the report of the alert was deleted")?;
    let pair = explain::of_alert(store, &report, &found.alert, &NoSources)
        .map_err(|why| anyhow::anyhow!("the alert {uuid} cannot be explained: {why}"))?;
    let stacks = |profile: &ProfileInfo| {
        let pprof = store.profile_content(profile.sha256)?.context("its profile was removed")?;
        let of = format!("{} of report {}", found.alert.benchmark, short(profile.report));
        anyhow::Ok(read_stacks(&of, &pprof)?)
    };
    Ok(([stacks(&pair.before)?, stacks(&pair.after)?], pair.sentences()))
}

fn read(path: &Path) -> anyhow::Result<Stacks> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(read_stacks(&path.to_string_lossy(), &bytes)?)
}
