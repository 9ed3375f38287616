//! A session with a PostgreSQL server: the client, its prepared statements, and its initial settings. A lost session is
//! replaced before the next transaction, or before the next read outside of one.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fmt, thread,
};

use postgres::{
    Client, Row,
    types::{ToSql, Type},
};

use crate::{
    dialect,
    error::{Error, Fault, Result},
    tls,
    url::PostgresUrl,
};

/// Maximum number of cached prepared statements. Some statements contain lists, so their number is unbounded.
const STATEMENTS_MAX: usize = 256;

/// How long a session waits for a lock held by another writer.
const PATIENCE_S: u32 = 30;

pub(crate) struct Session {
    url: PostgresUrl,
    client: RefCell<Option<Client>>,
    /// Keyed by SQLite's text.
    statements: RefCell<HashMap<String, postgres::Statement>>,
    is_in_transaction: Cell<bool>,
    /// Whether a lock is held that would be released with the client.
    holds_lock: Cell<bool>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({:?})", self.url)
    }
}

impl Session {
    pub(crate) fn connect(url: &PostgresUrl) -> Result<Self> {
        let client = RefCell::new(Some(connect(url)?));
        let (statements, is_in_transaction, holds_lock) = Default::default();
        Ok(Self { url: url.clone(), client, statements, is_in_transaction, holds_lock })
    }

    pub(crate) fn url(&self) -> &PostgresUrl {
        &self.url
    }

    pub(crate) fn is_in_transaction(&self) -> bool {
        self.is_in_transaction.get()
    }

    /// Takes a lock that outlives transactions, until [`Self::unlock`]. A client lost meanwhile is not replaced: work
    /// begun under the lock must not continue without it.
    pub(crate) fn lock_beyond(&self, name: &str) -> Result<()> {
        self.once(&format!(
            "SELECT pg_advisory_lock(hashtextextended('{name} ' || current_schema(), 0))::text"
        ))?;
        self.holds_lock.set(true);
        Ok(())
    }

    pub(crate) fn unlock(&self) -> Result<()> {
        let done = self.once("SELECT pg_advisory_unlock_all()::text").map(drop);
        self.holds_lock.set(false);
        done
    }

    pub(crate) fn is_prepared(&self, sql: &str) -> bool {
        self.statements.borrow().contains_key(sql)
    }

    pub(crate) fn prepare(&self, sql: &str) -> Result<()> {
        self.again_if_lost(true, |client| self.prepared(client, sql).map(drop))
    }

    /// The types of a statement's parameters.
    pub(crate) fn types(&self, sql: &str) -> Result<Vec<Type>> {
        self.again_if_lost(true, |client| Ok(self.prepared(client, sql)?.params().to_vec()))
    }

    pub(crate) fn query(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        self.again_if_lost(sql.trim_start().starts_with("SELECT"), |client| {
            let statement = self.prepared(client, sql)?;
            Ok(client.query(&statement, values)?)
        })
    }

