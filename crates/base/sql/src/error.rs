//! Why a statement failed, and what that means on either engine.

use std::{error::Error as StdError, io};

use rusqlite::ErrorCode;
use rustls::CertificateError;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a statement failed. [`Error::fault`] says what to make of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a row that must be there is missing")]
    NoRow,
    /// A value was read that nobody has written.
    #[error("{0}")]
    Content(Box<dyn StdError + Send + Sync>),
    /// A value cannot be written.
    #[error("{0}")]
    Value(Box<dyn StdError + Send + Sync>),
    #[error(transparent)]
    Sqlite(rusqlite::Error),
    #[error("{}", in_words(.0))]
    Postgres(Box<postgres::Error>),
    /// PostgreSQL cannot be reached or used as it was named, in words.
    #[error("{what}")]
    Server { fault: Fault, what: String },
}

/// What an error means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Others wrote for too long, or there are too many connections. Trying again may help.
    Busy,
    /// The disk is full.
    Full,
    /// The database cannot be written: a file system, or a replica.
    ReadOnly,
    /// The database is damaged.
    Damaged,
    /// A value was read that nobody has written, or a row is missing.
    Content,
    /// A statement does not fit the tables.
    Tables,
    /// It is no SQLite database.
    NotADatabase,
    /// What was written contradicts what is there.
    Contradiction,
    /// The server cannot be reached, or went away. Trying again may help.
    Lost,
    /// A wrong password, or a user who may not do this.
    Denied,
    /// Nobody whom we trust says that it is the server that was meant: its certificate does not verify, or it has
    /// no TLS and the URL demands it.
    Untrusted,
    /// The server has no database of that name.
    NoDatabase,
    /// The server is older than [`crate::PostgresUrl::SERVER_MIN`].
    TooOld,
    Other,
}

impl Error {
    /// A value that nobody has written.
    pub fn content(why: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Content(why.into())
    }

    /// A value that cannot be written.
    pub fn value(why: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Value(why.into())
    }

    pub fn fault(&self) -> Fault {
        match self {
            Self::NoRow | Self::Content(_) => Fault::Content,
            Self::Value(_) => Fault::Other,
            Self::Sqlite(error) => of_sqlite(error),
            Self::Postgres(error) => of_postgres(error),
            Self::Server { fault, .. } => *fault,
        }
    }

    /// The error that a value carried, if it was one that nobody has written.
    pub fn source_of_content(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        match self {
            Self::Content(source)
            | Self::Sqlite(rusqlite::Error::FromSqlConversionFailure(_, _, source)) => {
                Some(source.as_ref())
            }
            _ => None,
        }
    }
}

fn of_sqlite(error: &rusqlite::Error) -> Fault {
    use rusqlite::Error as E;
    // Not even the file of shared memory could be made longer (SQLITE_IOERR_SHMSIZE).
    if error.sqlite_error().is_some_and(|error| error.extended_code == 4874) {
        return Fault::Full;
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Fault::Busy,
        Some(ErrorCode::DiskFull) => Fault::Full,
        Some(ErrorCode::ReadOnly) => Fault::ReadOnly,
        Some(ErrorCode::DatabaseCorrupt) => Fault::Damaged,
        Some(ErrorCode::NotADatabase) => Fault::NotADatabase,
        Some(ErrorCode::ConstraintViolation) => Fault::Contradiction,
        Some(ErrorCode::Unknown) => Fault::Tables,
        _ => match error {
            E::SqlInputError { .. } => Fault::Tables,
            E::FromSqlConversionFailure(..)
            | E::InvalidColumnType(..)
            | E::IntegralValueOutOfRange(..)
            | E::Utf8Error(..)
            // Where there may be no row, that is no error.
            | E::QueryReturnedNoRows => Fault::Content,
            _ => Fault::Other,
        },
    }
}

fn of_postgres(error: &postgres::Error) -> Fault {
    let Some(code) = error.code() else {
        if in_words(error).contains("password missing") {
            return Fault::Denied;
        }
        if certificate_fault(error).is_some() || is_without_tls(error) {
            return Fault::Untrusted;
        }
        // Not an answer of the server: the connection broke, or never was.
        return if is_of_value(error) { Fault::Other } else { Fault::Lost };
    };
    match code.code() {
        "40001" | "40P01" | "55P03" | "57014" | "53300" => Fault::Busy,
        "53100" => Fault::Full,
        "25006" => Fault::ReadOnly,
        "28000" | "28P01" | "42501" => Fault::Denied,
        "3D000" => Fault::NoDatabase,
        "XX001" | "XX002" => Fault::Damaged,
        "42P01" | "42703" | "3F000" => Fault::Tables,
        "57P01" | "57P02" | "57P03" | "57P04" | "57P05" => Fault::Lost,
        code if code.starts_with("08") => Fault::Lost,
        code if code.starts_with("23") => Fault::Contradiction,
        _ => Fault::Other,
    }
}

/// What is wrong with the certificate of the server, if that is why there is no connection.
fn certificate_fault(error: &postgres::Error) -> Option<&CertificateError> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = next {
        // What an I/O error holds is not its source.
        let error = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(held) => held as &(dyn StdError + 'static),
            None => error,
        };
        if let Some(rustls::Error::InvalidCertificate(why)) = error.downcast_ref() {
            return Some(why);
        }
        next = error.source();
    }
    None
}

/// Whether the URL demands TLS of a server that has none. The client has no type for it.
fn is_without_tls(error: &postgres::Error) -> bool {
    error.source().is_some_and(|source| source.to_string() == "server does not support TLS")
}

/// Whether a value could not be turned into one of the other side.
fn is_of_value(error: &postgres::Error) -> bool {
    error.to_string().starts_with("error serializing")
        || error.to_string().starts_with("error deserializing")
}

/// The server's sentence with what it adds, in place of "db error".
fn in_words(error: &postgres::Error) -> String {
    if let Some(answer) = error.as_db_error() {
        let detail = answer.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
        let hint = answer.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        return format!("{}{detail}{hint}", answer.message());
    }
    if let Some(why) = certificate_fault(error) {
        let why = match why {
            // As the library below calls it, without the names of what is around it.
            CertificateError::Other(why) => why.to_string(),
            why => why.to_string(),
        };
        return format!(
            "the certificate of the server does not verify: {why}; sslrootcert=FILE in the URL names the certificates to \
             verify by"
        );
    }
    if is_without_tls(error) {
        return "the server does not support TLS; turn on `ssl` there, or choose another sslmode in the URL".to_owned();
    }
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::QueryReturnedNoRows => Self::NoRow,
            error => Self::Sqlite(error),
        }
    }
}

impl From<postgres::Error> for Error {
    fn from(error: postgres::Error) -> Self {
        Self::Postgres(Box::new(error))
    }
}

/// A row that may be missing.
pub trait OptionalExtension<T> {
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalExtension<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(found) => Ok(Some(found)),
            Err(Error::NoRow) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
