//! Rows of a result, and their values.

use std::cell::OnceCell;

use rusqlite::types::{FromSql, ValueRef};

use crate::{
    error::{Error, Result},
    value::{Cell, unescaped},
};

/// A row, valid until the next one is fetched.
#[derive(Debug, Clone, Copy)]
pub struct Row<'r>(Inner<'r>);

#[derive(Debug, Clone, Copy)]
enum Inner<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r Fetched),
}

/// A row fetched from PostgreSQL.
#[derive(Debug)]
pub(crate) struct Fetched {
    row: postgres::Row,
    /// Unescaped forms of texts with escapes. Hardly any row has one.
    plain: OnceCell<Vec<Option<Vec<u8>>>>,
}

/// A column, by index from 0 or by name.
pub trait Column: Copy + rusqlite::RowIndex {
    #[doc(hidden)]
    fn of(self, row: &postgres::Row) -> Option<usize>;
}

impl Column for usize {
    #[inline]
    fn of(self, row: &postgres::Row) -> Option<usize> {
        (self < row.len()).then_some(self)
    }
}

impl Column for &str {
    fn of(self, row: &postgres::Row) -> Option<usize> {
        row.columns().iter().position(|column| column.name() == self)
    }
}

impl<'r> Row<'r> {
    /// The value of a column, converted to `T`.
    #[inline]
    pub fn get<C: Column, T: FromSql>(&self, column: C) -> Result<T> {
        match self.0 {
            Inner::Sqlite(row) => Ok(row.get(column)?),
            Inner::Postgres(row) => {
                let number = column.of(&row.row);
                let number = number.ok_or_else(|| Error::content("a column is missing"))?;
                T::column_result(row.value(number)?).map_err(|error| content(row, number, error))
            }
        }
    }

    #[inline]
    pub fn get_ref(&self, column: usize) -> Result<ValueRef<'r>> {
        match self.0 {
            Inner::Sqlite(row) => Ok(row.get_ref(column)?),
            Inner::Postgres(row) => row.value(column),
        }
    }
}

/// The error for a value of an unexpected type.
fn content(row: &Fetched, number: usize, error: rusqlite::types::FromSqlError) -> Error {
    use rusqlite::types::FromSqlError as E;
    let name = row.row.columns()[number].name();
    match error {
        E::Other(source) => Error::Content(source),
        E::InvalidType => Error::content(format!("the column {name} has a value of another type")),
        error => Error::content(format!("the column {name}: {error}")),
    }
}

impl Fetched {
    pub(crate) fn new(row: postgres::Row) -> Self {
        Self { row, plain: OnceCell::new() }
    }

    pub(crate) fn integer(&self, column: usize) -> Option<i64> {
        self.value(column).ok()?.as_i64().ok()
    }

    pub(crate) fn last_integer(&self) -> Option<i64> {
        self.integer(self.row.len().checked_sub(1)?)
    }

    fn value(&self, column: usize) -> Result<ValueRef<'_>> {
        let Cell(value) = self.row.try_get(column)?;
        let ValueRef::Text(text) = value else { return Ok(value) };
        if !text.contains(&1) {
            return Ok(value);
        }
        let plain = self.plain.get_or_init(|| {
            let plain = |column| match self.row.try_get(column) {
                Ok(Cell(ValueRef::Text(text))) => unescaped(text),
                _ => None,
            };
            (0..self.row.len()).map(plain).collect()
        });
        Ok(ValueRef::Text(plain[column].as_deref().unwrap_or(text)))
    }
}

/// An iterator of rows. On PostgreSQL all of them have been fetched.
pub struct Rows<'s>(Source<'s>);

enum Source<'s> {
    Sqlite(rusqlite::Rows<'s>),
    Postgres { rows: std::vec::IntoIter<Fetched>, current: Option<Fetched> },
}

impl<'s> Rows<'s> {
    pub(crate) fn of_sqlite(rows: rusqlite::Rows<'s>) -> Self {
        Self(Source::Sqlite(rows))
    }

    pub(crate) fn of_postgres(rows: Vec<Fetched>) -> Self {
        Self(Source::Postgres { rows: rows.into_iter(), current: None })
    }

    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a row borrows from its rows")]
    pub fn next(&mut self) -> Result<Option<Row<'_>>> {
        match &mut self.0 {
            Source::Sqlite(rows) => Ok(rows.next()?.map(|row| Row(Inner::Sqlite(row)))),
            Source::Postgres { rows, current } => {
                *current = rows.next();
                Ok(current.as_ref().map(|row| Row(Inner::Postgres(row))))
            }
        }
    }

    /// The integers in a column of the following rows that are already fetched. Empty on SQLite, where lookups one by
    /// one cost nothing extra.
    pub fn ahead(&self, column: usize) -> Vec<i64> {
        match &self.0 {
            Source::Sqlite(_) => Vec::new(),
            Source::Postgres { rows, .. } => {
                rows.as_slice().iter().filter_map(|row| row.integer(column)).collect()
            }
        }
    }
}

/// The result of [`crate::Statement::query_map`].
pub struct Mapped<'s, F> {
    rows: Rows<'s>,
    map: F,
}

impl<'s, F> Mapped<'s, F> {
    pub(crate) fn new(rows: Rows<'s>, map: F) -> Self {
        Self { rows, map }
    }
}

impl<T, F: FnMut(&Row<'_>) -> Result<T>> Iterator for Mapped<'_, F> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.rows.next() {
            Ok(Some(row)) => Some((self.map)(&row)),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        }
    }
}
