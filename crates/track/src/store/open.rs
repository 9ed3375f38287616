//! Opening: what lies at the path is looked at before anything is written, and then brought to the
//! present version.

use std::{
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{
    Store, StoreError,
    error::{OPENING, PATIENCE},
    migrations::{self, Identity, VERSION},
    place,
};

/// Pause between attempts where SQLite itself does not wait.
const PAUSE: Duration = Duration::from_millis(5);

/// Statements that stay prepared: some more than there are.
const STATEMENTS: usize = 64;

impl Store {
    /// Opens the store at `path` for reading and writing; makes it if there is none, with its folder. A
    /// folder `.wingbeat` gets a `.gitignore` that keeps it out of the repository.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref().to_owned();
        place::create(&path).map_err(|source| StoreError::Create { path: path.clone(), source })?;
        let store = Self::connect(path)?;
        if store.is_read_only()? {
            return Err(StoreError::ReadOnly { path: store.path, doing: OPENING });
        }
        let store = store.prepare_for_writing()?;
        store.take_census()?;
        Ok(store)
    }

    /// Opens a store that is there. One that cannot be written is opened for reading.
    pub fn open_existing(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let store = Self::open_to_save(path)?;
        store.take_census()?;
        Ok(store)
    }

    /// Opens a store that is there and may be damaged, to check it or to export what is whole. Its lists
    /// are not to be relied upon.
    pub fn open_to_save(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref().to_owned();
        if !path.exists() {
            return Err(StoreError::Missing { path });
        }
        let store = Self::connect(path.clone())?;
        if !store.is_read_only()? {
            match store.prepare_for_writing() {
                // The file can be written, and its folder cannot.
                Err(StoreError::ReadOnly { .. }) => {}
                opened => return opened,
            }
        }
        Self::connect_read_only(path)
    }

    /// A connection to a database that is no folder; nothing in it has been looked at.
    fn connect(path: PathBuf) -> Result<Self, StoreError> {
        if path.is_dir() {
            return Err(StoreError::NotAStore { path, found: "it is a folder".to_owned() });
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Self::connect_with(path.clone(), &path, flags)
    }

    /// A connection that needs no locks and no files beside the database, if there are no such files.
    fn connect_read_only(path: PathBuf) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let mut log = path.clone().into_os_string();
        log.push("-wal");
        // What is in the log is not in the database yet, and an immutable database has no log.
        let is_complete = std::fs::metadata(log).map_or(true, |log| log.len() == 0);
        let uri = uri(&path, if is_complete { "?immutable=1" } else { "?mode=ro" });
        let store = Self::connect_with(path, Path::new(&uri), flags)?;
        match store.identify()? {
            Identity::Store(version) if version < VERSION => {
                Err(StoreError::OlderReadOnly { path: store.path, found: version, known: VERSION })
            }
            _ => Ok(store),
        }
    }

    fn connect_with(path: PathBuf, name: &Path, flags: OpenFlags) -> Result<Self, StoreError> {
        let connected = Connection::open_with_flags(name, flags).and_then(|connection| {
            connection.busy_timeout(PATIENCE)?;
            connection.set_prepared_statement_cache_capacity(STATEMENTS);
            Ok(connection)
        });
        let connection = connected.map_err(|source| StoreError::of(&path, OPENING, source))?;
        Ok(Self { connection, path })
    }

    fn is_read_only(&self) -> Result<bool, StoreError> {
        self.connection.is_readonly("main").map_err(self.error(OPENING))
    }

    /// What the database is. An error if it is no store that this wingbeat knows.
    fn identify(&self) -> Result<Identity, StoreError> {
        // One view of all that is looked at: another process may be making the store, and between two
        // looks its tables would appear in a database that had no mark.
        let identity = self
            .connection
            .unchecked_transaction()
            .and_then(|view| migrations::identify(&view))
            .map_err(self.error(OPENING))?;
        self.recognize(identity)
    }

    fn recognize(&self, identity: Identity) -> Result<Identity, StoreError> {
        let path = self.path.clone();
        match identity {
            Identity::Store(found) if found > VERSION => {
                Err(StoreError::Newer { path, found, known: VERSION })
            }
            Identity::Foreign => {
                let found = "it is an SQLite database of another program".to_owned();
                Err(StoreError::NotAStore { path, found })
            }
            identity => Ok(identity),
        }
    }

    fn prepare_for_writing(mut self) -> Result<Self, StoreError> {
        self.identify()?;
        let prepared = write_ahead(&self.connection)
            .and_then(|()| self.connection.pragma_update(None, "foreign_keys", true))
            // A report may stand for an hour of measuring, so it is to survive a power failure.
            .and_then(|()| self.connection.pragma_update(None, "synchronous", "FULL"))
            .and_then(|()| migrations::migrate(&mut self.connection));
        let identity = prepared.map_err(self.error(OPENING))?;
        self.recognize(identity)?;
        Ok(self)
    }
}

/// Switches to a write-ahead log, in which readers and one writer do not wait for each other. SQLite does
/// not wait for other processes here, so we do.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let begin = Instant::now();
    loop {
        let switched = connection.pragma_update(None, "journal_mode", "WAL");
        match &switched {
            Err(error) if is_busy(error) && begin.elapsed() < PATIENCE => thread::sleep(PAUSE),
            _ => return switched,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// The path as SQLite takes it with parameters.
fn uri(path: &Path, parameters: &str) -> String {
    let path = path.to_string_lossy();
    let path = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{path}{parameters}")
}
