//! Connections and transactions.

use std::ops::Deref;

use crate::{
    error::Result,
    rows::{Fetched, Row, Rows},
    session::Session,
    statement::{Parameters, Statement},
    url::PostgresUrl,
};

#[derive(Debug)]
pub struct Connection(Engine);

#[derive(Debug)]
enum Engine {
    Sqlite(rusqlite::Connection),
    Postgres(Box<Session>),
}

impl From<rusqlite::Connection> for Connection {
    fn from(connection: rusqlite::Connection) -> Self {
        Self(Engine::Sqlite(connection))
    }
}

/// Rows fetched per round trip by [`Connection::scan`].
const SCANNED_AT_ONCE: usize = 1_000;

impl Connection {
    /// Connects to PostgreSQL. The schema of the URL need not exist yet.
    pub fn postgres(url: &PostgresUrl) -> Result<Self> {
        Session::connect(url).map(Box::new).map(Engine::Postgres).map(Self)
    }

    /// The underlying SQLite connection, for SQLite-only features.
    pub fn sqlite(&self) -> Option<&rusqlite::Connection> {
        match &self.0 {
            Engine::Sqlite(connection) => Some(connection),
            Engine::Postgres(_) => None,
        }
    }

    pub fn is_postgres(&self) -> bool {
        matches!(self.0, Engine::Postgres(_))
    }

    /// Waits for the database lock of this name and holds it across transactions until [`Self::unlock`]. A connection
    /// lost meanwhile is not replaced: every statement fails. SQLite has no such lock.
    pub fn lock(&self, name: &str) -> Result<()> {
        self.session().map_or(Ok(()), |session| session.lock_beyond(name))
    }

    /// Releases the lock taken by [`Self::lock`].
    pub fn unlock(&self) -> Result<()> {
        self.session().map_or(Ok(()), Session::unlock)
    }

    pub(crate) fn session(&self) -> Option<&Session> {
        match &self.0 {
            Engine::Sqlite(_) => None,
            Engine::Postgres(session) => Some(session),
        }
    }

    /// Prepares a statement and caches it.
    pub fn prepare(&self, sql: &str) -> Result<Statement<'_>> {
        match &self.0 {
            Engine::Sqlite(connection) => Ok(Statement::of_sqlite(connection.prepare_cached(sql)?)),
            Engine::Postgres(session) => Statement::of_postgres(session, sql),
        }
    }

    pub fn query_row<T>(
        &self,
        sql: &str,
        values: impl Parameters,
        map: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.prepare(sql)?.query_row(values, map)
    }

    /// Returns the number of rows changed.
    pub fn execute(&self, sql: &str, values: impl Parameters) -> Result<usize> {
        self.prepare(sql)?.execute(values)
    }

    /// Runs several statements in the engine's own dialect.
    pub fn execute_batch(&self, sql: &str) -> Result<()> {
        match &self.0 {
            Engine::Sqlite(connection) => Ok(connection.execute_batch(sql)?),
            Engine::Postgres(session) => session.batch(sql),
        }
    }

    /// Iterates over the rows of a statement without parameters. Only a few are in memory at a time, so it suits whole
    /// tables.
    pub fn scan(&self, sql: &str, mut each: impl FnMut(&Row<'_>) -> Result<()>) -> Result<()> {
        match &self.0 {
            Engine::Sqlite(connection) => {
                let mut statement = connection.prepare(sql)?;
                let mut rows = Rows::of_sqlite(statement.query([])?);
                while let Some(row) = rows.next()? {
                    each(&row)?;
                }
                Ok(())
            }
            Engine::Postgres(session) => {
                // A cursor lives in a transaction.
                let view = self.is_autocommit().then(|| self.view()).transpose()?;
                session.batch(&format!("DECLARE scanned NO SCROLL CURSOR FOR {sql}"))?;
                let gone = fetch_all(session, &mut each);
                let closed = session.batch("CLOSE scanned");
                drop(view);
                gone.and(closed)
            }
        }
    }

    /// Whether no transaction is open.
    pub fn is_autocommit(&self) -> bool {
        match &self.0 {
            Engine::Sqlite(connection) => connection.is_autocommit(),
            Engine::Postgres(session) => !session.is_in_transaction(),
        }
    }

    /// Begins a read-only transaction, which sees one snapshot of the database despite concurrent writes. In a
    /// transaction, it is a part of that.
    pub fn view(&self) -> Result<Transaction<'_>> {
        if !self.is_autocommit() {
            return self.part();
        }
        match &self.0 {
            Engine::Sqlite(connection) => connection.execute_batch("BEGIN")?,
            Engine::Postgres(session) => {
                session.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
            }
        }
        Ok(Transaction::of(self, false))
    }

    /// Begins a write transaction. Only one runs at a time: it waits for others, and fails with [`crate::Fault::Busy`]
    /// after a timeout. A transaction that reads first and writes later could no longer wait. In a write transaction, it
    /// is a part of that, which can be rolled back alone.
    pub fn writing(&self) -> Result<Transaction<'_>> {
        if !self.is_autocommit() {
            return self.part();
        }
        match &self.0 {
            Engine::Sqlite(connection) => connection.execute_batch("BEGIN IMMEDIATE")?,
            Engine::Postgres(session) => session.begin("BEGIN ISOLATION LEVEL READ COMMITTED")?,
        }
        let transaction = Transaction::of(self, false);
        if let Engine::Postgres(session) = &self.0 {
            session.lock()?;
        }
        Ok(transaction)
    }

    fn part(&self) -> Result<Transaction<'_>> {
        self.execute_batch("SAVEPOINT part")?;
        Ok(Transaction::of(self, true))
    }

    fn end(&self, how: &str) -> Result<()> {
        match &self.0 {
            Engine::Sqlite(connection) => Ok(connection.execute_batch(how)?),
            Engine::Postgres(session) => session.end(how),
        }
    }
}

/// Passes on all rows of a cursor.
fn fetch_all(session: &Session, each: &mut dyn FnMut(&Row<'_>) -> Result<()>) -> Result<()> {
    loop {
        let fetched = session.once(&format!("FETCH {SCANNED_AT_ONCE} FROM scanned"))?;
        let is_last = fetched.len() < SCANNED_AT_ONCE;
        let mut rows = Rows::of_postgres(fetched.into_iter().map(Fetched::new).collect());
        while let Some(row) = rows.next()? {
            each(&row)?;
        }
        if is_last {
            return Ok(());
        }
    }
}

/// A transaction, or a part of one. Rolled back unless committed.
#[derive(Debug)]
pub struct Transaction<'c> {
    connection: &'c Connection,
    is_part: bool,
    is_open: bool,
}

impl<'c> Transaction<'c> {
    fn of(connection: &'c Connection, is_part: bool) -> Self {
        Self { connection, is_part, is_open: true }
    }

    pub fn commit(mut self) -> Result<()> {
        self.is_open = false;
        if self.is_part {
            return self.connection.execute_batch("RELEASE part");
        }
        // PostgreSQL treats COMMIT of a failed transaction as ROLLBACK and reports no error.
        let is_postgres = self.connection.is_postgres();
        let done = self.connection.end(if is_postgres { "SELECT 1; COMMIT" } else { "COMMIT" });
        self.is_open = done.is_err();
        done
    }
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // SQLite rolls back some failed transactions itself.
        if !self.is_open || self.connection.is_autocommit() {
            return;
        }
        let _ = match self.is_part {
            true => self.connection.execute_batch("ROLLBACK TO part; RELEASE part"),
            false => self.connection.end("ROLLBACK"),
        };
    }
}
