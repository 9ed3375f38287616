//! Export and import: one file per report, change of an alert and withdrawal, only ever added. Folders of such files
//! from several places can be merged in any way, and imported into a store.

use std::{
    collections::HashSet,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use super::prelude::*;
use serde::Serialize;
use wingbeat_sql::Fault;

use super::{
    AlertChange, Damaged, Withdrawal,
    check::{Listed, Listing, list_all},
    files::{
        self, ChangeContent, Content, Document, FileKind, ProfileContent, ReportContent,
        WithdrawalContent,
    },
    profiles,
    read::{Alerts, read},
};

/// Maximum number of files stored in one transaction, which blocks other writers.
pub(super) const BATCH: usize = 64;

/// Number of metrics at which a batch is stored, because they are held in memory.
pub(super) const BATCH_METRICS: usize = 4_096;

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
    pub reports: usize,
    pub alert_changes: usize,
    pub withdrawals: usize,
    pub profiles: usize,
    /// Reports, changes, withdrawals and profiles that already had a file.
    pub already_there: usize,
    /// Damaged documents, which were skipped.
    pub damaged: Vec<Damaged>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imported {
    pub reports: usize,
    pub alert_changes: usize,
    pub withdrawals: usize,
    pub profiles: usize,
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

impl Imported {
    pub(super) fn count(&mut self, content: &Content, is_new: bool) {
        *match content {
            _ if !is_new => &mut self.already_there,
            Content::Report(_) => &mut self.reports,
            Content::AlertChange(_) => &mut self.alert_changes,
            Content::Withdrawal(_) => &mut self.withdrawals,
            Content::Profile(_) => &mut self.profiles,
        } += 1;
    }
}

impl Store {
    /// Exports everything without a file to a folder, which is created if missing. Existing files are not changed.
    /// Damaged documents are skipped and listed.
    pub fn export(&self, folder: impl AsRef<Path>) -> Result<Exported, ExchangeError> {
        let folder = folder.as_ref();
        fs::create_dir_all(folder).map_err(io_error("create the folder", folder))?;
        let names = list(folder)?;
        let known: HashSet<_> = names.iter().filter_map(|name| files::parse_name(name)).collect();
        let mut exported = Exported::default();
        let wrap = self.error("reading it for export");
        // A consistent view of the store despite concurrent writes.
        let view = self.connection.view().map_err(&wrap)?;
        let Listing { reports, changes, withdrawals, profiles, damaged } =
            list_all(&view).map_err(&wrap)?;
        exported.damaged = damaged;
        for Listed { row, uuid, time } in reports {
            let name = files::name(FileKind::Report, time, uuid);
            let is_new = !known.contains(&(FileKind::Report, uuid))
                && match read(&view, row, Alerts::Raised) {
                    Ok(report) => write(folder, &name, ReportContent { report })?,
                    Err(error) if is_damage(&error) => {
                        exported.damaged.push(Damaged::report(uuid, &error));
                        continue;
                    }
                    Err(error) => return Err(wrap(error).into()),
                };
            let count = if is_new { &mut exported.reports } else { &mut exported.already_there };
            *count += 1;
        }
        for alert_change in changes {
            let AlertChange { uuid, time, .. } = alert_change;
            let name = files::name(FileKind::AlertChange, time, uuid);
            let is_new = !known.contains(&(FileKind::AlertChange, uuid))
                && write(folder, &name, ChangeContent { alert_change })?;
            let count =
                if is_new { &mut exported.alert_changes } else { &mut exported.already_there };
            *count += 1;
        }
        for withdrawal in withdrawals {
            let Withdrawal { uuid, time, .. } = withdrawal;
            let name = files::name(FileKind::Withdrawal, time, uuid);
            let is_new = !known.contains(&(FileKind::Withdrawal, uuid))
                && write(folder, &name, WithdrawalContent { withdrawal })?;
            let count =
                if is_new { &mut exported.withdrawals } else { &mut exported.already_there };
            *count += 1;
        }
        for about in profiles {
            let (uuid, report) = (about.uuid, about.report);
            let name = files::name(FileKind::Profile, about.time, uuid);
            let is_new = !known.contains(&(FileKind::Profile, uuid))
                && match profiles::whole(&view, about) {
                    Ok(profile) => write(folder, &name, ProfileContent { profile })?,
                    Err(error) if is_damage(&error) => {
                        exported.damaged.push(Damaged::report(report, &error));
                        continue;
                    }
                    Err(error) => return Err(wrap(error).into()),
                };
            let count = if is_new { &mut exported.profiles } else { &mut exported.already_there };
            *count += 1;
        }
        // Makes the names durable as well.
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(io_error("finish the folder", folder))?;
        Ok(exported)
    }

    /// Imports the files of a folder. Existing documents are skipped, and the order does not matter. An unusable file
    /// does not stop the others.
    ///
    /// Ignores files that begin with a dot or do not end in `.json`.
    pub fn import(&mut self, folder: impl AsRef<Path>) -> Result<Imported, ExchangeError> {
        let folder = folder.as_ref();
        let mut names = list(folder)?;
        names.retain(|name| !files::is_of_others(name));
        names.sort();
        let mut imported = Imported::default();
        let wrap = self.error("importing reports");
        let mut batch = Vec::new();
        let mut metrics = 0;
        for name in names {
            let path = folder.join(&name);
            if let Some((kind, uuid)) = files::parse_name(&name)
                && is_known(&self.connection, kind, uuid).map_err(&wrap)?
            {
                imported.already_there += 1;
                continue;
            }
            let valid = files::read(&path).and_then(|content| {
                content.validate().map(|()| content).map_err(|error| error.to_string())
            });
            match valid {
                Ok(content) => {
                    metrics += content.metrics();
                    batch.push((path, content));
                }
                Err(reason) => imported.skipped.push(Skipped { path, reason }),
            }
            if batch.len() == BATCH || metrics >= BATCH_METRICS {
                metrics = 0;
                take_in(&self.connection, &mut batch, &mut imported).map_err(&wrap)?;
            }
        }
        take_in(&self.connection, &mut batch, &mut imported).map_err(&wrap)?;
        imported.skipped.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(imported)
    }
}

/// Stores a batch of files in one transaction, and clears it.
fn take_in(
    db: &Connection,
    batch: &mut Vec<(PathBuf, Content)>,
    imported: &mut Imported,
) -> SqlResult<()> {
    let transaction = writing(db)?;
    let mut done = Imported::default();
    for (path, content) in batch.drain(..) {
        transaction.execute_batch("SAVEPOINT file")?;
        match content.insert(&transaction) {
            Ok(is_new) => done.count(&content, is_new),
            Err(error) if is_contradiction(&error) => {
                transaction.execute_batch("ROLLBACK TO file")?;
                let reason = format!("it contradicts what is in the store: {error}");
                done.skipped.push(Skipped { path, reason });
            }
            Err(error) => return Err(error),
        }
        transaction.execute_batch("RELEASE file")?;
    }
    transaction.commit()?;
    imported.reports += done.reports;
    imported.alert_changes += done.alert_changes;
    imported.withdrawals += done.withdrawals;
    imported.profiles += done.profiles;
    imported.already_there += done.already_there;
    imported.skipped.append(&mut done.skipped);
    Ok(())
}

/// Whether a single file is to blame: it has an alert of another report.
pub(super) fn is_contradiction(error: &Error) -> bool {
    error.fault() == Fault::Contradiction
}

fn is_known(db: &Connection, kind: FileKind, uuid: Uuid) -> SqlResult<bool> {
    let table = match kind {
        FileKind::Report => "report",
        FileKind::AlertChange => "alert_change",
        FileKind::Withdrawal => "withdrawal",
        FileKind::Profile => "profile",
    };
    prepare(db, &format!("SELECT 1 FROM {table} WHERE uuid = ?1"))?.exists([Id(uuid)])
}

fn write(folder: &Path, name: &str, content: impl Serialize) -> Result<bool, ExchangeError> {
    let path = folder.join(name);
    files::write(folder, name, &Document::new(content)).map_err(io_error("write the file", &path))
}

/// The names in a folder, without those that are not UTF-8, which are not ours.
fn list(folder: &Path) -> Result<Vec<String>, ExchangeError> {
    let list = || -> io::Result<Vec<String>> {
        let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    };
    list().map_err(io_error("read the folder", folder))
}

pub(super) fn io_error<'p>(
    doing: &'static str,
    path: &'p Path,
) -> impl FnOnce(io::Error) -> ExchangeError + use<'p> {
    move |source| ExchangeError::Io { doing, path: path.to_owned(), source }
}
