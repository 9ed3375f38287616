//! `wingbeat serve`: a team's server, and its local administration: users, keys, backups.

mod keys;
mod users;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use rustix::{
    fs::Mode,
    process::{Resource, Rlimit, getrlimit, setrlimit, umask},
};
use wingbeat_server::{
    database::Database,
    profiles::{self, Moved},
    service,
    settings::{DataLocation, DatabaseUrl, Given, Settings, VARIABLES},
    storage::{self, open, open_existing, served_at},
};
use wingbeat_text::plural;

use self::{keys::KeyArgs, users::UserArgs};
use crate::shell::{message, print};

/// Flags of `wingbeat serve`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ServeArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
    /// Replica of the database of PostgreSQL, for the pages of the console
    #[arg(long, value_name = "URL")]
    read_database: Option<DatabaseUrl>,
    /// Number of reverse proxies in front of the server, whose X-Forwarded-For is believed
    #[arg(long, value_name = "N")]
    behind_proxy: Option<usize>,
    /// Take results without a key from everybody who reaches the server
    #[arg(long)]
    allow_anonymous_runs: bool,
}

/// Which server it is.
#[derive(Debug, Args)]
struct PlaceArgs {
    /// Folder of the server's database and profiles
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Database of PostgreSQL 15 or newer instead of a folder, as postgres://user@host/database. Others of the
    /// machine see flags: give a password by WINGBEAT_SERVE_DATABASE, PGPASSFILE or the file of --config
    #[arg(long, value_name = "URL")]
    database: Option<DatabaseUrl>,
    /// Folder or URL of pushed profiles, as s3://bucket/prefix, gs://… or az://…, which servers of a database share;
    /// credentials come from the environment
    #[arg(long, value_name = "PLACE")]
    profiles: Option<String>,
    /// URL that people and clients open, if it is not the address
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// TOML file with settings; flags and WINGBEAT_SERVE_… variables override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// What is done to a server, whether it runs or not.
#[derive(Debug, Subcommand)]
enum Action {
    /// Make, list and revoke keys
    Key(KeyArgs),
    /// Invite and list users, change their roles, lock them out, and send new links
    User(UserArgs),
    /// Copy the database to a new file, also while the server runs
    Backup(BackupArgs),
    /// Move pushed profiles to another folder or bucket, verified by digests
    MoveProfiles(MoveArgs),
}

/// Serves, or runs an administration command.
pub(crate) fn run(args: &ServeArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    // Whatever a server or its commands make is for its user alone, also the files that SQLite makes.
    umask(Mode::RWXG | Mode::RWXO);
    match &args.action {
        None => serve(args)?,
        Some(Action::Key(key)) => keys::run(key, quiet)?,
        Some(Action::User(user)) => users::run(user, quiet)?,
        Some(Action::Backup(backup)) => back_up(backup, quiet)?,
        Some(Action::MoveProfiles(args)) => move_profiles(args, quiet)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn serve(args: &ServeArgs) -> anyhow::Result<()> {
    let flags = Given {
        listen: args.listen.clone(),
        read_database: args.read_database.clone(),
        behind_proxy: args.behind_proxy,
        allow_anonymous_runs: args.allow_anonymous_runs.then_some(true),
        ..args.place.given()
    };
    let mut settings = args.place.settings(flags)?;
    settings.connections_max = settings.connections_max.min(files_max() / 2).max(1);
    service::log_to_stderr();
    // The link is a secret. The log on stderr may be stored elsewhere.
    let announce = |link: &str| {
        let _ = print(&format!(
            "There is no user yet. Make the first admin within three days:\n{link}\n"
        ));
    };
    service::run(settings, announce)?;
    Ok(())
}

/// Most open files of this process, after raising the limit as far as it may. Database need the other half.
fn files_max() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let reached = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    reached.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX)
}

impl PlaceArgs {
    fn given(&self) -> Given {
        Given {
            data: self.data.clone(),
            database: self.database.clone(),
            public_url: self.public_url.clone(),
            profiles: self.profiles.clone(),
            ..Given::default()
        }
    }

    /// Settings of flags, variables and file combined.
    fn settings(&self, flags: Given) -> anyhow::Result<Settings> {
        let variable = |name: &str| std::env::var(name).ok();
        let named = variable(&format!("{VARIABLES}CONFIG")).filter(|it| !it.is_empty());
        let file = match self.config.clone().or(named.map(PathBuf::from)) {
            Some(path) => Given::from_file(&path)?,
            None => Given::default(),
        };
        let given = flags.or(Given::from_variables(variable)?).or(file);
        Settings::from_given(given, variable)
    }

    /// The same for an administration command, whose links lead to the running server.
    fn settings_beside(&self) -> anyhow::Result<Settings> {
        let mut settings = self.settings(self.given())?;
        if self.public_url.is_none()
            && let Some(url) = served_at(&settings.location)
        {
            settings.public_url = url;
        }
        Ok(settings)
    }

    /// The database of an existing server.
    fn database(&self) -> anyhow::Result<(Settings, Database)> {
        let settings = self.settings_beside()?;
        let database = open_existing(&settings.location)?;
        Ok((settings, database))
    }

    /// The database of a server that may not have been started yet.
    fn new_database(&self) -> anyhow::Result<(Settings, Database)> {
        let settings = self.settings_beside()?;
        let database = open(&settings.location)?;
        Ok((settings, database))
    }
}

/// Flags of `wingbeat serve backup`.
#[derive(Debug, clap::Args)]
struct BackupArgs {
    /// File to write, which must not exist; it appears when it is complete
    #[arg(value_name = "FILE")]
    to: PathBuf,
    #[command(flatten)]
    place: PlaceArgs,
}

fn back_up(args: &BackupArgs, quiet: bool) -> anyhow::Result<()> {
    let settings = args.place.settings(args.place.given())?;
    let DataLocation::Folder(data) = &settings.location else {
        anyhow::bail!(
            "{} is a database of PostgreSQL, which its own tools back up: `pg_dump --format=custom --file=FILE \
             URL`, and `pg_restore` to restore it",
            settings.location
        );
    };
    let bytes = storage::back_up(data, &args.to)?;
    if !quiet {
        let size = wingbeat_text::bytes(bytes);
        message!(
            "{} has {size}; `wingbeat serve` serves it as DIR/server.db, with --data DIR",
            args.to.display()
        );
        if let Some(place) = profiles::place_of(&open_existing(&settings.location)?)? {
            message!("it has the index of pushed profiles; their files are in {place}");
        }
    }
    Ok(())
}

/// Flags of `wingbeat serve move-profiles`.
#[derive(Debug, clap::Args)]
struct MoveArgs {
    /// Folder or URL to move them to; --profiles is the present one
    #[arg(value_name = "TO")]
    to: String,
    #[command(flatten)]
    place: PlaceArgs,
}

fn move_profiles(args: &MoveArgs, quiet: bool) -> anyhow::Result<()> {
    let (settings, database) = args.place.database()?;
    let (from, to) = (settings.profiles_place, args.to.parse()?);
    anyhow::ensure!(from != to, "the profiles are in {to}: name another place");
    let moved = profiles::move_profiles(&database, &from, &to, |_| {})?;
    if !quiet {
        let Moved { files, known, bytes, missing } = moved;
        message!(
            "{}, the same in {from} and {to} by SHA-256: {} copied, {known} were there, {missing} are in neither",
            plural(files, "file"),
            wingbeat_text::bytes(bytes)
        );
        message!(
            "Restart the servers with --profiles {to}: until then, they take no profiles. {from} is not used any more."
        );
    }
    Ok(())
}
