//! Adds rows to a table: one after the other with SQLite, many at once with PostgreSQL, where each statement is
//! a way to the server and back.

use postgres::types::Type;
use rusqlite::ToSql;

use crate::{
    connection::Connection,
    error::{Error, Result},
    remote::{session::Session, value::Parameter},
    statement::Statement,
};

/// Rows that are sent at once.
const ROWS_MAX: usize = 2_000;

/// Bytes from which on rows are sent.
const BYTES_MAX: usize = 1 << 22;

/// Whoever uses it calls [`Inserter::finish`]: rows may wait until then.
#[must_use = "rows may wait for `finish`"]
pub struct Inserter<'c>(Inner<'c>);

enum Inner<'c> {
    Sqlite(Statement<'c>),
    Postgres(Batch<'c>),
}

struct Batch<'c> {
    session: &'c Session,
    sql: String,
    /// Values by columns.
    columns: Vec<Vec<Parameter>>,
    bytes: usize,
}

impl<'c> Inserter<'c> {
    /// Of the columns of a table, with commas between them.
    pub fn prepare(db: &'c Connection, table: &str, columns: &str) -> Result<Self> {
        let count = columns.split(',').count();
        let places = vec!["?"; count].join(", ");
        let sql = format!("INSERT INTO {table} ({columns}) VALUES ({places})");
        let Some(session) = db.session() else {
            return Ok(Self(Inner::Sqlite(db.prepare(&sql)?)));
        };
        let types = session.types(&sql)?;
        let lists: Vec<_> = types
            .iter()
            .zip(1..)
            .map(|(of, number)| format!("${number}::{}[]", name(of)))
            .collect();
        let sql =
            format!("INSERT INTO {table} ({columns}) SELECT * FROM unnest({})", lists.join(", "));
        let columns = vec![Vec::new(); count];
        Ok(Self(Inner::Postgres(Batch { session, sql, columns, bytes: 0 })))
    }

    pub fn insert(&mut self, values: &[&dyn ToSql]) -> Result<()> {
        match &mut self.0 {
            Inner::Sqlite(statement) => statement.execute(values).map(drop),
            Inner::Postgres(batch) => batch.add(values),
        }
    }

    /// Sends what waits.
    pub fn finish(self) -> Result<()> {
        match self.0 {
            Inner::Sqlite(_) => Ok(()),
            Inner::Postgres(mut batch) => batch.send(),
        }
    }
}

fn name(of: &Type) -> &str {
    of.name()
}

impl Batch<'_> {
    fn add(&mut self, values: &[&dyn ToSql]) -> Result<()> {
        if values.len() != self.columns.len() {
            return Err(Error::value("a row has another number of values than its table"));
        }
        for (column, value) in self.columns.iter_mut().zip(values) {
            let value = Parameter::of(*value)?;
            self.bytes += value.bytes();
            column.push(value);
        }
        if self.columns[0].len() >= ROWS_MAX || self.bytes >= BYTES_MAX {
            self.send()
        } else {
            Ok(())
        }
    }

    fn send(&mut self) -> Result<()> {
        if self.columns[0].is_empty() {
            return Ok(());
        }
        let values: Vec<_> = self
            .columns
            .iter()
            .map(|column| column as &(dyn postgres::types::ToSql + Sync))
            .collect();
        self.session.execute(&self.sql, &values)?;
        self.columns.iter_mut().for_each(Vec::clear);
        self.bytes = 0;
        Ok(())
    }
}