    /// Returns the number of rows changed.
    pub(crate) fn execute(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<u64> {
        self.again_if_lost(false, |client| {
            let statement = self.prepared(client, sql)?;
            Ok(client.execute(&statement, values)?)
        })
    }

    /// Runs statements untranslated and without parameters.
    pub(crate) fn batch(&self, sql: &str) -> Result<()> {
        self.again_if_lost(false, |client| Ok(client.batch_execute(sql)?))
    }

    /// Runs a statement in PostgreSQL's dialect without caching it.
    pub(crate) fn once(&self, sql: &str) -> Result<Vec<Row>> {
        self.again_if_lost(sql.starts_with("SELECT"), |client| Ok(client.query(sql, &[])?))
    }

    pub(crate) fn begin(&self, how: &str) -> Result<()> {
        if self.is_in_transaction.get() {
            return Err(Error::value("a transaction is open already"));
        }
        self.again_if_lost(true, |client| Ok(client.batch_execute(how)?))?;
        self.is_in_transaction.set(true);
        Ok(())
    }

    /// Ends a transaction. A lost client is not replaced first: a new one would commit nothing and report success.
    pub(crate) fn end(&self, how: &str) -> Result<()> {
        let done = self.batch(how);
        if done.is_err() {
            let _ = self.batch("ROLLBACK");
        }
        self.is_in_transaction.set(false);
        done
    }

    /// Takes the schema's write lock until the transaction ends. Fails on a replica, where nobody can write.
    pub(crate) fn lock(&self) -> Result<()> {
        let url = &self.url;
        let sql = format!(
            "SELECT current_setting('transaction_read_only')::boolean, \
             pg_advisory_xact_lock(hashtextextended('wingbeat {}', 0))::text",
            url.schema()
        );
        let rows = self.once(&sql)?;
        match rows.first().map(|row| row.try_get(0)).transpose()? {
            Some(false) => Ok(()),
            _ => {
                let what = format!("{url} is a replica, or is set to be read only");
                Err(Error::Server { fault: Fault::ReadOnly, what })
            }
        }
    }

    fn prepared(&self, client: &mut Client, sql: &str) -> Result<postgres::Statement> {
        if let Some(known) = self.statements.borrow().get(sql) {
            return Ok(known.clone());
        }
        let statement = client.prepare(&dialect::postgres(sql))?;
        let mut statements = self.statements.borrow_mut();
        if statements.len() >= STATEMENTS_MAX {
            statements.clear();
        }
        statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Runs an operation, and retries it once with a new client if the connection was lost outside a transaction.
    fn again_if_lost<T>(
        &self,
        may_repeat: bool,
        mut job: impl FnMut(&mut Client) -> Result<T>,
    ) -> Result<T> {
        let mut client = self.client.borrow_mut();
        let is_closed = client.as_ref().is_none_or(Client::is_closed);
        let may_renew = !self.is_in_transaction.get() && !self.holds_lock.get();
        if is_closed && may_renew {
            self.renew(&mut client)?;
        }
        let Some(connected) = client.as_mut() else { return Err(lost(&self.url)) };
        let done = job(connected);
        let is_lost = matches!(&done, Err(error) if error.fault() == Fault::Lost);
        if !is_lost || !may_renew || !may_repeat || is_closed {
            return done;
        }
        self.renew(&mut client)?;
        client.as_mut().map_or_else(|| Err(lost(&self.url)), job)
    }

    fn renew(&self, client: &mut Option<Client>) -> Result<()> {
        self.statements.borrow_mut().clear();
        close(client.take());
        *client = Some(connect(&self.url)?);
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.statements.get_mut().clear();
        close(self.client.get_mut().take());
    }
}

/// Closes a client. Its own runtime must not be dropped inside another one.
fn close(client: Option<Client>) {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => drop(thread::spawn(|| drop(client))),
        Err(_) => drop(client),
    }
}

fn lost(url: &PostgresUrl) -> Error {
    let what = format!("the connection to {url} was lost in the middle of a transaction");
    Error::Server { fault: Fault::Lost, what }
}

fn connect(url: &PostgresUrl) -> Result<Client> {
    let mut client = url.config().connect(tls::connector(url)?)?;
    let version =
        client.query_one("SELECT current_setting('server_version_num')::integer / 10000", &[])?;
    let version: i32 = version.try_get(0)?;
    if version < PostgresUrl::SERVER_MIN as i32 {
        let what = format!(
            "{url} is PostgreSQL {version}, and {} is the oldest that is supported",
            PostgresUrl::SERVER_MIN
        );
        return Err(Error::Server { fault: Fault::TooOld, what });
    }
    // No JIT: statements are short and tables have many partitions. Compiling one took 0.8 s of 0.85 s.
    // `synchronous_commit` keeps the server's setting: on, unless its owner changed it.
    client.batch_execute(&format!(
        "SET search_path TO \"{}\"; SET lock_timeout TO '{PATIENCE_S}s'; SET client_min_messages TO warning; \
         SET tcp_keepalives_idle TO 30; SET tcp_keepalives_interval TO 10; SET tcp_keepalives_count TO 3; \
         SET jit TO off; SET extra_float_digits TO 1; SET TimeZone TO 'UTC'",
        url.schema()
    ))?;
    Ok(client)
}
