//! `wingbeat diff`.

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context as _, bail};
use wingbeat_profile::diff::{Scaling, Stacks, differential_svg, read_stacks};

use crate::{
    cli::{DiffArgs, tell},
    output::PendingFile,
};

pub(crate) fn run(args: &DiffArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    if args.output.extension().is_none_or(|extension| extension != "svg") {
        bail!("{}: a difference is drawn as .svg", args.output.display());
    }
    let file = PendingFile::create(&args.output)?;
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let scaling = if args.absolute { Scaling::None } else { Scaling::ToAfter };
    file.write(|writer| differential_svg(&before, &after, scaling, writer))?;
    if !quiet {
        tell!(
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
