//! A prepared statement.

use rusqlite::CachedStatement;

use crate::{
    error::{Error, Result},
    parameters::Parameters,
    remote::{session::Session, value::Parameter},
    rows::{Fetched, Mapped, Row, Rows},
};

pub struct Statement<'c>(Inner<'c>);

enum Inner<'c> {
    Sqlite(CachedStatement<'c>),
    /// Looked up on each use, because a new connection has to prepare it again.
    Postgres {
        session: &'c Session,
        sql: String,
    },
}

impl<'c> Statement<'c> {
    pub(crate) fn of_sqlite(statement: CachedStatement<'c>) -> Self {
        Self(Inner::Sqlite(statement))
    }

    pub(crate) fn of_postgres(session: &'c Session, sql: &str) -> Result<Self> {
        if !session.is_prepared(sql) {
            session.prepare(sql)?;
        }
        Ok(Self(Inner::Postgres { session, sql: sql.to_owned() }))
    }

    pub fn query(&mut self, values: impl Parameters) -> Result<Rows<'_>> {
        match &mut self.0 {
            Inner::Sqlite(statement) => {
                Ok(Rows::of_sqlite(values.with(|all| statement.query(all))?))
            }
            Inner::Postgres { session, sql } => {
                let values = values.with(converted)?;
                let rows = session.query(sql, &borrowed(&values))?;
                Ok(Rows::of_postgres(rows.into_iter().map(Fetched::new).collect()))
            }
        }
    }

    pub fn query_map<T, F>(&mut self, values: impl Parameters, map: F) -> Result<Mapped<'_, F>>
    where
        F: FnMut(&Row<'_>) -> Result<T>,
    {
        Ok(Mapped::new(self.query(values)?, map))
    }

    /// Returns the first row, or [`Error::NoRow`].
    pub fn query_row<T>(
        &mut self,
        values: impl Parameters,
        map: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        match self.query(values)?.next()? {
            Some(row) => map(&row),
            None => Err(Error::NoRow),
        }
    }

    pub fn exists(&mut self, values: impl Parameters) -> Result<bool> {
        Ok(self.query(values)?.next()?.is_some())
    }

    /// Returns the number of rows changed.
    pub fn execute(&mut self, values: impl Parameters) -> Result<usize> {
        match &mut self.0 {
            Inner::Sqlite(statement) => Ok(values.with(|all| statement.execute(all))?),
            Inner::Postgres { session, sql } => {
                let values = values.with(converted)?;
                Ok(usize::try_from(session.execute(sql, &borrowed(&values))?).unwrap_or(usize::MAX))
            }
        }
    }
}

fn converted(values: &[&dyn rusqlite::ToSql]) -> Result<Vec<Parameter>> {
    values.iter().map(|value| Parameter::of(*value)).collect()
}

fn borrowed(values: &[Parameter]) -> Vec<&(dyn postgres::types::ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn postgres::types::ToSql + Sync)).collect()
}
