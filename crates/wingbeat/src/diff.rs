//! `wingbeat diff`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use wingbeat_profile::diff::{Scaling, Stacks, differential_svg, read_stacks};

use crate::{output::PendingFile, shell::message};

/// Flags of `wingbeat diff`.
#[derive(Debug, clap::Args)]
pub(crate) struct DiffArgs {
    /// Profile before: .folded or .pb.gz
    before: PathBuf,
    /// Profile after: .folded or .pb.gz
    after: PathBuf,
    /// Write the flame graph to FILE. Widths are those of AFTER; red grew, blue shrank
    #[arg(short, long, value_name = "FILE.svg")]
    output: PathBuf,
    /// Compare absolute counts instead of shares of the total
    #[arg(long)]
    absolute: bool,
}

pub(crate) fn run(args: &DiffArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    if args.output.extension().is_none_or(|extension| extension != "svg") {
        bail!("{}: a difference is drawn as .svg", args.output.display());
    }
    let file = PendingFile::create(&args.output)?;
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let scaling = if args.absolute { Scaling::None } else { Scaling::ToAfter };
    file.write(|writer| differential_svg(&before, &after, scaling, writer))?;
    if !quiet {
        message!(
            "wrote {} ({} before, {} after)",
            args.output.display(),
            before.total_text(),
            after.total_text()
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> anyhow::Result<Stacks> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(read_stacks(&path.to_string_lossy(), &bytes)?)
}
