//! Consistent backup of both databases while a server writes.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{anyhow, ensure};
use rusqlite::{Connection, OpenFlags, backup::Backup};

use super::{REGISTRY, RESULTS};

/// How long to wait for a write in progress.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pages copied per step.
const PAGES: i32 = 4096;

/// A snapshot of a database.
struct Snapshot {
    path: PathBuf,
    connection: Connection,
}

/// Copies the databases in `data` to a new folder, which gets its name only when it is complete and synced to disk.
/// Returns its size in bytes. An error leaves existing files unchanged.
pub fn back_up(data: &Path, to: &Path) -> anyhow::Result<u64> {
    let shown = to.display();
    ensure!(!to.exists(), "{shown} is there already: name a folder that does not exist");
    let snapshots = snapshots(data)?;
    let partial = partial(to);
    let written = write(&snapshots, &partial).and_then(|bytes| {
        // Renaming replaces an empty folder, but no other.
        fs::rename(&partial, to).map_err(not_written(to))?;
        File::open(parent(to)).and_then(|folder| folder.sync_all()).map_err(not_written(to))?;
        Ok(bytes)
    });
    if written.is_err() {
        // A leftover has a name that identifies it.
        let _ = fs::remove_dir_all(&partial);
    }
    written
}

/// Consistent snapshots of both databases: both are locked against writes while the snapshots begin.
fn snapshots(data: &Path) -> anyhow::Result<[Snapshot; 2]> {
    let results = Snapshot::open(data.join(RESULTS))?;
    let registry = Snapshot::open(data.join(REGISTRY))?;
    let locks = [results.lock()?, registry.lock()?];
    results.begin()?;
    registry.begin()?;
    // Writes may continue from here.
    drop(locks);
    Ok([results, registry])
}

fn write(snapshots: &[Snapshot], folder: &Path) -> anyhow::Result<u64> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(not_written(folder))?;
    let mut bytes = 0;
    for snapshot in snapshots {
        bytes += snapshot.copy_to(folder)?;
    }
    File::open(folder).and_then(|it| it.sync_all()).map_err(not_written(folder))?;
    Ok(bytes)
}

