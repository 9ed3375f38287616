//! Keeps a data folder from other users of the machine: it has the hashes of passwords and keys, and all results.

use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::Path,
};

use super::{FILE, StorageError};

/// Beginnings of names of a server's files. A folder may have others by mistake, which stay as they are.
const OWN: [&str; 2] = [FILE, "profiles"];

/// Rights that the folder must not give: to change it for its group, any for others. The same as in PostgreSQL
/// (`PG_MODE_MASK_GROUP`).
const TOO_OPEN: u32 = 0o027;

/// Creates the folder of a server if absent. An empty folder, of which nobody can have read anything, is closed to
/// others, as `initdb` does. A folder with data is refused if others may read it, as PostgreSQL does: its administrator
/// has to know that passwords may have been read, and a warning in a log is easily overlooked.
pub(super) fn create_folder(folder: &Path) -> Result<(), StorageError> {
    let failed = |source| StorageError::Create { path: folder.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    let mode = fs::metadata(folder).map_err(failed)?.permissions().mode() & 0o777;
    if mode & TOO_OPEN != 0 {
        if fs::read_dir(folder).map_err(failed)?.next().is_some() {
            return Err(StorageError::TooOpen { path: folder.to_owned(), mode });
        }
        fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(failed)?;
    }
    close_files(folder).map_err(failed)
}

/// Takes the rights of others from files of earlier versions, which did not set any.
fn close_files(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if !OWN.iter().any(|own| name.as_encoded_bytes().starts_with(own.as_bytes())) {
            continue;
        }
        let metadata = match entry.metadata() {
            // SQLite may delete its log meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        let mode = metadata.permissions().mode() & 0o7777;
        if metadata.is_symlink() || mode & 0o077 == 0 {
            continue;
        }
        // Files of other users stay: the folder is closed, and the server may not change them.
        if fs::set_permissions(entry.path(), Permissions::from_mode(mode & 0o7700)).is_ok() {
            tracing::warn!("other users could read {}; now they cannot", entry.path().display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").permissions().mode() & 0o777
    }

    #[test]
    fn others_cannot_read_a_folder_of_data() {
        let outer = tempfile::tempdir().expect("a folder");
        let check = |before: u32, has_data: bool, expected: Option<u32>| {
            let folder = outer.path().join(format!("{before:o}{has_data}"));
            fs::create_dir(&folder).expect("made");
            let file = folder.join("server.db");
            if has_data {
                fs::write(&file, "x").expect("written");
                fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("set");
            }
            fs::set_permissions(&folder, Permissions::from_mode(before)).expect("set");
            match (create_folder(&folder), expected) {
                (Ok(()), Some(expected)) => {
                    assert_eq!(mode(&folder), expected);
                    assert!(!has_data || mode(&file) == 0o600, "{:o}", mode(&file));
                }
                (Err(StorageError::TooOpen { mode, .. }), None) => assert_eq!(mode, before),
                (found, _) => panic!("{before:o} {has_data}: {found:?}"),
            }
        };
        check(0o755, false, Some(0o700));
        check(0o755, true, None);
        check(0o770, true, None);
        check(0o701, true, None);
        check(0o750, true, Some(0o750));
        check(0o700, true, Some(0o700));
    }
}
