//! `wingbeat export` and `wingbeat import`: reports as mergeable files, or exchanged with a server. docs/store.md
//! describes the format.

mod server;

use std::{
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use wingbeat_text::{plural, shell_word};
use wingbeat_track::{
    import::Place,
    model::{BranchName, TestbedName},
    store::{Counts, Damaged},
};

use self::server::ServerArgs;
use crate::{
    shell::{error, message, warning},
    store::StoreArgs,
};

/// Flags of `wingbeat export`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// Folder to write to, created if missing; existing files are not changed. A name that ends in .jsonl
    /// or .jsonl.gz is one new file with all reports, and - is stdout
    #[arg(value_name = "PATH", required_unless_present = "host", conflicts_with = "host")]
    to: Option<PathBuf>,
    /// Compress the file with gzip, whatever its name
    #[arg(long)]
    gzip: bool,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Flags of `wingbeat import`.
#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// Folder to read, or one file, which is imported completely or not at all; - is stdin. The file may also be
    /// the data.js of github-action-benchmark, a list of Bencher's reports, or the output of bencher perf
    #[arg(value_name = "PATH", required_unless_present = "host")]
    from: Option<PathBuf>,
    /// Branch of the values in data.js
    #[arg(long, value_name = "NAME", default_value = "main", conflicts_with = "host")]
    branch: BranchName,
    /// Testbed of the values in data.js
    #[arg(long, value_name = "NAME", default_value = "Linux", conflicts_with = "host")]
    testbed: TestbedName,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Writes entries without a file. The exit code is 1 if damaged entries were omitted.
pub(crate) fn export(args: &ExportArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    let Some(to) = &args.to else {
        return server::push(&args.server, &args.store.open()?, quiet);
    };
    if args.server.project.is_some() {
        error!(
            "--project chooses what goes to a server (--host); a file gets all projects of the store"
        );
        return Ok(ExitCode::from(2));
    }
    let name = to.to_string_lossy();
    let is_packed = name.ends_with(".jsonl.gz");
    let is_file = is_packed || name.ends_with(".jsonl");
    if args.gzip && !is_file && name != "-" {
        error!("--gzip compresses one file, and {name} is a folder; name {name}.jsonl.gz instead");
        return Ok(ExitCode::from(2));
    }
    let store = args.store.open()?;
    let is_gzip = args.gzip || is_packed;
    let done = match &*name {
        "-" => store.export_to(io::stdout().lock(), is_gzip)?,
        _ if is_file => store.export_file(to, is_gzip)?,
        _ => store.export(to)?,
    };
    for Damaged { report, what, .. } in &done.damaged {
        let report = report.map_or(String::new(), |report| format!("report {report}: "));
        error!("{report}{what}");
    }
    if !quiet {
        let written = counts(&done.documents);
        let known = match is_file || name == "-" {
            true => String::new(),
            false => format!("; {} already there", were(done.already_there)),
        };
        let to = if name == "-" { "stdout" } else { &*name };
        message!("wrote {written} to {to}{known}");
    }
    if done.damaged.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    error!(
        "{} is damaged, and the parts named above were left out; see `wingbeat log --check`",
        store.path().display()
    );
    Ok(ExitCode::FAILURE)
}

/// Imports new entries. Names invalid files, which make the exit code 1.
pub(crate) fn import(args: &ImportArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    let Some(from) = &args.from else {
        return server::pull(&args.server, &args.store, quiet);
    };
    if let Some(host) = &args.server.host {
        error!(
            "--host fetches from a server, and a file is read into a store: leave out --host, then send the \
             store with `wingbeat export --host {}`",
            shell_word(host)
        );
        return Ok(ExitCode::from(2));
    }
    // Checked before creating a store.
    let is_stdin = from.as_os_str() == "-";
    let is_folder = !is_stdin
        && fs::metadata(from).with_context(|| format!("cannot read {}", from.display()))?.is_dir();
    let store = args.store.open_or_make()?;
    let done = match is_folder {
        true => store.import(from)?,
        false if is_stdin => {
            store.import_any(io::stdin().lock(), Path::new("stdin"), &place(args)?)?
        }
        false => {
            let cannot = || format!("cannot read {}", from.display());
            let file = File::open(from).with_context(cannot)?;
            store.import_any(file, from, &place(args)?)?
        }
    };
    if done.left_out > 0 {
        let named = done.left_out_named.join("; ");
        warning!("{} left out, which no store can have: {named}", were_values(done.left_out));
    }
    for skipped in &done.skipped {
        warning!("{} was skipped: {}", skipped.path.display(), skipped.reason);
    }
    if !quiet {
        let taken = counts(&done.documents);
        let known = were(done.already_there);
        let path = store.path().display();
        let skipped = match done.skipped.len() {
            0 => String::new(),
            1 => ", 1 file skipped".to_owned(),
            files => format!(", {files} files skipped"),
        };
        message!("imported {taken} into {path}; {known} already there{skipped}");
    }
    Ok(if done.skipped.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Numbers of documents as text; omits zeros except for reports.
pub(crate) fn counts(documents: &Counts) -> String {
    let Counts { reports, alert_changes: changes, withdrawals, profiles } = *documents;
    let mut parts = vec![plural(reports, "report")];
    parts.extend(match changes {
        0 => None,
        1 => Some("1 change of an alert".to_owned()),
        _ => Some(format!("{changes} changes of alerts")),
    });
    for (count, word) in [(withdrawals, "withdrawal"), (profiles, "profile")] {
        parts.extend((count > 0).then(|| plural(count, word)));
    }
    match &parts[..] {
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => parts.concat(),
    }
}

/// Project, branch and testbed for the values of another tool's file.
fn place(args: &ImportArgs) -> anyhow::Result<Place> {
    let directory = env::current_dir().context("cannot determine the current folder")?;
    let named = args.server.project.as_ref();
    Ok(Place {
        project: crate::run::project(named, None, &directory)?,
        is_project_named: named.is_some(),
        branch: args.branch.clone(),
        testbed: args.testbed.clone(),
    })
}

fn were_values(count: usize) -> String {
    if count == 1 { "1 value was".to_owned() } else { format!("{count} values were") }
}

fn were(count: usize) -> String {
    if count == 1 { "1 was".to_owned() } else { format!("{count} were") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_in_words() {
        let check = |[reports, alert_changes, withdrawals, profiles]: [usize; 4], expected| {
            let found = Counts { reports, alert_changes, withdrawals, profiles };
            assert_eq!(counts(&found), expected);
        };
        check([0, 0, 0, 0], "0 reports");
        check([1, 1, 0, 0], "1 report and 1 change of an alert");
        check([2, 3, 0, 0], "2 reports and 3 changes of alerts");
        check([2, 0, 1, 0], "2 reports and 1 withdrawal");
        check([2, 1, 2, 0], "2 reports, 1 change of an alert and 2 withdrawals");
        check([2, 0, 1, 1], "2 reports, 1 withdrawal and 1 profile");
    }
}
