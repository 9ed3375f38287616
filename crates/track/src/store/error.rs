//! Why a store could not be opened, read or written, each with what to do next.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::ErrorCode;
use uuid::Uuid;

use super::checksum::Damage;

/// How long a process waits for others that write.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

pub(super) const OPENING: &str = "opening it";

/// Why a store could not be opened, read or written. Nothing has been changed then.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("there is no store at {}; `wingbeat run` creates one, and --store names another", .path.display())]
    Missing { path: PathBuf },
    #[error("cannot create the store {}: {source}; name another place with --store", .path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("{} is not a store of wingbeat: {found}; it was left as it is", .path.display())]
    NotAStore { path: PathBuf, found: String },
    #[error(
        "the store {} has version {found}, and this wingbeat knows versions up to {known}; \
         a newer wingbeat has written it and can read it", .path.display()
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error(
        "the store {} has the older version {found} and cannot be written, so it cannot be brought to \
         version {known}; copy it to a place that can be written", .path.display()
    )]
    OlderReadOnly { path: PathBuf, found: i64, known: i64 },
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
    #[error(
        "the store {} is damaged, seen while {doing}: {detail}; {}", .path.display(), after_damage(doing)
    )]
    Corrupt { path: PathBuf, doing: &'static str, detail: String },
    #[error("{doing} failed in the store {}: {source}", .path.display())]
    Sqlite { path: PathBuf, doing: &'static str, source: rusqlite::Error },
    #[error(transparent)]
    Invalid(#[from] InvalidReport),
    #[error("there is no alert {alert} in the store {}; `wingbeat alerts` lists them", .path.display())]
    NoSuchAlert { path: PathBuf, alert: Uuid },
}

/// A report that cannot be stored, because it contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the report {report} cannot be stored: {reason}")]
pub struct InvalidReport {
    pub report: Uuid,
    pub reason: String,
}

impl StoreError {
    pub(super) fn of(path: &Path, doing: &'static str, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        // Not even the file of shared memory could be made longer (SQLITE_IOERR_SHMSIZE).
        let is_shm_full = source.sqlite_error().is_some_and(|error| error.extended_code == 4874);
        if is_shm_full {
            return Self::Full { path, doing };
        }
        let corrupt = |detail: String| Self::Corrupt { path: path.clone(), doing, detail };
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full { path, doing },
            Some(ErrorCode::ReadOnly) => Self::ReadOnly { path, doing },
            Some(ErrorCode::DatabaseCorrupt) => corrupt(source.to_string()),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Busy { path, doing, waited_s: PATIENCE.as_secs() }
            }
            Some(ErrorCode::NotADatabase) => {
                Self::NotAStore { path, found: "it is no SQLite database".to_owned() }
            }
            None if is_of_content(&source) => corrupt(detail(&source)),
            _ if is_of_tables(&source) => corrupt(source.to_string()),
            _ => Self::Sqlite { path, doing, source },
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

/// Whether an error tells of damage, so that what lies elsewhere may be whole.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    code == Some(ErrorCode::DatabaseCorrupt) || is_of_tables(error) || is_of_content(error)
}

/// Whether a statement does not fit the tables. The statements are right, so the tables are not.
fn is_of_tables(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqlInputError { .. })
        || error.sqlite_error_code() == Some(ErrorCode::Unknown)
}

/// Whether a value was read that no wingbeat has written.
fn is_of_content(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{
        FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, QueryReturnedNoRows,
    };
    matches!(
        error,
        FromSqlConversionFailure(..)
            | InvalidColumnType(..)
            | IntegralValueOutOfRange(..)
            // Where there may be no row, that is no error.
            | QueryReturnedNoRows
    )
}

pub(super) fn detail(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::FromSqlConversionFailure(_, _, source) if source.is::<Damage>() => {
            source.to_string()
        }
        rusqlite::Error::QueryReturnedNoRows => "a row that others refer to is missing".to_owned(),
        error => error.to_string(),
    }
}
