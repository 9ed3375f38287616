//! Inserts rows: one by one on SQLite, in batches on PostgreSQL, where each statement costs a round trip.

use rusqlite::{CachedStatement, ToSql};

use crate::{
    connection::Connection,
    error::{Error, Result},
    remote::{session::Session, value::Parameter},
};

/// Maximum rows per batch.
const ROWS_MAX: usize = 2_000;

/// Size in bytes at which a batch is sent.
const BYTES_MAX: usize = 1 << 22;

/// Inserts rows into a table. Rows may be buffered until [`Inserter::finish`] is called.
#[must_use = "rows may wait for `finish`"]
pub struct Inserter<'c>(Inner<'c>);

enum Inner<'c> {
    Sqlite(CachedStatement<'c>),
    Postgres(Batch<'c>),
}

struct Batch<'c> {
    session: &'c Session,
    sql: String,
    /// Values by column.
    columns: Vec<Vec<Parameter>>,
    bytes: usize,
}

impl<'c> Inserter<'c> {
    /// Prepares an insert. `columns` are separated by commas.
    pub fn prepare(db: &'c Connection, table: &str, columns: &str) -> Result<Self> {
        let count = columns.split(',').count();
        let places = vec!["?"; count].join(", ");
        let sql = format!("INSERT INTO {table} ({columns}) VALUES ({places})");
        if let Some(sqlite) = db.sqlite() {
            return Ok(Self(Inner::Sqlite(sqlite.prepare_cached(&sql)?)));
        }
        let session = db.session().ok_or(Error::NoRow)?;
        let types = session.types(&sql)?;
        let lists: Vec<_> = types
            .iter()
            .zip(1..)
            .map(|(of, number)| format!("${number}::{}[]", of.name()))
            .collect();
        let sql =
            format!("INSERT INTO {table} ({columns}) SELECT * FROM unnest({})", lists.join(", "));
        let columns = vec![Vec::new(); count];
        Ok(Self(Inner::Postgres(Batch { session, sql, columns, bytes: 0 })))
    }

    /// Adds a row, with values in column order.
    pub fn insert<'v>(&mut self, values: impl IntoIterator<Item = &'v dyn ToSql>) -> Result<()> {
        match &mut self.0 {
            Inner::Sqlite(statement) => {
                for (number, value) in (1..).zip(values) {
                    statement.raw_bind_parameter(number, value)?;
                }
                statement.raw_execute()?;
                Ok(())
            }
            Inner::Postgres(batch) => batch.add(values.into_iter()),
        }
    }

    /// Sends the buffered rows.
    pub fn finish(self) -> Result<()> {
        match self.0 {
            Inner::Sqlite(_) => Ok(()),
            Inner::Postgres(mut batch) => batch.send(),
        }
    }
}

impl Batch<'_> {
    fn add<'v>(&mut self, mut values: impl Iterator<Item = &'v dyn ToSql>) -> Result<()> {
        for column in &mut self.columns {
            let missing = || Error::value("a row has fewer values than its table");
            let value = Parameter::of(values.next().ok_or_else(missing)?)?;
            self.bytes += value.bytes();
            column.push(value);
        }
        if values.next().is_some() {
            return Err(Error::value("a row has more values than its table"));
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
