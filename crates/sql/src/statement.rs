//! A prepared statement, and its parameters: a slice, an array, or an iterator.

use rusqlite::{CachedStatement, ToSql};

use crate::{
    error::{Error, Result},
    rows::{Fetched, Mapped, Row, Rows},
    session::Session,
    value::Parameter,
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

fn converted(values: &[&dyn ToSql]) -> Result<Vec<Parameter>> {
    values.iter().map(|value| Parameter::of(*value)).collect()
}

fn borrowed(values: &[Parameter]) -> Vec<&(dyn postgres::types::ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn postgres::types::ToSql + Sync)).collect()
}

/// Values in placeholder order.
pub trait Parameters {
    fn with<R>(&self, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R;
}

impl Parameters for &[&dyn ToSql] {
    fn with<R>(&self, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R {
        then(self)
    }
}

// An empty array has no element type to infer. Hence this impl, and one for each length below.
impl Parameters for [&(dyn ToSql + Send + Sync); 0] {
    fn with<R>(&self, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R {
        then(&[])
    }
}

macro_rules! arrays {
    ($($length:literal)+) => {$(
        impl<T: ToSql> Parameters for [T; $length] {
            fn with<R>(&self, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R {
                let values: [&dyn ToSql; $length] = self.each_ref().map(|value| value as &dyn ToSql);
                then(&values)
            }
        }
    )+};
}

arrays!(1 2 3 4 5 6 7 8);

/// The result of [`params_from_iter`].
#[derive(Debug)]
pub struct ParametersFromIter<T>(Vec<T>);

/// Uses an iterator's values as parameters.
pub fn params_from_iter<T: ToSql>(values: impl IntoIterator<Item = T>) -> ParametersFromIter<T> {
    ParametersFromIter(values.into_iter().collect())
}

impl<T: ToSql> Parameters for ParametersFromIter<T> {
    fn with<R>(&self, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R {
        let values: Vec<&dyn ToSql> = self.0.iter().map(|value| value as &dyn ToSql).collect();
        then(&values)
    }
}
