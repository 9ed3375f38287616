//! One statement for many keys, one key after the other: with PostgreSQL a way to the server and back answers
//! for many of those that will be asked for.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::{
    connection::Connection,
    error::Result,
    remote::session::Session,
    rows::{Fetched, Rows},
    statement::Statement,
};

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
    /// All that were ever expected or asked for.
    known: HashSet<i64>,
    found: HashMap<i64, Vec<Fetched>>,
}

impl<'c> Many<'c> {
    /// Of a statement that has one parameter `?1`, a number: the key. So many keys are asked for at once.
    pub fn prepare(db: &'c Connection, sql: &str, at_once: usize) -> Result<Self> {
        let Some(session) = db.session() else {
            return Ok(Self(Inner::Sqlite(db.prepare(sql)?)));
        };
        let of_key = sql.replace("?1", "wanted.key");
        let sql = format!(
            "SELECT found.*, wanted.key FROM unnest(?1::bigint[]) AS wanted (key) \
             JOIN LATERAL ({of_key}) AS found ON true"
        );
        let (expected, known, found) = Default::default();
        Ok(Self(Inner::Postgres(Ahead { session, sql, at_once, expected, known, found })))
    }

    /// Says which keys will be asked for, about in this order.
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
        for row in self.session.query(&self.sql, &[&keys])? {
            let row = Fetched::new(row);
            if let Some(key) = row.last_integer() {
                self.found.entry(key).or_default().push(row);
            }
        }
        Ok(Rows::of_postgres(self.found.remove(&key).unwrap_or_default()))
    }
}
