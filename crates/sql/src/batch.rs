//! Lookups and inserts of many rows: one by one on SQLite, in batches on PostgreSQL, where each statement costs a round
//! trip.

use std::collections::{HashMap, HashSet, VecDeque};

use rusqlite::{CachedStatement, ToSql};

use crate::{
    connection::Connection,
    error::{Error, Result},
    rows::{Fetched, Rows},
    session::Session,
    statement::Statement,
    value::Parameter,
};

/// Looks up many keys with one statement.
pub struct Many<'c>(Inner<'c>);

enum Inner<'c> {
    Sqlite(Statement<'c>),
    Postgres(Ahead<'c>),
}

struct Ahead<'c> {
    session: &'c Session,
    sql: String,
    at_once: usize,
    expected: VecDeque<i64>,
    /// All keys ever expected or requested.
    known: HashSet<i64>,
    found: HashMap<i64, Vec<Fetched>>,
}

impl<'c> Many<'c> {
    /// Prepares a lookup. The statement has a condition `COLUMN = ?1` as its only parameter, an integer key. Up to
    /// `at_once` keys are fetched per round trip.
    pub fn prepare(db: &'c Connection, sql: &str, at_once: usize) -> Result<Self> {
        let Some(session) = db.session() else {
            return Ok(Self(Inner::Sqlite(db.prepare(sql)?)));
        };
        let sql = format!(
            "SELECT found.*, wanted.key FROM unnest(?1::bigint[]) AS wanted (key) \
             JOIN LATERAL ({}) AS found ON true",
            of_key(sql).ok_or_else(|| Error::value("a statement for many keys without `= ?1`"))?
        );
        let (expected, known, found) = Default::default();
        Ok(Self(Inner::Postgres(Ahead { session, sql, at_once, expected, known, found })))
    }

    /// Announces keys that will be requested, roughly in this order.
    pub fn expect(&mut self, keys: impl IntoIterator<Item = i64>) {
        if let Inner::Postgres(ahead) = &mut self.0 {
            for key in keys {
                if ahead.known.insert(key) {
                    ahead.expected.push_back(key);
                }
            }
        }
    }

    pub fn query(&mut self, key: i64) -> Result<Rows<'_>> {
        match &mut self.0 {
            Inner::Sqlite(statement) => statement.query([key]),
            Inner::Postgres(ahead) => ahead.query(key),
        }
    }
}

/// Builds the statement for several keys within a range. The range lets a server with a partitioned table prune
/// partitions before planning each of them.
fn of_key(sql: &str) -> Option<String> {
    let (before, after) = sql.split_once(" = ?1")?;
    let column = before.rsplit(|c: char| c.is_whitespace() || c == '(').next()?;
    Some(format!("{before} = wanted.key AND {column} BETWEEN ?2::bigint AND ?3::bigint{after}"))
}

impl Ahead<'_> {
    fn query(&mut self, key: i64) -> Result<Rows<'static>> {
        if let Some(rows) = self.found.remove(&key) {
            return Ok(Rows::of_postgres(rows));
        }
        let mut keys = vec![key];
        self.known.insert(key);
        while keys.len() < self.at_once
            && let Some(next) = self.expected.pop_front()
        {
            if next != key {
                self.found.entry(next).or_default();
                keys.push(next);
            }
        }
        let least = keys.iter().copied().fold(key, i64::min);
        let most = keys.iter().copied().fold(key, i64::max);
        for row in self.session.query(&self.sql, &[&keys, &least, &most])? {
            let row = Fetched::new(row);
            if let Some(key) = row.last_integer() {
                self.found.entry(key).or_default().push(row);
            }
        }
        Ok(Rows::of_postgres(self.found.remove(&key).unwrap_or_default()))
    }
}

/// Maximum rows per batch.
const ROWS_MAX: usize = 2_000;

/// Size in bytes at which a batch is sent.
const BYTES_MAX: usize = 1 << 22;

/// Inserts rows into a table. Rows may be buffered until [`Inserter::finish`] is called.
#[must_use = "rows may wait for `finish`"]
pub struct Inserter<'c>(Sink<'c>);

enum Sink<'c> {
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
            return Ok(Self(Sink::Sqlite(sqlite.prepare_cached(&sql)?)));
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
        Ok(Self(Sink::Postgres(Batch { session, sql, columns, bytes: 0 })))
    }

    /// Adds a row, with values in column order.
    pub fn insert(&mut self, values: &[&dyn ToSql]) -> Result<()> {
        match &mut self.0 {
            Sink::Sqlite(statement) => {
                for (number, value) in (1..).zip(values) {
                    statement.raw_bind_parameter(number, value)?;
                }
                statement.raw_execute()?;
                Ok(())
            }
            Sink::Postgres(batch) => batch.add(values),
        }
    }

    /// Sends the buffered rows.
    pub fn finish(self) -> Result<()> {
        match self.0 {
            Sink::Sqlite(_) => Ok(()),
            Sink::Postgres(mut batch) => batch.send(),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lie_in_a_range() {
        let check = |sql: &str, expected: Option<&str>| {
            assert_eq!(of_key(sql).as_deref(), expected, "{sql}");
        };
        check(
            "SELECT a FROM b WHERE b.id = ?1 ORDER BY a",
            Some(
                "SELECT a FROM b WHERE b.id = wanted.key \
                 AND b.id BETWEEN ?2::bigint AND ?3::bigint ORDER BY a",
            ),
        );
        check(
            "SELECT (id = ?1)",
            Some("SELECT (id = wanted.key AND id BETWEEN ?2::bigint AND ?3::bigint)"),
        );
        check("SELECT 1", None);
    }
}
