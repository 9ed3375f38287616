//! `wingbeat store`: operations on whole stores. `copy` copies one to another engine, `rename` renames its parts.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use wingbeat_server::{
    database::Content,
    settings::DataLocation,
    storage::{Claims, FILE, copy_server, has_server},
};
use wingbeat_sql::PostgresUrl;
use wingbeat_text::plural;
use wingbeat_track::{
    model::{BenchmarkName, BranchName, ProjectName, TestbedName},
    store::{Copied, Progress, Renamable, Renamed, Store},
};

use super::{StoreArgs, project};
use crate::{
    shell::message,
    values::{Format, FormatArgs, Named, Values, named},
};

/// Flags of `wingbeat store`.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreVerbArgs {
    #[command(subcommand)]
    verb: StoreVerb,
}

#[derive(Debug, clap::Subcommand)]
enum StoreVerb {
    /// Copy a store to another file or PostgreSQL database, and prove that both have the same
    Copy(CopyArgs),
    /// Give a branch, a testbed or a benchmark another name, with all its history
    Rename(RenameArgs),
}

/// Flags of `wingbeat store copy`.
#[derive(Debug, clap::Args)]
struct CopyArgs {
    /// Store to read: a file, postgres://USER@HOST/DATABASE, or the folder of a server
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// Store to write, made if there is none; what it has already stays. What a server knows besides results comes along,
    /// except to a name that ends in .db
    #[arg(value_name = "TO")]
    to: PathBuf,
    #[command(flatten)]
    format: FormatArgs<Format>,
}

/// Progress interval in percent.
const STEP_PERCENT: usize = 10;

pub(crate) fn run(args: &StoreVerbArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    match &args.verb {
        StoreVerb::Copy(args) => copy(args, quiet),
        StoreVerb::Rename(args) => rename(args, quiet),
    }
}

fn copy(args: &CopyArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    // No server can start at either location until all is copied.
    let (server, _claims) = copy_users(&args.from, &args.to)?.unzip();
    let from = Store::open_existing(store_of(&args.from))?;
    let to = Store::open(store_of(&args.to))?;
    let mut shown = 0;
    let tell = |progress| {
        let (done, all, what) = match progress {
            Progress::Copied(done, all) => (done, all, "copied"),
            Progress::Compared(done, all) => (done, all, "compared"),
        };
        let percent = done * 100 / all.max(1) / STEP_PERCENT * STEP_PERCENT;
        // The second pass restarts at zero.
        if !quiet && percent != shown && all > 1_000 {
            message!("{what} {done} of {all} documents");
            shown = percent;
        }
    };
    let copied = from.copy_to(&to, tell)?;
    match args.format.get() {
        Format::Json => {
            let mut json = serde_json::to_value(&copied).context("cannot write JSON")?;
            if let Some(Content { rows, digest }) = &server {
                json["server"] = serde_json::json!({ "rows": rows, "sha256": hex(digest) });
            }
            println!("{json:#}");
        }
        Format::Human if !quiet => {
            message!("{}", summary(&copied, &from, &to));
            if let Some(Content { rows, digest }) = &server {
                let rows = plural(usize::try_from(*rows).unwrap_or(usize::MAX), "row");
                message!(
                    "users, keys, names and thresholds: {rows}, the same in both (SHA-256 {})",
                    hex(digest)
                );
            }
        }
        Format::Human => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Copies a server's database, if there is one and the target is not a single file.
fn copy_users(from: &Path, to: &Path) -> anyhow::Result<Option<(Content, Claims)>> {
    let source = match place_of(from)? {
        Some(place) => place,
        None if from.join(FILE).is_file() => DataLocation::from(from),
        None => return Ok(None),
    };
    let target = match place_of(to)? {
        Some(place) => place,
        None if to.is_file() || to.extension().is_some_and(|it| it == "db") => return Ok(None),
        None if matches!(source, DataLocation::Postgres { .. }) || from.join(FILE).is_file() => {
            DataLocation::from(to)
        }
        None => return Ok(None),
    };
    Ok(copy_server(&source, &target)?)
}

/// The database given by a text.
fn place_of(path: &Path) -> anyhow::Result<Option<DataLocation>> {
    match path.to_str().filter(|text| PostgresUrl::is_meant(text)) {
        Some(text) => {
            let primary = PostgresUrl::parse(text)?;
            Ok(Some(DataLocation::Postgres { primary, replica: None }))
        }
        None => Ok(None),
    }
}

/// The store of a server's folder, or the path itself.
fn store_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(FILE) } else { path.to_owned() }
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn summary(copied: &Copied, from: &Store, to: &Store) -> String {
    let Copied { documents, already_there, others, sha256 } = copied;
    let others = match others {
        0 => String::new(),
        1 => "; 1 more is in the target alone".to_owned(),
        others => format!("; {others} more are in the target alone"),
    };
    format!(
        "all {} of {} are in {}, the same to the last bit (SHA-256 {sha256}): {}; {already_there} of them were there \
         before{others}",
        plural(documents.all(), "document"),
        from.path().display(),
        to.path().display(),
        crate::exchange::counts(documents),
    )
}

/// Flags of `wingbeat store rename`.
#[derive(Debug, clap::Args)]
struct RenameArgs {
    /// What to rename
    #[arg(value_name = "KIND", value_parser = named::<Renamable>())]
    kind: Renamable,
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

impl Named for Renamable {
    const VALUES: Values<Self> = &[
        (Self::Branch, "branch", ""),
        (Self::Testbed, "testbed", ""),
        (Self::Benchmark, "benchmark", ""),
    ];
}

fn rename(args: &RenameArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    let RenameArgs { kind, old, new, merge, .. } = args;
    match kind {
        Renamable::Branch => BranchName::new(new).map(drop),
        Renamable::Testbed => TestbedName::new(new).map(drop),
        Renamable::Benchmark => BenchmarkName::new(new).map(drop),
    }?;
    let word = kind.word();
    let store = args.store.open()?;
    let path = store.path().display().to_string();
    if has_server(&store)? {
        bail!(
            "the store {path} is of a server, which has names of its own: rename the {word} on its page of the \
             console, or with `bencher {word} update --name`"
        );
    }
    let project = project(args.project.as_ref(), &store)?;
    match store.rename(&project, *kind, (old, new), *merge)? {
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
        Renamed::Taken if *kind == Renamable::Benchmark => bail!(
            "{project} has a benchmark {new} already, and two benchmarks cannot become one series; name it otherwise"
        ),
        Renamed::Taken => bail!(
            "{project} has a {word} {new} already; --merge makes both one, with the reports of {old} among its own"
        ),
    }
    Ok(ExitCode::SUCCESS)
}
