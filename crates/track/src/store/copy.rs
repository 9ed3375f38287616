//! Copies a store to another, on either engine, and verifies that it is complete.
//!
//! Existing documents are skipped, so an interrupted copy can be resumed by repeating it. Documents are copied in order
//! of measurement, a few per transaction.

use std::path::PathBuf;

use super::prelude::*;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use wingbeat_sql::Fault;

use super::{
    AlertChange, Cursor, Withdrawal,
    check::{Listed, Listing, list_all},
    documents::{Document, Entry, read_document},
    exchange::{BATCH, BATCH_METRICS},
    sums::Total,
};
use crate::model::ProfileInfo;

/// Result of a copy, after verifying that every document of the source is identical in the target.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Copied {
    /// Number of documents of the source by kind, all of which are in the target now.
    pub reports: usize,
    pub alert_changes: usize,
    pub withdrawals: usize,
    pub profiles: usize,
    /// How many of them were already in the target.
    pub already_there: usize,
    /// Documents of the target that the source does not have.
    pub others: u64,
    /// SHA-256 of the documents, as lines of an export ordered by time, identical in both stores.
    pub sha256: String,
}

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
    #[error("the {what} contradicts what is in {}: {why}", .path.display())]
    Contradiction { path: PathBuf, what: String, why: String },
    #[error("the {what} is not the same in {} and in {}: one of them has another content under this UUID", .from.display(), .to.display())]
    Differs { from: PathBuf, to: PathBuf, what: String },
}

impl Store {
    /// Copies everything to another store, and compares each document with the result.
    pub fn copy_to(
        &self,
        to: &mut Self,
        mut progress: impl FnMut(Progress),
    ) -> Result<Copied, CopyError> {
        let wrap = self.error("copying it");
        // A consistent view of the source despite concurrent writes.
        let view = self.connection.view().map_err(&wrap)?;
        let listing = list_all(&view).map_err(&wrap)?;
        if let Some(damaged) = listing.damaged.first() {
            return Err(CopyError::Damaged { path: self.path.clone(), what: damaged.what.clone() });
        }
        let mut copied = Copied {
            reports: listing.reports.len(),
            alert_changes: listing.changes.len(),
            withdrawals: listing.withdrawals.len(),
            profiles: listing.profiles.len(),
            ..Copied::default()
        };
        let entries = entries(listing);
        let mut batch = Vec::new();
        let mut metrics = 0;
        for (at, entry) in entries.iter().enumerate() {
            if to.has(*entry)? {
                copied.already_there += 1;
            } else {
                let document = self.document(&view, *entry)?;
                metrics += document.metrics();
                batch.push(document);
            }
            let is_last = at + 1 == entries.len();
            if batch.len() == BATCH || metrics >= BATCH_METRICS || is_last {
                to.take_batch(std::mem::take(&mut batch))?;
                metrics = 0;
                progress(Progress::Copied(at + 1, entries.len()));
            }
        }
        copied.sha256 = self.compare(&view, to, &entries, progress)?;
        let wrap = to.error("comparing it");
        let (here, there) = (Total::read(&view), Total::read(&to.connection));
        let here = here.map_err(self.error("comparing it"))?.documents();
        copied.others = there.map_err(wrap)?.documents().saturating_sub(here);
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
                    what: named(*entry),
                });
            }
            sum.update(mine.as_bytes());
            sum.update(b"\n");
            if (at + 1) % BATCH == 0 || at + 1 == entries.len() {
                progress(Progress::Compared(at + 1, entries.len()));
            }
        }
        Ok(sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn document(&self, db: &Connection, entry: Entry) -> Result<Document, CopyError> {
        read_document(db, entry).map_err(|error| match is_damage(&error) {
            true => CopyError::Damaged {
                path: self.path.clone(),
                what: format!("{}: {}", named(entry), super::error::detail(&error)),
            },
            false => self.error("reading it")(error).into(),
        })
    }

    /// The same document's entry in this store.
    fn own(&self, entry: Entry) -> Result<Entry, StoreError> {
        let Cursor::Report(_) = entry.at else { return Ok(entry) };
        let sql = "SELECT id FROM report WHERE uuid = ?1";
        let row = prepare(&self.connection, sql)
            .and_then(|mut statement| statement.query_row([Id(entry.uuid)], |row| row.get(0)));
        Ok(Entry { at: Cursor::Report(row.map_err(self.error("comparing it"))?), ..entry })
    }

    fn has(&self, entry: Entry) -> Result<bool, StoreError> {
        let table = match entry.at {
            Cursor::Report(_) => "report",
            Cursor::AlertChange(..) => "alert_change",
            Cursor::Withdrawal(..) => "withdrawal",
            Cursor::Profile(..) => "profile",
        };
        let sql = format!("SELECT 1 FROM {table} WHERE uuid = ?1");
        prepare(&self.connection, &sql)
            .and_then(|mut statement| statement.exists([Id(entry.uuid)]))
            .map_err(self.error("looking what is there"))
    }

    /// Stores documents in one transaction.
    fn take_batch(&mut self, documents: Vec<Document>) -> Result<(), CopyError> {
        if documents.is_empty() {
            return Ok(());
        }
        let wrap = self.error("copying into it");
        let transaction = writing(&self.connection).map_err(&wrap)?;
        for document in documents {
            let (uuid, content) = (document.uuid(), document.into_content());
            content.validate().map_err(StoreError::Invalid)?;
            content.insert(&transaction).map_err(|error| match error.fault() {
                Fault::Contradiction => CopyError::Contradiction {
                    path: self.path.clone(),
                    what: format!("document {uuid}"),
                    why: error.to_string(),
                },
                _ => wrap(error).into(),
            })?;
        }
        Ok(transaction.commit().map_err(&wrap)?)
    }
}

fn named(Entry { at, uuid }: Entry) -> String {
    let kind = match at {
        Cursor::Report(_) => "report",
        Cursor::AlertChange(..) => "change of an alert",
        Cursor::Withdrawal(..) => "withdrawal",
        Cursor::Profile(..) => "profile",
    };
    format!("{kind} {uuid}")
}

/// The entries of all documents: reports first, each kind ordered by time.
fn entries(Listing { reports, changes, withdrawals, profiles, .. }: Listing) -> Vec<Entry> {
    let reports = reports.into_iter().map(|Listed { row, uuid, .. }| (Cursor::Report(row), uuid));
    let changes = changes
        .into_iter()
        .map(|AlertChange { uuid, time, .. }| (Cursor::AlertChange(limit_ns(time), uuid), uuid));
    let withdrawals = withdrawals
        .into_iter()
        .map(|Withdrawal { uuid, time, .. }| (Cursor::Withdrawal(limit_ns(time), uuid), uuid));
    let profiles = profiles
        .into_iter()
        .map(|ProfileInfo { uuid, time, .. }| (Cursor::Profile(limit_ns(time), uuid), uuid));
    let all = reports.chain(changes).chain(withdrawals).chain(profiles);
    all.map(|(at, uuid)| Entry { at, uuid }).collect()
}
