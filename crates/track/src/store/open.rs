//! Opens a store: inspects what is at the path before writing anything, and then migrates it.

use std::path::{Path, PathBuf};

use wingbeat_sql::{
    Connection, PostgresUrl,
    sqlite::{self, Mode},
    versions::{Identity, identify},
};

use super::{
    Store, StoreError,
    error::OPENING,
    migrations::{APPLICATION, VERSION, migrate},
    place,
};

impl Store {
    /// Opens the store at `path` for reading and writing. Creates it and its folder if missing. A folder `.wingbeat`
    /// gets a `.gitignore` that excludes it from the repository. `path` may also be the URL of a PostgreSQL database
    /// ([`PostgresUrl`]), whose tables are created if missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        if let Some(url) = postgres_url(path.as_ref())? {
            return Self::open_postgres(&url, true);
        }
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

    /// Opens an existing store. One that is not writable is opened read-only.
    pub fn open_existing(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let store = Self::open_to_save(path)?;
        store.take_census()?;
        Ok(store)
    }

    /// Opens an existing store that may be damaged, to check it or to export undamaged documents. Its lists are
    /// unreliable.
    pub fn open_to_save(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        if let Some(url) = postgres_url(path.as_ref())? {
            return Self::open_postgres(&url, false);
        }
        let path = path.as_ref().to_owned();
        if !path.exists() {
            return Err(StoreError::Missing { path });
        }
        let store = Self::connect(path.clone())?;
        if !store.is_read_only()? {
            match store.prepare_for_writing() {
                // The file is writable, but its folder is not.
                Err(StoreError::ReadOnly { .. }) => {}
                opened => return opened,
            }
        }
        Self::connect_read_only(path)
    }

    /// Connects to a database, which must not be a folder. Inspects nothing in it.
    fn connect(path: PathBuf) -> Result<Self, StoreError> {
        if path.is_dir() {
            return Err(StoreError::NotAStore { path, found: "it is a folder".to_owned() });
        }
        Self::connect_with(path, Mode::Write)
    }

    /// Connects without locks and files next to the database, if there are no such files.
    fn connect_read_only(path: PathBuf) -> Result<Self, StoreError> {
        let mut log = path.clone().into_os_string();
        log.push("-wal");
        let is_log_empty = std::fs::metadata(log).map_or(true, |log| log.len() == 0);
        let store = Self::connect_with(path, Mode::Read { is_log_empty })?;
        match store.identify()? {
            Identity::Version(version) if version < VERSION => {
                Err(StoreError::OlderReadOnly { path: store.path, found: version, known: VERSION })
            }
            _ => Ok(store),
        }
    }

    fn connect_with(path: PathBuf, mode: Mode) -> Result<Self, StoreError> {
        let opened = sqlite::open(&path, mode);
        let connection = opened.map_err(|source| StoreError::of(&path, OPENING, source))?;
        Ok(Self { connection, path })
    }

    /// Frees the connection's page cache.
    pub fn release_memory(&self) -> Result<(), StoreError> {
        sqlite::release_memory(&self.connection).map_err(self.error("freeing memory"))
    }

    fn is_read_only(&self) -> Result<bool, StoreError> {
        sqlite::is_read_only(&self.connection).map_err(self.error(OPENING))
    }

    /// Identifies the database. Fails unless it is a store supported by this wingbeat.
    fn identify(&self) -> Result<Identity, StoreError> {
        // A consistent view: if another process is creating the store, its tables could otherwise appear between two
        // queries in a database without a version.
        let identity = self
            .connection
            .view()
            .and_then(|view| identify(&view, APPLICATION))
            .map_err(self.error(OPENING))?;
        self.recognize(identity)
    }

    fn recognize(&self, identity: Identity) -> Result<Identity, StoreError> {
        let path = self.path.clone();
        match identity {
            Identity::Version(found) if found > VERSION => {
                Err(StoreError::Newer { path, found, known: VERSION })
            }
            Identity::Foreign => {
                let found = match self.connection.is_postgres() {
                    true => {
                        "its schema has tables of another program; schema=NAME in the URL names another"
                    }
                    false => "it is an SQLite database of another program",
                };
                Err(StoreError::NotAStore { path, found: found.to_owned() })
            }
            identity => Ok(identity),
        }
    }

    fn prepare_for_writing(self) -> Result<Self, StoreError> {
        self.identify()?;
        sqlite::prepare_for_writing(&self.connection).map_err(self.error(OPENING))?;
        self.migrated()
    }

    fn migrated(self) -> Result<Self, StoreError> {
        let identity = migrate(&self.connection).map_err(self.error(OPENING))?;
        self.recognize(identity)?;
        Ok(self)
    }

    /// Connects to a PostgreSQL server. Creates or migrates its tables, unless they are current: then nothing is
    /// written, and a replica works as well.
    pub fn open_postgres(url: &PostgresUrl, may_make: bool) -> Result<Self, StoreError> {
        let path = PathBuf::from(url.to_string());
        let connected = Connection::postgres(url);
        let connection = connected.map_err(|source| StoreError::of(&path, OPENING, source))?;
        let store = Self { connection, path };
        match store.identify()? {
            Identity::Version(VERSION) => Ok(store),
            Identity::Empty if !may_make => Err(StoreError::Missing { path: store.path }),
            _ => store.migrated(),
        }
    }
}

/// The URL in place of a path, if it is one.
fn postgres_url(path: &Path) -> Result<Option<PostgresUrl>, StoreError> {
    let Some(text) = path.to_str().filter(|text| PostgresUrl::is_meant(text)) else {
        return Ok(None);
    };
    PostgresUrl::parse(text).map(Some).map_err(StoreError::Url)
}
