//! `wingbeat store rename`: renames a branch, testbed or benchmark.

use std::process::ExitCode;

use anyhow::bail;
use wingbeat_server::storage::is_of_server;
use wingbeat_text::plural;
use wingbeat_track::{
    model::{BenchmarkName, BranchName, ProjectName, TestbedName},
    store::{Renamable, Renamed},
};

use super::{StoreArgs, project};
use crate::shell::message;

/// Flags of `wingbeat store rename`.
#[derive(Debug, clap::Args)]
pub(super) struct RenameArgs {
    /// What to rename
    #[arg(value_name = "KIND")]
    kind: Kind,
    /// Its name now
    #[arg(value_name = "OLD")]
    old: String,
    /// Its new name
    #[arg(value_name = "NEW")]
    new: String,
    /// Make both one where NEW is there already: its reports and those of OLD are one history
    #[arg(long)]
    merge: bool,
    /// Project of the name [default: the only one]
    #[arg(long, value_name = "NAME")]
    project: Option<ProjectName>,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Branch,
    Testbed,
    Benchmark,
}

pub(super) fn run(args: &RenameArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    let RenameArgs { kind, old, new, merge, .. } = args;
    let (what, word) = match kind {
        Kind::Branch => (Renamable::Branch, "branch"),
        Kind::Testbed => (Renamable::Testbed, "testbed"),
        Kind::Benchmark => (Renamable::Benchmark, "benchmark"),
    };
    match what {
        Renamable::Branch => BranchName::new(new).map(drop)?,
        Renamable::Testbed => TestbedName::new(new).map(drop)?,
        Renamable::Benchmark => BenchmarkName::new(new).map(drop)?,
    }
    let mut store = args.store.open()?;
    let path = store.path().display().to_string();
    if store.path().parent().is_some_and(is_of_server) {
        bail!(
            "the store {path} is of a server, which has names of its own: rename the {word} on its page of the \
             console, or with `bencher {word} update --name`"
        );
    }
    let project = project(args.project.as_ref(), &store)?;
    match store.rename(&project, what, (old, new), *merge)? {
        Renamed::Done => {
            if !quiet {
                message!("the {word} {old} of {project} is now {new}");
            }
        }
        Renamed::Merged { reports } => {
            if !quiet {
                let reports = plural(reports, "report");
                message!("{reports} of the {word} {old} of {project} are now of {new}");
            }
        }
        Renamed::Missing => bail!("{project} has no {word} {old} in the store {path}"),
        Renamed::Taken if what == Renamable::Benchmark => bail!(
            "{project} has a benchmark {new} already, and two benchmarks cannot become one series; name it otherwise"
        ),
        Renamed::Taken => bail!(
            "{project} has a {word} {new} already; --merge makes both one, with the reports of {old} among its own"
        ),
    }
    Ok(ExitCode::SUCCESS)
}
