//! `wingbeat export` and `wingbeat import`: reports as files that merge. docs/store.md tells their form.

use std::{path::PathBuf, process::ExitCode};

use crate::{
    cli::{styled_warning, tell},
    store::StoreArgs,
};

/// Flags of `wingbeat export`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// Folder to write to, made if need be; files that are there stay as they are
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

/// Flags of `wingbeat import`.
#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// Folder to read
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

/// Writes what has no file yet.
pub(crate) fn export(args: &ExportArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    let store = args.store.open()?;
    let done = store.export(&args.folder)?;
    if !quiet {
        let written = counts(done.reports, done.alert_changes);
        let folder = args.folder.display();
        tell!("wrote {written} to {folder}; {} there already", were(done.already_there));
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes in what is new. Files that cannot be used are named, and make the exit code 1.
pub(crate) fn import(args: &ImportArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    let mut store = args.store.open_or_make()?;
    let done = store.import(&args.folder)?;
    for skipped in &done.skipped {
        tell!("{}: {} was skipped: {}", styled_warning(), skipped.path.display(), skipped.reason);
    }
    if !quiet {
        let taken = counts(done.reports, done.alert_changes);
        let known = were(done.already_there);
        let path = store.path().display();
        let skipped = match done.skipped.len() {
            0 => String::new(),
            1 => ", 1 file skipped".to_owned(),
            files => format!(", {files} files skipped"),
        };
        tell!("took {taken} into {path}; {known} there already{skipped}");
    }
    Ok(if done.skipped.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn counts(reports: usize, changes: usize) -> String {
    let reports = format!("{reports} {}", if reports == 1 { "report" } else { "reports" });
    match changes {
        0 => reports,
        1 => format!("{reports} and 1 change of an alert"),
        _ => format!("{reports} and {changes} changes of alerts"),
    }
}

fn were(count: usize) -> String {
    if count == 1 { "1 was".to_owned() } else { format!("{count} were") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_in_words() {
        let check = |reports, changes, expected| assert_eq!(counts(reports, changes), expected);
        check(0, 0, "0 reports");
        check(1, 1, "1 report and 1 change of an alert");
        check(2, 3, "2 reports and 3 changes of alerts");
    }
}
