//! Copies a store to another, on either engine, and verifies that it is complete.
//!
//! Existing documents are skipped, so an interrupted copy can be resumed by repeating it. Documents are copied in order
//! of measurement, a few per transaction.

use std::path::PathBuf;

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use wingbeat_sql::{Connection, Error};

use super::{
    Document, Entry, Store, StoreError,
    batch::Batch,
    document::{Counts, Kind},
    entries,
    error::{detail, is_damage},
    prepare,
    tables::is_known,
};

/// Result of a copy, after verifying that every document of the source is identical in the target.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Copied {
    /// Documents of the source, all of which are in the target now.
    #[serde(flatten)]
    pub documents: Counts,
    /// How many of them were already in the target.
    pub already_there: usize,
    /// Documents of the target that the source does not have.
    pub others: u64,
    /// SHA-256 of the documents, as lines of an export ordered by time, identical in both stores.
    pub sha256: String,
}

/// Documents compared between two reports of the progress.
const COMPARED_AT_ONCE: usize = 64;

/// Progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Number of documents in the target, and the total.
    Copied(usize, usize),
    /// Number of documents compared, and the total.
    Compared(usize, usize),
}

/// Why a store was not copied, or differs. What was copied until then is kept, and repeating the copy resumes it.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{source} is damaged ({what}), so it was not copied: `wingbeat log --check --store {source}` lists what is, \
             and `wingbeat export` saves the rest", source = .path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("the {what} cannot be stored in {}: {why}", .path.display())]
    Contradiction { path: PathBuf, what: String, why: String },
    #[error("the {what} is not the same in {} and in {}: one of them has another content under this UUID", .from.display(), .to.display())]
    Differs { from: PathBuf, to: PathBuf, what: String },
}

impl Store {
    /// Copies everything to another store, and compares each document with the result.
    pub fn copy_to(
        &self,
        to: &Self,
        mut progress: impl FnMut(Progress),
    ) -> Result<Copied, CopyError> {
        let wrap = self.error("copying it");
        // A consistent view of the source despite concurrent writes.
        let view = self.connection.view().map_err(&wrap)?;
        let (entries, damaged) = entries::all(&view).map_err(&wrap)?;
        if let Some(damaged) = damaged.into_iter().next() {
            return Err(CopyError::Damaged { path: self.path.clone(), what: damaged.what });
        }
        let mut copied = Copied::default();
        let mut batch = Batch::new();
        for (at, entry) in entries.iter().enumerate() {
            *copied.documents.of(entry.at.kind) += 1;
            let is_last = at + 1 == entries.len();
            let is_full = if to.has(*entry)? {
                copied.already_there += 1;
                false
            } else {
                batch.add(*entry, self.document(&view, *entry)?)
            };
            if is_full || is_last {
                to.store_batch(&mut batch)?;
                progress(Progress::Copied(at + 1, entries.len()));
            }
        }
        copied.sha256 = self.compare(&view, to, &entries, progress)?;
        let there = entries::counts(&to.connection).map_err(to.error("comparing it"))?;
        copied.others = there.all().saturating_sub(entries.len()) as u64;
        Ok(copied)
    }

    /// Reads all documents again from both stores, and returns their common SHA-256.
    fn compare(
        &self,
        view: &Connection,
        to: &Self,
        entries: &[Entry],
        mut progress: impl FnMut(Progress),
    ) -> Result<String, CopyError> {
        let other = to.connection.view().map_err(to.error("comparing it"))?;
        let mut sum = Sha256::new();
        for (at, entry) in entries.iter().enumerate() {
            let line = |store: &Self, db: &Connection, entry: Entry| -> Result<_, CopyError> {
                let document = store.document(db, entry)?;
                let line = document.line().map_err(Error::value);
                Ok(line.map_err(store.error("comparing it"))?)
            };
            let (mine, theirs) = (line(self, view, *entry)?, line(to, &other, to.own(*entry)?)?);
            if mine != theirs {
                return Err(CopyError::Differs {
                    from: self.path.clone(),
                    to: to.path.clone(),
                    what: entry.to_string(),
                });
            }
            sum.update(mine.as_bytes());
            sum.update(b"\n");
            if (at + 1) % COMPARED_AT_ONCE == 0 || at + 1 == entries.len() {
                progress(Progress::Compared(at + 1, entries.len()));
            }
        }
        Ok(sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn document(&self, db: &Connection, entry: Entry) -> Result<Document, CopyError> {
        entries::document(db, entry).map_err(|error| match is_damage(&error) {
            true => CopyError::Damaged {
                path: self.path.clone(),
                what: format!("{entry}: {}", detail(&error)),
            },
            false => self.error("reading it")(error).into(),
        })
    }

    /// The same document's entry in this store.
    fn own(&self, entry: Entry) -> Result<Entry, StoreError> {
        if entry.at.kind != Kind::Report {
            return Ok(entry);
        }
        let sql = "SELECT id FROM report WHERE uuid = ?1";
        let row = prepare(&self.connection, sql)
            .and_then(|mut statement| statement.query_row([entry.uuid], |row| row.get(0)));
        Ok(Entry::of(Kind::Report, row.map_err(self.error("comparing it"))?, entry.uuid))
    }

    fn has(&self, entry: Entry) -> Result<bool, StoreError> {
        is_known(&self.connection, entry.at.kind, entry.uuid)
            .map_err(self.error("looking what is there"))
    }

    /// Stores a batch in one transaction.
    fn store_batch(&self, batch: &mut Batch<Entry>) -> Result<(), CopyError> {
        let mut refused = None;
        let each = |entry: Entry, _: &Document, outcome| {
            if let Err(invalid) = outcome {
                refused.get_or_insert((entry, invalid));
            }
        };
        batch.store(&self.connection, each).map_err(self.error("copying into it"))?;
        match refused {
            None => Ok(()),
            Some((entry, invalid)) => Err(CopyError::Contradiction {
                path: self.path.clone(),
                what: entry.to_string(),
                why: invalid.reason,
            }),
        }
    }
}
