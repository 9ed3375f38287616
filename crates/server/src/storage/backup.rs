//! Consistent backup of a database while a server writes.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{anyhow, ensure};
use rusqlite::{Connection, OpenFlags, backup::Backup};

use super::FILE;

/// How long to wait for a write in progress.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pages copied per step.
const PAGES: i32 = 4096;

/// Copies the database in `data` to a new file, which gets its name only when it is complete and synced to disk. Returns
/// its size in bytes. An error leaves existing files unchanged.
pub fn back_up(data: &Path, to: &Path) -> anyhow::Result<u64> {
    let shown = to.display();
    ensure!(!to.exists(), "{shown} is there already: name a file that does not exist");
    let path = data.join(FILE);
    ensure!(
        path.is_file(),
        "there is no {} to back up: name the server's folder with --data",
        path.display()
    );
    let partial = partial(to);
    let written = copy(&path, &partial).and_then(|bytes| {
        // Unlike a rename, a link replaces nothing that has appeared there meanwhile. Not every file system has links.
        let named = fs::hard_link(&partial, to).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Err(error),
            _ => fs::rename(&partial, to),
        });
        named.map_err(not_written(to))?;
        File::open(parent(to)).and_then(|folder| folder.sync_all()).map_err(not_written(to))?;
        Ok(bytes)
    });
    // A leftover has a name that identifies it.
    let _ = fs::remove_file(&partial);
    written
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

fn copy(from: &Path, to: &Path) -> anyhow::Result<u64> {
    let mut options = OpenOptions::new();
    let file = options.create_new(true).write(true).mode(0o600).open(to);
    let file = file.map_err(not_written(to))?;
    let copy = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let source = Connection::open_with_flags(from, flags)?;
        source.busy_timeout(PATIENCE)?;
        // A read transaction fixes the moment; without one, each write would begin the copy anew.
        source.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema;")?;
        let mut copy = Connection::open(to)?;
        Backup::new(&source, &mut copy)?.run_to_completion(PAGES, Duration::ZERO, None)?;
        // A single file, without a log next to it.
        copy.pragma_update(None, "journal_mode", "DELETE")?;
        copy.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
    };
    let (from, shown) = (from.display(), to.display());
    let found = copy().map_err(|error: rusqlite::Error| {
        anyhow!("backing up {from} to {shown} failed: {error}")
    })?;
    ensure!(
        found == "ok",
        "the copy of {from} is damaged, and so is probably the original: {found}"
    );
    file.sync_all().map_err(not_written(to))?;
    Ok(file.metadata().map_err(not_written(to))?.len())
}

fn not_written(path: &Path) -> impl Fn(io::Error) -> anyhow::Error {
    move |error| anyhow!("cannot write the backup {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use super::*;

    fn database(path: &Path) -> Connection {
        let connection = Connection::open(path).expect("made");
        connection.busy_timeout(PATIENCE).expect("set");
        connection.pragma_update(None, "journal_mode", "WAL").expect("set");
        let tables =
            "CREATE TABLE first (n INTEGER, padding BLOB); CREATE TABLE second (n INTEGER)";
        connection.execute_batch(tables).expect("made");
        connection
    }

    #[test]
    fn a_backup_is_of_one_moment() {
        let folder = tempfile::tempdir().expect("a folder");
        let server = database(&folder.path().join(FILE));
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let is_done = &is_done;
            scope.spawn(move || {
                for n in 1.. {
                    let sql = format!(
                        "BEGIN; INSERT INTO first VALUES ({n}, zeroblob(20000));
                         INSERT INTO second VALUES ({n}); COMMIT"
                    );
                    server.execute_batch(&sql).expect("written");
                    if is_done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let mut last = 0;
            for attempt in 0..20 {
                let to = folder.path().join(format!("backup-{attempt}.db"));
                let bytes = back_up(folder.path(), &to).expect("backed up");
                assert_eq!(bytes, fs::metadata(&to).expect("a file").len());
                let copy = Connection::open(&to).expect("opened");
                let newest = |table: &str| {
                    let sql = format!("SELECT coalesce(max(n), 0) FROM {table}");
                    copy.query_row(&sql, [], |row| row.get::<_, i64>(0)).expect("read")
                };
                assert_eq!(newest("first"), newest("second"));
                assert!(newest("first") >= last);
                last = newest("first");
            }
            is_done.store(true, Ordering::Relaxed);
            assert!(last > 1, "nothing was written meanwhile");
        });
    }

    #[test]
    fn there_is_a_whole_backup_or_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let to = folder.path().join("backup.db");
        let check = |expected: &str| {
            let error = back_up(folder.path(), &to).expect_err("refused").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("there is no");
        let text = "this is not a database, and it is long enough to show it";
        fs::write(folder.path().join(FILE), text).expect("written");
        check("failed");
        let names =
            || fs::read_dir(folder.path()).expect("a folder").flatten().map(|it| it.file_name());
        assert!(
            !names().any(|name| name.to_string_lossy().contains("backup")),
            "{:?}",
            Vec::from_iter(names())
        );
        fs::write(&to, "there").expect("written");
        check("already");
        assert_eq!(fs::read_to_string(&to).expect("a file"), "there");
    }
}
