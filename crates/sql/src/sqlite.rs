//! SQLite-only features: files, the write-ahead log, and the integrity check.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{OpenFlags, config::DbConfig};

use crate::{
    connection::Connection,
    error::{Error, Fault, Result},
};

/// How long a process waits for other writers.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Pause between attempts where SQLite itself does not wait.
const PAUSE: Duration = Duration::from_millis(5);

/// Maximum number of cached statements, somewhat more than exist.
const STATEMENTS: usize = 128;

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// For reading and writing, if possible. The file exists.
    Write,
    /// Like `Write`, but creates a missing file.
    Make,
    /// For reading only. If the log is empty, no locks and no files next to the database are needed.
    Read { is_log_empty: bool },
}

/// Opens a file.
pub fn open(path: &Path, mode: Mode) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let write = flags | OpenFlags::SQLITE_OPEN_READ_WRITE;
    let connection = match mode {
        Mode::Write => rusqlite::Connection::open_with_flags(path, write)?,
        Mode::Make => {
            rusqlite::Connection::open_with_flags(path, write | OpenFlags::SQLITE_OPEN_CREATE)?
        }
        Mode::Read { is_log_empty } => {
            // An immutable database has no log, so the contents of a non-empty one would be missed.
            let uri = uri(path, if is_log_empty { "?immutable=1" } else { "?mode=ro" });
            let flags = flags | OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            rusqlite::Connection::open_with_flags(uri, flags)?
        }
    };
    connection.busy_timeout(PATIENCE)?;
    // Otherwise many statements are planned anew for each value that they are run with.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection.into())
}

/// Whether the database is open read-only, for any reason.
pub fn is_read_only(db: &Connection) -> Result<bool> {
    db.sqlite().map_or(Ok(false), |sqlite| Ok(sqlite.is_readonly("main")?))
}

/// Configures a write connection: a write-ahead log, foreign keys, and commits that survive a power failure.
pub fn prepare_for_writing(db: &Connection) -> Result<()> {
    let Some(sqlite) = db.sqlite() else { return Ok(()) };
    write_ahead(sqlite)?;
    sqlite.pragma_update(None, "foreign_keys", true)?;
    Ok(sqlite.pragma_update(None, "synchronous", "FULL")?)
}

/// Switches to a write-ahead log, in which readers and one writer do not block each other. SQLite does not wait for
/// other processes here, so this function does.
fn write_ahead(connection: &rusqlite::Connection) -> Result<()> {
    let begin = Instant::now();
    loop {
        let switched = connection.pragma_update(None, "journal_mode", "WAL").map_err(Error::from);
        match &switched {
            Err(error) if error.fault() == Fault::Busy && begin.elapsed() < PATIENCE => {
                thread::sleep(PAUSE);
            }
            _ => return switched,
        }
    }
}

/// Frees a connection's page cache. Pages are read again when needed, mostly from the system's cache.
pub fn release_memory(db: &Connection) -> Result<()> {
    let Some(sqlite) = db.sqlite() else { return Ok(()) };
    Ok(sqlite.execute_batch("PRAGMA shrink_memory")?)
}

/// Faults that SQLite finds in a table and its indexes, or in the whole file with its references. Empty if there are
/// none. PostgreSQL has page checksums and tools of its own.
pub fn integrity_faults(db: &Connection, table: Option<&str>) -> Result<Vec<String>> {
    let Some(sqlite) = db.sqlite() else { return Ok(Vec::new()) };
    let of_table = table.map(|table| format!("({table})")).unwrap_or_default();
    let mut statement = sqlite.prepare(&format!("PRAGMA integrity_check{of_table}"))?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut faults: Vec<_> = lines.collect::<rusqlite::Result<_>>()?;
    faults.retain(|line| line != "ok");
    if table.is_none() {
        let dangling =
            "SELECT \"table\", \"parent\", count(*) FROM pragma_foreign_key_check GROUP BY 1, 2";
        let mut statement = sqlite.prepare(dangling)?;
        let lines = statement.query_map([], |row| {
            let (table, parent): (String, String) = (row.get(0)?, row.get(1)?);
            let rows: i64 = row.get(2)?;
            Ok(format!("{rows} of the rows of {table} refer to rows of {parent} that are missing"))
        })?;
        faults.extend(lines.collect::<rusqlite::Result<Vec<_>>>()?);
    }
    Ok(faults)
}

/// The path as an SQLite URI with parameters.
fn uri(path: &Path, parameters: &str) -> String {
    let path = path.to_string_lossy();
    let path = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{path}{parameters}")
}
