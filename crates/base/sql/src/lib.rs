//! One connection, to SQLite or to PostgreSQL.
//!
//! What uses it writes each statement once, in the SQL that both understand, and hands over and reads the
//! values of SQLite: nothing, whole numbers, floats, texts, bytes. [`dialect`] turns the few words that
//! differ. What cannot be the same asks [`Connection::sqlite`] or [`Connection::is_postgres`].
//!
//! | here | SQLite | PostgreSQL |
//! | --- | --- | --- |
//! | whole number | `INTEGER` | `BIGINT`, `INTEGER`, `SMALLINT` or `BOOLEAN` |
//! | float | `REAL` | `DOUBLE PRECISION` |
//! | text | `TEXT` | `TEXT COLLATE "C"`, so that both sort by bytes |
//! | bytes | `BLOB` | `BYTEA` |
//!
//! A connection blocks, and belongs to one thread at a time.

mod connection;
pub mod dialect;
mod error;
mod inserter;
mod many;
mod parameters;
mod password;
mod remote;
mod rows;
pub mod sqlite;
mod statement;
mod url;
pub mod versions;

pub use rusqlite::{
    ToSql,
    types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, Value, ValueRef},
};

/// What [`ToSql::to_sql`] returns.
pub type Written<'a> = rusqlite::Result<ToSqlOutput<'a>>;

/// The error of [`ToSql::to_sql`] for what is no value.
pub fn not_written(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(why.into())
}

pub use self::{
    connection::{Connection, Transaction},
    error::{Error, Fault, OptionalExtension, Result},
    inserter::Inserter,
    many::Many,
    parameters::{Parameters, ParametersFromIter, params_from_iter},
    rows::{Column, Mapped, Row, Rows},
    statement::Statement,
    url::{InvalidUrl, PostgresUrl},
};

/// The values of a statement's parameters, of any types that stand in columns.
#[macro_export]
macro_rules! params {
    () => { &[] as &[&dyn $crate::ToSql] };
    ($($value:expr),+ $(,)?) => { &[$(&$value as &dyn $crate::ToSql),+] as &[&dyn $crate::ToSql] };
}
