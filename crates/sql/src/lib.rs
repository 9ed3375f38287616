//! One connection type for SQLite and PostgreSQL.
//!
//! Callers write each statement once, in the common SQL subset, and use SQLite's value types: null, integer, float,
//! text, blob. [`dialect`] translates the few keywords that differ. Code that has to differ checks
//! [`Connection::sqlite`] or [`Connection::is_postgres`].
//!
//! | here | SQLite | PostgreSQL |
//! | --- | --- | --- |
//! | integer | `INTEGER` | `BIGINT`, `INTEGER`, `SMALLINT` or `BOOLEAN` |
//! | float | `REAL` | `DOUBLE PRECISION` |
//! | text | `TEXT` | `TEXT COLLATE "C"`, so that both sort by bytes |
//! | blob | `BLOB` | `BYTEA` |
//!
//! A connection is blocking, and used by one thread at a time.

mod batch;
mod columns;
mod connection;
pub mod dialect;
mod error;
mod password;
mod rows;
mod session;
pub mod sqlite;
mod statement;
mod tls;
mod url;
mod value;
pub mod versions;

pub use rusqlite::{
    ToSql,
    types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, Value, ValueRef},
};

/// The result of [`ToSql::to_sql`].
pub type Written<'a> = rusqlite::Result<ToSqlOutput<'a>>;

/// The error of [`ToSql::to_sql`] for a value that cannot be converted.
pub fn not_written(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(why.into())
}

pub use self::{
    batch::{Inserter, Many},
    columns::{Time, limit_ns, of_text, text_of},
    connection::{Connection, Transaction},
    error::{Error, Fault, OptionalExtension, Result},
    rows::{Column, Mapped, Row, Rows},
    statement::{Parameters, ParametersFromIter, Statement, params_from_iter},
    url::{InvalidUrl, PostgresUrl},
};

/// Parameters of a statement, of any types that columns can hold.
#[macro_export]
macro_rules! params {
    () => { &[] as &[&dyn $crate::ToSql] };
    ($($value:expr),+ $(,)?) => { &[$(&$value as &dyn $crate::ToSql),+] as &[&dyn $crate::ToSql] };
}
