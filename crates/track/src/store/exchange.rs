//! What exports and imports have in common: their results, their errors, and the way from a store to a sink.

use std::{
    fs::Permissions,
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;
use wingbeat_sql::Connection;

use super::{
    Damaged, Entry, Store, StoreError,
    document::{Counts, Document, Kind},
    entries,
    error::is_damage,
};

/// Why an export or an import was aborted. What was done until then is kept.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("{} was not imported, not even in part: {reason}", .path.display())]
    File { path: PathBuf, reason: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exported {
    /// New documents.
    pub documents: Counts,
    /// Documents that already had a file.
    pub already_there: usize,
    /// Damaged documents, which were skipped.
    pub damaged: Vec<Damaged>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imported {
    /// New documents.
    pub documents: Counts,
    /// Files whose content was already in the store.
    pub already_there: usize,
    pub skipped: Vec<Skipped>,
    /// Number of values in another tool's file that a store cannot represent, and descriptions of the first ones.
    pub left_out: usize,
    pub left_out_named: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub path: PathBuf,
    pub reason: String,
}

impl Exported {
    fn count(&mut self, kind: Kind, is_new: bool) {
        *if is_new { self.documents.of(kind) } else { &mut self.already_there } += 1;
    }
}

impl Imported {
    pub(super) fn count(&mut self, kind: Kind, is_new: bool) {
        *if is_new { self.documents.of(kind) } else { &mut self.already_there } += 1;
    }
}

impl Store {
    /// Passes every document to a sink, which returns whether it is new there, except for those that it already has.
    /// Damaged documents are skipped and listed.
    pub(super) fn export_documents(
        &self,
        has: impl Fn(Entry) -> bool,
        mut sink: impl FnMut(Document) -> Result<bool, ExchangeError>,
    ) -> Result<Exported, ExchangeError> {
        let wrap = self.error("reading it for export");
        // A consistent view of the store despite concurrent writes.
        let view = self.connection.view().map_err(&wrap)?;
        let (entries, damaged) = entries::all(&view).map_err(&wrap)?;
        let mut exported = Exported { damaged, ..Exported::default() };
        for entry in entries {
            let is_new = !has(entry)
                && match entries::document(&view, entry) {
                    Ok(document) => sink(document)?,
                    Err(error) if is_damage(&error) => {
                        let report = report_of(&view, entry);
                        exported.damaged.push(Damaged::of(report, &error));
                        continue;
                    }
                    Err(error) => return Err(wrap(error).into()),
                };
            exported.count(entry.at.kind, is_new);
        }
        Ok(exported)
    }
}

/// The report that an entry belongs to, as far as it can be read.
pub(super) fn report_of(db: &Connection, entry: Entry) -> Option<uuid::Uuid> {
    match entry.at.kind {
        Kind::Report => Some(entry.uuid),
        Kind::AlertChange => None,
        Kind::Withdrawal | Kind::Profile => {
            let sql = format!("SELECT report FROM {} WHERE uuid = ?1", entry.at.kind.table());
            db.query_row(&sql, [entry.uuid], |row| row.get(0)).ok()
        }
    }
}

pub(super) fn io_error<'p>(
    doing: &'static str,
    path: &'p Path,
) -> impl FnOnce(io::Error) -> ExchangeError + use<'p> {
    move |source| ExchangeError::Io { doing, path: path.to_owned(), source }
}

const UNFINISHED: &str = ".unfinished-";

/// A temporary file without a final name.
pub(super) fn new_file(folder: &Path) -> io::Result<NamedTempFile> {
    // As for other new files, subject to the umask.
    let permissions = Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(UNFINISHED).permissions(permissions).tempfile_in(folder)
}
