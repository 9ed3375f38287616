//! `wingbeat serve key`: manages keys without a browser.

use clap::{Args, Subcommand};
use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_server::{
    access::{KeyKind, KeyText},
    database::{Database, Key, KeyOwner, NO_END, NewKey, NewProject, Visibility, key_name_fault},
};
use wingbeat_text::{Block, Column, Table};
use wingbeat_track::model::ProjectName;

use super::PlaceArgs;
use crate::shell::{message, print, print_blocks};

/// What is done to keys.
#[derive(Debug, Args)]
pub(super) struct KeyArgs {
    #[command(subcommand)]
    action: KeyAction,
}

#[derive(Debug, Subcommand)]
enum KeyAction {
    /// Make a key and print it to stdout; only its hash is kept
    Create(CreateArgs),
    /// List keys
    List(ListArgs),
    /// Revoke a key for good
    Revoke(RevokeArgs),
}

/// Whose key it is.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct OwnerArgs {
    /// Project, by slug, name or UUID
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    /// User, by email address, slug or UUID
    #[arg(long, value_name = "USER")]
    user: Option<String>,
}

#[derive(Debug, Args)]
struct CreateArgs {
    #[command(flatten)]
    owner: OwnerArgs,
    /// Name of what uses the key
    #[arg(long)]
    name: String,
    /// Time until the key expires, as 90d; never otherwise
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl)]
    ttl: Option<std::time::Duration>,
    /// Make the project, internal, if there is none
    #[arg(long, requires = "project")]
    create_project: bool,
    /// Print the key as a token, for bencher before 0.6.5
    #[arg(long)]
    token: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    owner: OwnerArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, Args)]
struct RevokeArgs {
    #[command(flatten)]
    owner: OwnerArgs,
    /// Key, by UUID
    key: Uuid,
    #[command(flatten)]
    place: PlaceArgs,
}

fn parse_ttl(text: &str) -> Result<std::time::Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write it as 90d, 12h or 1year"))
}

pub(super) fn run(args: &KeyArgs, quiet: bool) -> anyhow::Result<()> {
    match &args.action {
        KeyAction::Create(args) => create(args, quiet),
        KeyAction::List(args) => list(args),
        KeyAction::Revoke(args) => revoke(args, quiet),
    }
}

fn create(args: &CreateArgs, quiet: bool) -> anyhow::Result<()> {
    if let Some(fault) = key_name_fault(&args.name) {
        anyhow::bail!(fault);
    }
    let (_, database) =
        if args.create_project { args.place.new_database()? } else { args.place.database()? };
    let now = OffsetDateTime::now_utc();
    if let Some(name) = args.owner.project.as_ref().filter(|_| args.create_project)
        && database.project(name)?.is_none()
    {
        let name = ProjectName::new(name.clone())?;
        let new = NewProject { name, slug: None, url: None, visibility: Visibility::default() };
        let project = database.create_project(&new, now)?;
        if !quiet {
            message!("made the internal project {}", project.slug.as_str());
        }
    }
    let owner = args.owner.of(&database)?;
    let kind = match owner {
        KeyOwner::User(_) => KeyKind::User,
        KeyOwner::Project(_) => KeyKind::Project,
    };
    let text = KeyText::random(kind)?;
    let lifetime = match args.ttl {
        Some(ttl) => time::Duration::try_from(ttl)?,
        None => NO_END,
    };
    let expires = now.checked_add(lifetime).filter(|it| it.year() < 2200);
    let expires = expires.ok_or_else(|| anyhow::anyhow!("--ttl is too long: leave it out"))?;
    let new =
        NewKey { owner, name: args.name.clone(), hash: text.digest(), creator: None, expires };
    let key = database.create_key(&new, now)?;
    database.note("command line", &format!("made the key {}", key.uuid), now)?;
    if !quiet {
        let end = match key.end() {
            Some(end) => format!("until {}", end.date()),
            None => "that never expires".to_owned(),
        };
        message!("key {} {end}; it is not shown again:", key.uuid);
    }
    match args.token {
        true => print(&format!("{}\n", text.token())),
        false => print(&format!("{}\n", text.as_str())),
    }
}

fn end(key: &Key) -> String {
    key.end().map_or_else(|| "never".to_owned(), |end| end.date().to_string())
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    let (_, database) = args.place.database()?;
    let keys = database.keys(args.owner.of(&database)?)?;
    let cells = |cell: &dyn Fn(&Key) -> String| keys.iter().map(cell).collect::<Vec<_>>();
    let columns = vec![
        Column::words("key", cells(&|key| key.uuid.to_string())),
        Column::words("made", cells(&|key| key.created.date().to_string())),
        Column::words("expires", cells(&end)),
        Column::words(
            "revoked",
            cells(&|key| key.revoked.map(|at| at.date().to_string()).unwrap_or_default()),
        ),
    ];
    let names = keys.iter().map(|key| &key.name);
    print_blocks(&[Block::Table(Table::new("name", names, columns))])
}

fn revoke(args: &RevokeArgs, quiet: bool) -> anyhow::Result<()> {
    let (_, database) = args.place.database()?;
    let owner = args.owner.of(&database)?;
    let now = OffsetDateTime::now_utc();
    let is_there = database.revoke_key(owner, args.key, now)?;
    anyhow::ensure!(is_there, "there is no key {} of that owner", args.key);
    database.note("command line", &format!("revoked the key {}", args.key), now)?;
    if !quiet {
        message!("revoked {}", args.key);
    }
    Ok(())
}

impl OwnerArgs {
    fn of(&self, database: &Database) -> anyhow::Result<KeyOwner> {
        if let Some(name) = &self.project {
            let project = database.project(name)?;
            let project = project.ok_or_else(|| {
                anyhow::anyhow!("there is no project {name:?}; --create-project makes it")
            })?;
            return Ok(KeyOwner::Project(project.id));
        }
        let name = self.user.as_deref().unwrap_or_default();
        let user = database.user(name)?;
        let user = user.ok_or_else(|| super::users::unknown(name))?;
        Ok(KeyOwner::User(user.id))
    }
}
