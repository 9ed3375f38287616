//! A connection, and its transactions.

use std::ops::Deref;

use crate::{
    error::Result,
    parameters::Parameters,
    remote::session::Session,
    rows::{Fetched, Row, Rows},
    statement::Statement,
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

/// Rows that [`Connection::scan`] fetches at once.
const SCANNED_AT_ONCE: usize = 1_000;

impl Connection {
    /// Connects to PostgreSQL. The schema of the URL may not be there yet.
    pub fn postgres(url: &PostgresUrl) -> Result<Self> {
        Session::connect(url).map(Box::new).map(Engine::Postgres).map(Self)
    }

    /// SQLite's own connection, for what only SQLite has.
    pub fn sqlite(&self) -> Option<&rusqlite::Connection> {
        match &self.0 {
            Engine::Sqlite(connection) => Some(connection),
            Engine::Postgres(_) => None,
        }
    }

    pub fn is_postgres(&self) -> bool {
        matches!(self.0, Engine::Postgres(_))
    }

    /// Waits for a lock of the database by this name, and holds it until [`Self::unlock`], also beyond transactions. A
    /// connection that is lost meanwhile is not replaced, and each statement fails. A file of SQLite has no such lock.
    pub fn lock(&self, name: &str) -> Result<()> {
        self.session().map_or(Ok(()), |session| session.lock_beyond(name))
    }

    /// Lets go of what [`Self::lock`] holds.
    pub fn unlock(&self) -> Result<()> {
        self.session().map_or(Ok(()), Session::unlock)
    }

    pub(crate) fn session(&self) -> Option<&Session> {
        match &self.0 {
            Engine::Sqlite(_) => None,
            Engine::Postgres(session) => Some(session),
        }
    }

    /// A statement, which stays prepared for the next time.
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

    /// How many rows were changed.
    pub fn execute(&self, sql: &str, values: impl Parameters) -> Result<usize> {
        self.prepare(sql)?.execute(values)
    }

    /// Several statements, in the words of the engine.
    pub fn execute_batch(&self, sql: &str) -> Result<()> {
        match &self.0 {
            Engine::Sqlite(connection) => Ok(connection.execute_batch(sql)?),
            Engine::Postgres(session) => session.batch(sql),
        }
    }

    /// Goes through the rows of a statement without values, which may be those of a whole table: few of them are in
    /// memory.
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

    /// A transaction that only reads, and sees one state of the database also if somebody writes meanwhile.
    pub fn view(&self) -> Result<Transaction<'_>> {
        match &self.0 {
            Engine::Sqlite(connection) => connection.execute_batch("BEGIN")?,
            Engine::Postgres(session) => {
                session.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
            }
        }
        Ok(Transaction { connection: self })
    }

    /// A transaction that writes, the only one at a time: it waits for others, and fails as [`crate::Fault::Busy`]
    /// when that takes too long. One that reads first and writes later could not wait any more.
    pub fn writing(&self) -> Result<Transaction<'_>> {
        match &self.0 {
            Engine::Sqlite(connection) => connection.execute_batch("BEGIN IMMEDIATE")?,
            Engine::Postgres(session) => session.begin("BEGIN ISOLATION LEVEL READ COMMITTED")?,
        }
        let transaction = Transaction { connection: self };
        if let Engine::Postgres(session) = &self.0 {
            session.lock()?;
        }
        Ok(transaction)
    }

    /// Has references to rows that are not there yet looked at when the transaction ends.
    pub fn defer_references(&self) -> Result<()> {
        match &self.0 {
            Engine::Sqlite(connection) => {
                Ok(connection.pragma_update(None, "defer_foreign_keys", true)?)
            }
            Engine::Postgres(session) => session.batch("SET CONSTRAINTS ALL DEFERRED"),
        }
    }

    fn end(&self, how: &str) -> Result<()> {
        match &self.0 {
            Engine::Sqlite(connection) => Ok(connection.execute_batch(how)?),
            Engine::Postgres(session) => session.end(how),
        }
    }
}

/// Hands on all rows of a cursor.
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

/// A transaction. What it did is undone unless it is committed.
#[derive(Debug)]
pub struct Transaction<'c> {
    connection: &'c Connection,
}

impl Transaction<'_> {
    pub fn commit(self) -> Result<()> {
        // PostgreSQL would take the end of a transaction that has failed for a wish to undo it.
        let is_postgres = self.connection.is_postgres();
        self.connection.end(if is_postgres { "SELECT 1; COMMIT" } else { "COMMIT" })
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
        // SQLite ends some transactions itself when they fail.
        if !self.connection.is_autocommit() {
            let _ = self.connection.end("ROLLBACK");
        }
    }
}
