//! What only SQLite has: files, a write-ahead log, and a check of its own.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rusqlite::OpenFlags;

use crate::{
    connection::Connection,
    error::{Error, Fault, Result},
};

/// How long a process waits for others that write.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Pause between attempts where SQLite itself does not wait.
const PAUSE: Duration = Duration::from_millis(5);

/// Statements that stay prepared: some more than there are.
const STATEMENTS: usize = 128;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// For reading and writing, if that is possible. The file is there.
    Write,
    /// As `Write`, and a file that is not there is made.
    Make,
    /// For reading. With no log beside it, it needs no locks and no files there.
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
            // What is in the log is not in the database yet, and an immutable database has no log.
            let uri = uri(path, if is_log_empty { "?immutable=1" } else { "?mode=ro" });
            let flags = flags | OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            rusqlite::Connection::open_with_flags(uri, flags)?
        }
    };
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection.into())
}

/// Whether the database was opened for reading only, for whatever reason.
pub fn is_read_only(db: &Connection) -> Result<bool> {
    db.sqlite().map_or(Ok(false), |sqlite| Ok(sqlite.is_readonly("main")?))
}

/// Sets what a connection that writes needs: a write-ahead log, references, and that what was committed survives a
/// power failure.
pub fn prepare_for_writing(db: &Connection) -> Result<()> {
    let Some(sqlite) = db.sqlite() else { return Ok(()) };
    write_ahead(sqlite)?;
    sqlite.pragma_update(None, "foreign_keys", true)?;
    Ok(sqlite.pragma_update(None, "synchronous", "FULL")?)
}

/// Switches to a write-ahead log, in which readers and one writer do not wait for each other. SQLite does
/// not wait for other processes here, so we do.
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

/// Frees the pages that a connection keeps. They are read again, mostly from the system's cache, when they are needed.
pub fn release_memory(db: &Connection) -> Result<()> {
    let Some(sqlite) = db.sqlite() else { return Ok(()) };
    Ok(sqlite.execute_batch("PRAGMA shrink_memory")?)
}

/// What SQLite says is wrong with a table and its indexes, or with the whole file; nothing if all is right.
/// PostgreSQL keeps checksums of its pages, and has tools of its own.
pub fn integrity_faults(db: &Connection, table: Option<&str>) -> Result<Vec<String>> {
    let Some(sqlite) = db.sqlite() else { return Ok(Vec::new()) };
    let table = table.map(|table| format!("({table})")).unwrap_or_default();
    let mut statement = sqlite.prepare(&format!("PRAGMA integrity_check{table}"))?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    let lines: Vec<_> = lines.collect::<rusqlite::Result<_>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

/// The path as SQLite takes it with parameters.
fn uri(path: &Path, parameters: &str) -> String {
    let path = path.to_string_lossy();
    let path = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{path}{parameters}")
}