/// Temporary path of a backup, next to its destination.
fn partial(to: &Path) -> PathBuf {
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(format!(".partial-{}", std::process::id()));
    to.with_file_name(name)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Snapshot {
    fn open(path: PathBuf) -> anyhow::Result<Self> {
        let shown = path.display();
        ensure!(
            path.is_file(),
            "there is no {shown} to back up: name the server's folder with --data"
        );
        let connection = connect(&path)?;
        Ok(Self { path, connection })
    }

    /// A transaction that blocks writers until dropped.
    fn lock(&self) -> anyhow::Result<Connection> {
        let connection = connect(&self.path)?;
        connection.execute_batch("BEGIN IMMEDIATE").map_err(not_copied(&self.path))?;
        Ok(connection)
    }

    /// Starts the read transaction that fixes the snapshot.
    fn begin(&self) -> anyhow::Result<()> {
        let sql = "BEGIN; SELECT count(*) FROM sqlite_schema;";
        self.connection.execute_batch(sql).map_err(not_copied(&self.path))
    }

    fn copy_to(&self, folder: &Path) -> anyhow::Result<u64> {
        let path = folder.join(self.path.file_name().unwrap_or_default());
        let mut options = OpenOptions::new();
        let file = options.create_new(true).write(true).mode(0o600).open(&path);
        let file = file.map_err(not_written(&path))?;
        let copy = || {
            let mut to = Connection::open(&path)?;
            Backup::new(&self.connection, &mut to)?.run_to_completion(
                PAGES,
                Duration::ZERO,
                None,
            )?;
            // A single file, without a log next to it.
            to.pragma_update(None, "journal_mode", "DELETE")?;
            to.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
        };
        let found = copy().map_err(not_copied(&self.path))?;
        let original = self.path.display();
        ensure!(
            found == "ok",
            "the copy of {original} is damaged, and so is probably the original: {found}"
        );
        file.sync_all().map_err(not_written(&path))?;
        Ok(file.metadata().map_err(not_written(&path))?.len())
    }
}

fn not_written(path: &Path) -> impl Fn(io::Error) -> anyhow::Error {
    move |error| anyhow!("cannot write the backup {}: {error}", path.display())
}

fn not_copied(path: &Path) -> impl Fn(rusqlite::Error) -> anyhow::Error {
    move |error| anyhow!("backing up {} failed: {error}", path.display())
}

fn connect(path: &Path) -> anyhow::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connect = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        Ok(connection)
    };
    connect().map_err(not_copied(path))
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use time::OffsetDateTime;
    use uuid::Uuid;
    use wingbeat_track::model::ProjectName;

    use super::*;
    use crate::{
        registry::{NewProject, Visibility},
        settings::DataLocation,
        storage::{Storage, open_registry},
    };

    fn database(path: &Path) -> Connection {
        let connection = Connection::open(path).expect("made");
        connection.busy_timeout(PATIENCE).expect("set");
        connection.pragma_update(None, "journal_mode", "WAL").expect("set");
        connection.execute_batch("CREATE TABLE count (n INTEGER, padding BLOB)").expect("made");
        connection
    }

    fn newest(path: &Path) -> i64 {
        let connection = Connection::open(path).expect("opened");
        let sql = "SELECT coalesce(max(n), 0) FROM count";
        connection.query_row(sql, [], |row| row.get(0)).expect("read")
    }

    #[test]
    fn a_folder_with_half_of_a_backup_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = DataLocation::from(folder.path());
        let registry = open_registry(&place).expect("made");
        drop(Storage::open(&place).expect("there is nothing in it yet"));
        let name = ProjectName::new("project").expect("a name");
        let new = NewProject { name, slug: None, url: None, visibility: Visibility::Public };
        let now = OffsetDateTime::now_utc();
        let project = registry.create_project(&new, now).expect("made");
        let results = folder.path().join(RESULTS);
        fs::remove_file(&results).expect("removed");
        drop(Storage::open(&place).expect("nothing was sent to the project"));
        registry.add_report(Uuid::nil(), project.id, None, now).expect("entered");
        fs::remove_file(&results).expect("removed");
        let error = Storage::open(&place).expect_err("a report is gone");
        assert!(error.to_string().contains("restore both from one backup"), "{error}");
        assert!(!results.exists(), "nothing was made");
    }

    #[test]
    fn both_databases_are_of_one_moment() {
        let folder = tempfile::tempdir().expect("a folder");
        let results = database(&folder.path().join(RESULTS));
        let registry = database(&folder.path().join(REGISTRY));
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let is_done = &is_done;
            scope.spawn(move || {
                // Writes each number to both in order, like the server's steps.
                for n in 1.. {
                    let sql = "INSERT INTO count VALUES (?1, zeroblob(20000))";
                    results.execute(sql, [n]).expect("written");
                    registry.execute(sql, [n]).expect("written");
                    if is_done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let mut last = 0;
            for attempt in 0..20 {
                let to = folder.path().join(format!("backup-{attempt}"));
                let bytes = back_up(folder.path(), &to).expect("backed up");
                assert!(bytes > 0);
                let (ours, theirs) = (newest(&to.join(RESULTS)), newest(&to.join(REGISTRY)));
                assert!(ours == theirs || ours == theirs + 1, "{ours} and {theirs}");
                assert!(ours >= last);
                last = ours;
            }
            is_done.store(true, Ordering::Relaxed);
            assert!(last > 1, "nothing was written meanwhile");
        });
    }

    #[test]
    fn there_is_a_whole_backup_or_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let to = folder.path().join("backup");
        let check = |expected: &str| {
            let error = back_up(folder.path(), &to).expect_err("refused").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("no");
        database(&folder.path().join(RESULTS));
        check("server.db");
        fs::write(
            folder.path().join(REGISTRY),
            "this is not a database, and it is long enough to show it",
        )
        .expect("written");
        check("failed");
        let names =
            || fs::read_dir(folder.path()).expect("a folder").flatten().map(|it| it.file_name());
        assert!(
            !names().any(|name| name.to_string_lossy().contains("backup")),
            "{:?}",
            Vec::from_iter(names())
        );
        fs::create_dir(&to).expect("made");
        check("already");
    }
}
