//! `wingbeat serve user`: manages users without a browser, for the first start and for emergencies.

use clap::{Args, Subcommand};
use time::OffsetDateTime;
use wingbeat_server::{
    access::{INVITE_LIFETIME, digest, random_text},
    database::{Database, NewUser, Role, User, user_fault},
    settings::Settings,
};
use wingbeat_text::{Block, Column, Table};

use super::PlaceArgs;
use crate::{
    shell::{message, print, print_blocks},
    values::{Named, Values, named},
};

/// What is done to users.
#[derive(Debug, Args)]
pub(super) struct UserArgs {
    #[command(subcommand)]
    action: UserAction,
}

#[derive(Debug, Subcommand)]
enum UserAction {
    /// Make a user and print a link to choose a password, which works once
    Add(AddArgs),
    /// List users
    List(ListArgs),
    /// Change a user's role
    Role(RoleArgs),
    /// Lock a user out; the user's sessions and keys end
    Lock(OneArgs),
    /// Let a user in again
    Unlock(OneArgs),
    /// Print another link to choose a password, and sign the user out everywhere
    Reset(OneArgs),
}

impl Named for Role {
    const VALUES: Values<Self> = &[
        (Self::Reader, "reader", "Reads all projects"),
        (Self::Member, "member", "Also adds results, and changes what belongs to projects"),
        (Self::Admin, "admin", "Also manages users, and deletes projects"),
    ];
}

#[derive(Debug, Args)]
struct AddArgs {
    /// Email address, to sign in with
    email: String,
    /// Name for people; the beginning of the address otherwise
    #[arg(long)]
    name: Option<String>,
    /// What the user may do
    #[arg(long, value_parser = named::<Role>(), default_value = "member")]
    role: Role,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, Args)]
struct RoleArgs {
    /// User, by email address, slug or UUID
    user: String,
    /// What the user may do
    #[arg(value_parser = named::<Role>())]
    role: Role,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, Args)]
struct OneArgs {
    /// User, by email address, slug or UUID
    user: String,
    #[command(flatten)]
    place: PlaceArgs,
}

pub(super) fn run(args: &UserArgs, quiet: bool) -> anyhow::Result<()> {
    let now = OffsetDateTime::now_utc();
    let done = match &args.action {
        UserAction::Add(args) => return add(args, quiet),
        UserAction::List(args) => return list(args),
        UserAction::Reset(args) => return reset(args, quiet),
        UserAction::Role(args) => {
            let (_, database) = args.place.database()?;
            let user = one(&database, &args.user)?;
            let user = database.set_role(user.id, args.role, now)??;
            note(&database, format!("{} is {} now", user.email, user.role.word()))?
        }
        UserAction::Lock(args) => lock(args, true, now)?,
        UserAction::Unlock(args) => lock(args, false, now)?,
    };
    if !quiet {
        message!("{done}");
    }
    Ok(())
}

fn add(args: &AddArgs, quiet: bool) -> anyhow::Result<()> {
    let beginning = args.email.split('@').next().unwrap_or_default();
    let new = NewUser {
        name: args.name.clone().unwrap_or_else(|| beginning.to_owned()),
        email: args.email.clone(),
        role: args.role,
    };
    if let Some(fault) = user_fault(&new) {
        anyhow::bail!(fault);
    }
    let (settings, database) = args.place.new_database()?;
    let user = database.create_user(&new, OffsetDateTime::now_utc())??;
    note(&database, format!("made the user {}", user.email))?;
    print_link(&settings, &database, &user, quiet)
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    let (_, database) = args.place.database()?;
    let users = database.users()?;
    let cells = |cell: &dyn Fn(&User) -> String| users.iter().map(cell).collect::<Vec<_>>();
    let state = |user: &User| match (user.is_locked, user.has_password) {
        (true, _) => "locked out".to_owned(),
        (false, false) => "invited".to_owned(),
        (false, true) => String::new(),
    };
    let columns = vec![
        Column::words("name", cells(&|user| user.name.clone())),
        Column::words("role", cells(&|user| user.role.word().to_owned())),
        Column::words("made", cells(&|user| user.created.date().to_string())),
        Column::words("access", cells(&state)),
    ];
    let names = users.iter().map(|user| &user.email);
    print_blocks(&[Block::Table(Table::new("email", names, columns))])
}

fn lock(args: &OneArgs, is_locked: bool, now: OffsetDateTime) -> anyhow::Result<String> {
    let (_, database) = args.place.database()?;
    let user = one(&database, &args.user)?;
    let user = database.set_locked(user.id, is_locked, now)??;
    let state = if is_locked { "is locked out" } else { "may sign in again" };
    note(&database, format!("{} {state}", user.email))
}

fn reset(args: &OneArgs, quiet: bool) -> anyhow::Result<()> {
    let (settings, database) = args.place.database()?;
    let user = one(&database, &args.user)?;
    database.end_sessions(user.id)?;
    note(&database, format!("made a link for {}", user.email))?;
    print_link(&settings, &database, &user, quiet)
}

/// Creates a link for a user, which invalidates earlier ones, and prints it to stdout.
fn print_link(
    settings: &Settings,
    database: &Database,
    user: &User,
    quiet: bool,
) -> anyhow::Result<()> {
    let (secret, now) = (random_text()?, OffsetDateTime::now_utc());
    database.create_invite(Some(user.id), &digest(&secret), now, now + INVITE_LIFETIME)?;
    if !quiet {
        let days = INVITE_LIFETIME.whole_days();
        message!("{} chooses a password here, once, within {days} days:", user.email);
    }
    print(&format!("{}/auth/invite/{secret}\n", settings.public_url))
}

fn one(database: &Database, id: &str) -> anyhow::Result<User> {
    database.user(id)?.ok_or_else(|| unknown(id))
}

pub(super) fn unknown(id: &str) -> anyhow::Error {
    anyhow::anyhow!("there is no user {id:?}; `wingbeat serve user list` lists them")
}

fn note(database: &Database, what: String) -> anyhow::Result<String> {
    database.note("command line", &what, OffsetDateTime::now_utc())?;
    Ok(what)
}
