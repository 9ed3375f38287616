//! Errors of statements, and their meaning on either engine.

use std::{error::Error as StdError, io};

use rusqlite::ErrorCode;
use rustls::CertificateError;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a statement failed. [`Error::fault`] classifies it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a row that must be there is missing")]
    NoRow,
    /// A value was read that this program never writes.
    #[error("{0}")]
    Content(Box<dyn StdError + Send + Sync>),
    /// A value cannot be written.
    #[error("{0}")]
    Value(Box<dyn StdError + Send + Sync>),
    #[error(transparent)]
    Sqlite(rusqlite::Error),
    #[error("{}", in_words(.0))]
    Postgres(Box<postgres::Error>),
    /// The PostgreSQL server cannot be reached or used as configured. `what` is a message.
    #[error("{what}")]
    Server { fault: Fault, what: String },
}

/// Classification of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Other writers took too long, or there are too many connections. Retrying may help.
    Busy,
    /// The disk is full.
    Full,
    /// The database is not writable: a read-only file system, or a replica.
    ReadOnly,
    /// The database is damaged.
    Damaged,
    /// A value was read that this program never writes, or a row is missing.
    Content,
    /// A statement does not match the schema.
    Tables,
    /// Not an SQLite database.
    NotADatabase,
    /// A constraint was violated.
    Contradiction,
    /// The server is unreachable, or the connection was lost. Retrying may help.
    Lost,
    /// Wrong password, or insufficient privileges.
    Denied,
    /// The server could not be authenticated: its certificate does not verify, or it has no TLS and the URL requires
    /// it.
    Untrusted,
    /// The server has no database of that name.
    NoDatabase,
    /// The server is older than [`crate::PostgresUrl::SERVER_MIN`].
    TooOld,
    Other,
}

impl Error {
    /// Creates an error for a value read that this program never writes.
    pub fn content(why: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Content(why.into())
    }

    /// Creates an error for a value that cannot be written.
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

    /// The inner error of a value that this program never writes, if there is one.
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
    // The shared-memory file could not be extended (SQLITE_IOERR_SHMSIZE).
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
            // `OptionalExtension` handles this where a row is optional.
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
        // No response from the server: the connection broke or was never made.
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

/// The certificate error that prevented the connection, if any.
fn certificate_fault(error: &postgres::Error) -> Option<&CertificateError> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = next {
        // `io::Error::source` skips the inner error.
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

/// Whether the URL requires TLS and the server has none. The client has no type for this error.
fn is_without_tls(error: &postgres::Error) -> bool {
    error.source().is_some_and(|source| source.to_string() == "server does not support TLS")
}

/// Whether a value could not be converted to or from its SQL type.
fn is_of_value(error: &postgres::Error) -> bool {
    error.to_string().starts_with("error serializing")
        || error.to_string().starts_with("error deserializing")
}

/// The server's message with its details, in place of "db error".
fn in_words(error: &postgres::Error) -> String {
    if let Some(answer) = error.as_db_error() {
        let detail = answer.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
        let hint = answer.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        return format!("{}{detail}{hint}", answer.message());
    }
    if let Some(why) = certificate_fault(error) {
        let why = match why {
            // The underlying library's message, without the wrapper's names.
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

/// Converts a missing row to `None`.
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
