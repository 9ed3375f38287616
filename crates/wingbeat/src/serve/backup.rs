//! `wingbeat serve backup`: backs up both databases.

use std::path::PathBuf;

use wingbeat_server::{settings::DataLocation, storage::back_up};

use super::PlaceArgs;
use crate::shell::message;

/// Flags of `wingbeat serve backup`.
#[derive(Debug, clap::Args)]
pub(super) struct BackupArgs {
    /// Folder to write, which must not exist; it appears when it is complete
    #[arg(value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    place: PlaceArgs,
}

pub(super) fn run(args: &BackupArgs, quiet: bool) -> anyhow::Result<()> {
    let settings = args.place.settings(args.place.given())?;
    let DataLocation::Folder(data) = &settings.location else {
        anyhow::bail!(
            "{} is a database of PostgreSQL, which its own tools back up: `pg_dump --format=custom --file=FILE \
             URL`, and `pg_restore` to restore it",
            settings.location
        );
    };
    let bytes = back_up(data, &args.to)?;
    if !quiet {
        let size = wingbeat_text::bytes(bytes);
        message!("{} has {size}; `wingbeat serve --data` can serve it", args.to.display());
    }
    Ok(())
}
