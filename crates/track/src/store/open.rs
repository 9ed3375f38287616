//! Opens a store: finds its location, inspects what is there before writing anything, and then migrates it.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use wingbeat_sql::{
    Connection, PostgresUrl,
    sqlite::{self, Mode},
    versions::{Identity, identify, migrate},
};

use super::{
    Store, StoreError,
    error::OPENING,
    tables::{APPLICATION, MIGRATIONS, VERSION},
};

const FOLDER: &str = ".wingbeat";

/// The store of a working directory: `.wingbeat/results.db` at the root of its git repository, or in the directory
/// itself outside of a repository.
pub fn default_path(directory: &Path) -> PathBuf {
    // `.git` is a file in a linked worktree and in a submodule.
    let root = directory.ancestors().find(|folder| folder.join(".git").exists());
    root.unwrap_or(directory).join(FOLDER).join("results.db")
}

impl Store {
    /// Opens the store at `path` for reading and writing. Creates it and its folder if missing. A folder `.wingbeat`
    /// gets a `.gitignore` that excludes it from the repository. `path` may also be the URL of a PostgreSQL database
    /// ([`PostgresUrl`]), whose tables are created if missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        if let Some(url) = postgres_url(path.as_ref())? {
            return Self::open_postgres(&url, true);
        }
        let path = path.as_ref().to_owned();
        create(&path).map_err(|source| StoreError::Create { path: path.clone(), source })?;
        let store = Self::connect(path)?;
        if store.is_read_only()? {
            return Err(StoreError::ReadOnly { path: store.path, doing: OPENING });
        }
        store.prepare_for_writing()
    }

    /// Opens an existing store. One that is not writable is opened read-only.
    pub fn open_existing(path: impl AsRef<Path>) -> Result<Self, StoreError> {
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
        let is_log_empty = fs::metadata(log).map_or(true, |log| log.len() == 0);
        let store = Self::connect_with(path, Mode::Read { is_log_empty })?;
        match store.identify()? {
            Identity::Version(found) if found != VERSION => {
                Err(StoreError::OtherVersion { path: store.path, found, known: VERSION })
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
            // Version 0 is from before the first release.
            Identity::Version(found) if !(1..=VERSION).contains(&found) => {
                Err(StoreError::OtherVersion { path, found, known: VERSION })
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
        let identity = self.identify()?;
        sqlite::prepare_for_writing(&self.connection).map_err(self.error(OPENING))?;
        match identity {
            // Waits for no other process that writes.
            Identity::Version(VERSION) => Ok(self),
            _ => self.migrated(),
        }
    }

    fn migrated(self) -> Result<Self, StoreError> {
        let identity = migrate(&self.connection, APPLICATION, &MIGRATIONS);
        let identity = identity.map_err(self.error(OPENING))?;
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

/// Creates the folder of a store and an empty file, if missing.
fn create(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        fs::create_dir_all(folder)?;
        if folder.file_name().is_some_and(|name| name == FOLDER) {
            write_new(&folder.join(".gitignore"), b"*\n")?;
        }
    }
    // Created here, because SQLite's errors are less specific. It treats an empty file as a new database.
    write_new(path, b"")
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    match fs::OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => file.write_all(content),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // A read-only file system reports this even if the file exists.
        Err(_) if path.exists() => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_the_repository_or_the_directory_itself() {
        let temporary = tempfile::tempdir().expect("a folder");
        let root = temporary.path();
        for folder in ["repository/.git", "repository/a/b", "worktree/a", "outside"] {
            fs::create_dir_all(root.join(folder)).expect("a folder");
        }
        fs::write(root.join("worktree/.git"), "gitdir: elsewhere").expect("a file");
        let check = |directory: &str, expected: &str| {
            let expected = root.join(expected).join(".wingbeat/results.db");
            assert_eq!(default_path(&root.join(directory)), expected, "{directory}");
        };
        check("repository", "repository");
        check("repository/a/b", "repository");
        check("worktree/a", "worktree");
        check("outside", "outside");
    }

    #[test]
    fn its_own_folder_is_ignored_by_git_and_others_are_not_touched() {
        let temporary = tempfile::tempdir().expect("a folder");
        let check = |path: &str, is_ignored: bool| {
            let path = temporary.path().join(path);
            create(&path).expect("created");
            let ignore = path.parent().expect("a folder").join(".gitignore");
            assert_eq!(fs::read_to_string(ignore).ok().as_deref() == Some("*\n"), is_ignored);
            assert_eq!(fs::read(&path).expect("a file"), b"");
        };
        check("a/.wingbeat/results.db", true);
        check("b/results.db", false);
    }

    #[test]
    fn what_is_there_stays() {
        let temporary = tempfile::tempdir().expect("a folder");
        let path = temporary.path().join(".wingbeat/results.db");
        create(&path).expect("created");
        fs::write(&path, "content").expect("written");
        fs::write(path.with_file_name(".gitignore"), "mine").expect("written");
        create(&path).expect("there");
        assert_eq!(fs::read(&path).expect("a file"), b"content");
        assert_eq!(fs::read(path.with_file_name(".gitignore")).expect("a file"), b"mine");
    }
}
