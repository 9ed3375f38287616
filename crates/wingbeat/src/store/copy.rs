//! `wingbeat store`: whole stores. `copy` moves one to another engine.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use wingbeat_text::plural;
use wingbeat_track::store::{Copied, Progress, Store};

use crate::{shell::message, values::FormatArgs};

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
}

/// Flags of `wingbeat store copy`.
#[derive(Debug, clap::Args)]
struct CopyArgs {
    /// Store to read: a file, or postgres://USER@HOST/DATABASE
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// Store to write, made if there is none; what it has already stays
    #[arg(value_name = "TO")]
    to: PathBuf,
    #[command(flatten)]
    format: FormatArgs<Format>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Text
    #[default]
    Human,
    /// For programs
    Json,
}

/// Steps of which progress tells, of a hundred.
const STEP_PERCENT: usize = 10;

pub(crate) fn run(args: &StoreVerbArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    let StoreVerb::Copy(args) = &args.verb;
    let from = Store::open_existing(&args.from)?;
    let mut to = Store::open(&args.to)?;
    let mut told = 0;
    let tell = |progress| {
        let (done, all, what) = match progress {
            Progress::Copied(done, all) => (done, all, "copied"),
            Progress::Compared(done, all) => (done, all, "compared"),
        };
        let percent = done * 100 / all.max(1) / STEP_PERCENT * STEP_PERCENT;
        // The second pass begins anew.
        if !quiet && percent != told && all > 1_000 {
            message!("{what} {done} of {all} documents");
            told = percent;
        }
    };
    let copied = from.copy_to(&mut to, tell)?;
    match args.format.get() {
        Format::Json => {
            let json = serde_json::to_string_pretty(&copied).context("cannot write JSON")?;
            println!("{json}");
        }
        Format::Human if !quiet => message!("{}", summary(&copied, &from, &to)),
        Format::Human => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn summary(copied: &Copied, from: &Store, to: &Store) -> String {
    let Copied { reports, alert_changes, withdrawals, profiles, already_there, others, sha256 } =
        copied;
    let documents = reports + alert_changes + withdrawals + profiles;
    let others = match others {
        0 => String::new(),
        1 => "; 1 more is in the target alone".to_owned(),
        others => format!("; {others} more are in the target alone"),
    };
    format!(
        "all {} of {} are in {}, the same to the last bit (SHA-256 {sha256}): {}; {already_there} of them were there \
         before{others}",
        plural(documents, "document"),
        from.path().display(),
        to.path().display(),
        crate::exchange::counts([*reports, *alert_changes, *withdrawals, *profiles]),
    )
}
