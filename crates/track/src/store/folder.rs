//! A folder of documents: one file each, only ever added. Folders of several stores can be merged in any way, and
//! imported into a store.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    path::Path,
};

use time::{OffsetDateTime, UtcOffset};
use uuid::Uuid;

use super::{
    ExchangeError, Exported, Imported, Skipped, Store,
    batch::Batch,
    document::{Document, Kind, Lines, NO_DOCUMENT, reason, unpacked},
    exchange::{io_error, new_file},
    tables::is_known,
};

impl Kind {
    fn suffix(self) -> &'static str {
        match self {
            Self::Report => ".json",
            Self::AlertChange => ".alert.json",
            Self::Withdrawal => ".withdrawal.json",
            Self::Profile => ".profile.json",
        }
    }
}

impl Store {
    /// Exports everything without a file to a folder, which is created if missing. Existing files are not changed.
    /// Damaged documents are skipped and listed.
    pub fn export(&self, folder: impl AsRef<Path>) -> Result<Exported, ExchangeError> {
        let folder = folder.as_ref();
        fs::create_dir_all(folder).map_err(io_error("create the folder", folder))?;
        let known: HashSet<_> = list(folder)?.iter().filter_map(|name| parse_name(name)).collect();
        let exported = self.export_documents(
            |entry| known.contains(&(entry.at.kind, entry.uuid)),
            |document| {
                let name = name(document.kind(), document.time(), document.uuid());
                let path = folder.join(&name);
                write(folder, &name, &document).map_err(io_error("write the file", &path))
            },
        )?;
        // Makes the names durable as well.
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(io_error("finish the folder", folder))?;
        Ok(exported)
    }

    /// Imports the files of a folder. Existing documents are skipped, and the order does not matter. An unusable file
    /// does not stop the others.
    ///
    /// Ignores files that begin with a dot or do not end in `.json`.
    pub fn import(&self, folder: impl AsRef<Path>) -> Result<Imported, ExchangeError> {
        let folder = folder.as_ref();
        let mut names = list(folder)?;
        names.retain(|name| !is_foreign(name));
        names.sort();
        let mut imported = Imported::default();
        let wrap = self.error("importing reports");
        let mut batch = Batch::new();
        let store = |batch: &mut Batch<_>, imported: &mut Imported| {
            batch.store(&self.connection, |path, document, outcome| match outcome {
                Ok(is_new) => imported.count(document.kind(), is_new),
                Err(invalid) => {
                    imported.skipped.push(Skipped { path, reason: invalid.to_string() });
                }
            })
        };
        for name in names {
            let path = folder.join(&name);
            if let Some((kind, uuid)) = parse_name(&name)
                && is_known(&self.connection, kind, uuid).map_err(&wrap)?
            {
                imported.already_there += 1;
                continue;
            }
            match read(&path) {
                Ok(document) => {
                    if batch.add(path, document) {
                        store(&mut batch, &mut imported).map_err(&wrap)?;
                    }
                }
                Err(reason) => imported.skipped.push(Skipped { path, reason }),
            }
        }
        store(&mut batch, &mut imported).map_err(&wrap)?;
        imported.skipped.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(imported)
    }
}

/// The name of a file: `2026-11-21T22-04-32Z-<uuid>.json`. Valid on every file system, and sorts by time.
fn name(kind: Kind, time: OffsetDateTime, uuid: Uuid) -> String {
    let time = time.to_offset(UtcOffset::UTC);
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    let (hour, minute, second) = time.to_hms();
    let suffix = kind.suffix();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}Z-{uuid}{suffix}")
}

/// Parses a name made by [`name`].
fn parse_name(name: &str) -> Option<(Kind, Uuid)> {
    // The suffix of a report is also that of the others, and it is the first.
    let mut kinds = Kind::ALL.into_iter().rev();
    let (kind, rest) = kinds.find_map(|kind| Some((kind, name.strip_suffix(kind.suffix())?)))?;
    let uuid = rest.get(rest.len().checked_sub(36)?..)?;
    Some((kind, Uuid::try_parse(uuid).ok()?))
}

/// Whether a file of that name is probably not ours: notes, git's own files, files being written.
fn is_foreign(name: &str) -> bool {
    name.starts_with('.') || !name.ends_with(Kind::Report.suffix())
}

/// The names in a folder, without those that are not UTF-8, which are not ours.
fn list(folder: &Path) -> Result<Vec<String>, ExchangeError> {
    let list = || -> io::Result<Vec<String>> {
        let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    };
    list().map_err(io_error("read the folder", folder))
}

fn read(path: &Path) -> Result<Document, String> {
    let unreadable = |error| format!("it cannot be read: {error}");
    let mut from = File::open(path).and_then(unpacked).map_err(unreadable)?;
    let mut lines = Lines::of(&mut from);
    let line = lines.next().ok_or("it is empty")?.map_err(|error| reason(&error, 1))?;
    let document = line.document().ok_or(NO_DOCUMENT)?;
    match lines.next() {
        None => Ok(document),
        Some(_) => Err("it has more than one document; import it by its name".to_owned()),
    }
}

/// Writes a new file atomically. Returns `false` if it already exists, unchanged.
fn write(folder: &Path, name: &str, document: &Document) -> io::Result<bool> {
    let mut file = new_file(folder)?;
    let mut buffer = BufWriter::new(&mut file);
    document.write(&mut buffer)?;
    buffer.write_all(b"\n")?;
    buffer.flush()?;
    drop(buffer);
    // Otherwise the name might reach the disk before the content.
    file.as_file().sync_all()?;
    match file.persist_noclobber(folder.join(name)).map_err(|error| error.error) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        written => written.map(|_| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_time_and_a_uuid() {
        let uuid = Uuid::from_u128(0xab);
        let time = OffsetDateTime::from_unix_timestamp(1_795_298_672).expect("a time");
        let text = "00000000-0000-0000-0000-0000000000ab";
        let check = |kind, expected: &str| {
            let name = name(kind, time, uuid);
            assert_eq!(name, expected);
            assert_eq!(parse_name(&name), Some((kind, uuid)));
        };
        check(Kind::Report, &format!("2026-11-21T22-04-32Z-{text}.json"));
        check(Kind::AlertChange, &format!("2026-11-21T22-04-32Z-{text}.alert.json"));
        check(Kind::Withdrawal, &format!("2026-11-21T22-04-32Z-{text}.withdrawal.json"));
        check(Kind::Profile, &format!("2026-11-21T22-04-32Z-{text}.profile.json"));
        for other in
            ["", "a.json", ".json", "README.md", "ö00000000-0000-0000-0000-0000000000a.json"]
        {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }
}
