//! Errors of opening, reading and writing a store, each with what to do next.

use std::{
    io,
    path::{Path, PathBuf},
};

use uuid::Uuid;
use wingbeat_sql::{Error, Fault, InvalidUrl, sqlite::PATIENCE};

pub(super) const OPENING: &str = "opening it";

/// Why a store could not be opened, read or written. Nothing has been changed, except for [`Self::Lost`] during a
/// commit, when only another query can tell whether it succeeded.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("there is no store at {}; `wingbeat run` creates one, and --store names another", .path.display())]
    Missing { path: PathBuf },
    #[error("cannot create the store {}: {source}; name another place with --store", .path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("{} is not a store of wingbeat: {found}; it was left as it is", .path.display())]
    NotAStore { path: PathBuf, found: String },
    #[error(
        "the store {} has version {found} of the tables, and this wingbeat reads version {known}: use the wingbeat that \
         wrote it, or export the store with that one and import the files into a new store", .path.display()
    )]
    OtherVersion { path: PathBuf, found: i64, known: i64 },
    #[error(
        "the store {} cannot be written while {doing}: the file, its folder or the file system is \
         read-only; name another place with --store", .path.display()
    )]
    ReadOnly { path: PathBuf, doing: &'static str },
    #[error(
        "the disk is full: {doing} in the store {} was abandoned, and the earlier contents are unchanged; \
         make room and try again", .path.display()
    )]
    Full { path: PathBuf, doing: &'static str },
    #[error(
        "the store {} stayed locked by other processes for {waited_s} s while {doing}; try again when \
         they are done", .path.display()
    )]
    Busy { path: PathBuf, doing: &'static str, waited_s: u64 },
    #[error("the server of {} is busy while {doing}: {source}; try again later", .path.display())]
    ServerBusy { path: PathBuf, doing: &'static str, source: Error },
    #[error(
        "the store {} is damaged, seen while {doing}: {detail}; {}", .path.display(), after_damage(doing)
    )]
    Corrupt { path: PathBuf, doing: &'static str, detail: String },
    #[error(
        "the connection to {} failed while {doing}: {source}; try again when its server can be reached",
        .path.display()
    )]
    Lost { path: PathBuf, doing: &'static str, source: Error },
    #[error(
        "the store {} cannot be written while {doing}: it is a replica, or was set to be read-only; name the \
         primary with --store", .path.display()
    )]
    Replica { path: PathBuf, doing: &'static str },
    #[error(
        "the store {} cannot be used while {doing}: {source}; check the user, its rights and the password (in the URL, \
         PGPASSWORD or PGPASSFILE)", .path.display()
    )]
    Denied { path: PathBuf, doing: &'static str, source: Error },
    #[error("the store {} cannot be used while {doing}: {source}", .path.display())]
    Refused { path: PathBuf, doing: &'static str, source: Error },
    #[error(transparent)]
    Url(InvalidUrl),
    #[error("{doing} failed in the store {}: {source}", .path.display())]
    Failed { path: PathBuf, doing: &'static str, source: Error },
    #[error(transparent)]
    Invalid(#[from] InvalidDocument),
    #[error("there is no alert {alert} in the store {}; `wingbeat alerts` lists them", .path.display())]
    NoSuchAlert { path: PathBuf, alert: Uuid },
}

/// A document that cannot be stored because it contradicts itself or the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the document {uuid} cannot be stored: {reason}")]
pub struct InvalidDocument {
    pub uuid: Uuid,
    pub reason: String,
}

/// Content that differs from what was stored.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Damage(String);

/// The error for damage, in the type of database errors.
pub(super) fn damage(what: impl Into<String>) -> Error {
    Error::content(Damage(what.into()))
}

impl StoreError {
    /// Adds to an error of the database what failed, and where.
    pub fn of(path: &Path, doing: &'static str, source: Error) -> Self {
        let path = path.to_owned();
        match source.fault() {
            Fault::Full => Self::Full { path, doing },
            // The message of a replica is more specific.
            Fault::ReadOnly if matches!(source, Error::Sqlite(_)) => Self::ReadOnly { path, doing },
            Fault::Damaged | Fault::Content | Fault::Tables => {
                Self::Corrupt { path, doing, detail: detail(&source) }
            }
            Fault::Busy if matches!(source, Error::Postgres(_)) => {
                Self::ServerBusy { path, doing, source }
            }
            Fault::Busy => Self::Busy { path, doing, waited_s: PATIENCE.as_secs() },
            Fault::NotADatabase => {
                Self::NotAStore { path, found: "it is not an SQLite database".to_owned() }
            }
            Fault::Lost => Self::Lost { path, doing, source },
            Fault::ReadOnly => Self::Replica { path, doing },
            Fault::Denied => Self::Denied { path, doing, source },
            Fault::Untrusted | Fault::NoDatabase | Fault::TooOld => {
                Self::Refused { path, doing, source }
            }
            Fault::Contradiction | Fault::Other => Self::Failed { path, doing, source },
        }
    }
}

fn after_damage(doing: &str) -> &'static str {
    if doing != OPENING {
        return "`wingbeat log --check` lists what is damaged and what `wingbeat export` can still save";
    }
    "no part of it can be read: use an earlier copy or export, or try `.recover` of the SQLite \
     shell on a copy"
}

/// Whether an error indicates damage, so that other data may be intact. The statements are correct, so if one does not
/// match the tables, the tables are damaged.
pub(super) fn is_damage(error: &Error) -> bool {
    matches!(error.fault(), Fault::Damaged | Fault::Tables | Fault::Content)
}

pub(super) fn detail(error: &Error) -> String {
    match error.source_of_content() {
        Some(source) if source.is::<Damage>() => source.to_string(),
        _ if matches!(error, Error::NoRow) => "a row that others refer to is missing".to_owned(),
        _ => error.to_string(),
    }
}
