//! A whole store in one file or through a pipe: JSON lines, each a document such as a report or a change of an alert,
//! between a header and a trailer. Only one document is in memory at a time.

mod lines;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead, BufWriter, Read, Write},
    path::Path,
};

use super::prelude::*;
use flate2::{Compression, write::GzEncoder};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use self::lines::Documents;
use crate::{import, model::Profile};

use super::{
    AlertChange, Damaged, ExchangeError, Exported, Imported, Insertion, Withdrawal,
    check::{Listing, list_all},
    exchange::{io_error, is_contradiction},
    files::{
        ChangeContent, Content, Document, FORMAT, ProfileContent, ReportContent, WithdrawalContent,
        newer, unpacked,
    },
    insert::{insert, validate},
    profiles,
    read::{Alerts, read},
};

#[derive(Debug, Serialize, Deserialize)]
struct Origin {
    wingbeat: String,
}

/// Number of documents, for the trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Counts {
    reports: usize,
    alert_changes: usize,
    #[serde(default)]
    withdrawals: usize,
    #[serde(default)]
    profiles: usize,
}

/// Any line, or the content of a file of a folder.
#[derive(Debug, Deserialize)]
struct Line {
    #[serde(deserialize_with = "known_format")]
    #[expect(dead_code, reason = "it is looked at while it is read")]
    format: (),
    export: Option<Origin>,
    end: Option<Counts>,
    report: Option<Box<Report>>,
    alert_change: Option<AlertChange>,
    withdrawal: Option<Withdrawal>,
    profile: Option<Box<Profile>>,
}

/// Deserialized first, so that a newer format is rejected before anything else of it is read.
fn known_format<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    match u32::deserialize(deserializer)? {
        0..=FORMAT => Ok(()),
        format => Err(D::Error::custom(newer(format))),
    }
}

impl Store {
    /// Writes everything to a new file, atomically. Damaged documents are skipped and listed.
    pub fn export_file(
        &self,
        path: impl AsRef<Path>,
        is_gzip: bool,
    ) -> Result<Exported, ExchangeError> {
        let path = path.as_ref();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let error = || io_error("write the file", path);
        if path.exists() {
            return Err(error()(io::Error::new(io::ErrorKind::AlreadyExists, "it is there")));
        }
        let (file, exported) = super::files::new_file(folder.unwrap_or(Path::new(".")))
            .map_err(error())
            .and_then(|mut file| {
                let exported = self.export_to(&mut file, is_gzip)?;
                Ok((file, exported))
            })?;
        file.as_file().sync_all().map_err(error())?;
        file.persist_noclobber(path).map_err(|failed| error()(failed.error))?;
        Ok(exported)
    }

    /// Like [`Store::export_file`], to any writer.
    pub fn export_to(&self, to: impl Write, is_gzip: bool) -> Result<Exported, ExchangeError> {
        let to = BufWriter::new(to);
        let finish =
            |written: io::Result<()>| written.map_err(io_error("write", Path::new("the export")));
        if !is_gzip {
            let mut to = to;
            let exported = self.write_lines(&mut to)?;
            return finish(to.flush()).map(|()| exported);
        }
        // JSON is written a few bytes at a time, each of which would be a call of the compressor.
        let mut to = BufWriter::new(GzEncoder::new(to, Compression::default()));
        let exported = self.write_lines(&mut to)?;
        let packed = to.into_inner().map_err(io::IntoInnerError::into_error);
        finish(packed.and_then(GzEncoder::finish).and_then(|mut to| to.flush())).map(|()| exported)
    }

    fn write_lines(&self, to: &mut impl Write) -> Result<Exported, ExchangeError> {
        let wrap = self.error("reading it for export");
        // A consistent view of the store, so that the counts are right.
        let view = self.connection.view().map_err(&wrap)?;
        let Listing { reports, changes, withdrawals, profiles, damaged } =
            list_all(&view).map_err(&wrap)?;
        let mut exported = Exported { damaged, ..Exported::default() };
        let wingbeat = env!("CARGO_PKG_VERSION").to_owned();
        line(to, BTreeMap::from([("export", Origin { wingbeat })]))?;
        for listed in reports {
            match read(&view, listed.row, Alerts::Raised) {
                Ok(report) => line(to, ReportContent { report })?,
                Err(error) if is_damage(&error) => {
                    exported.damaged.push(Damaged::report(listed.uuid, &error));
                    continue;
                }
                Err(error) => return Err(wrap(error).into()),
            }
            exported.reports += 1;
        }
        for alert_change in changes {
            line(to, ChangeContent { alert_change })?;
            exported.alert_changes += 1;
        }
        for withdrawal in withdrawals {
            line(to, WithdrawalContent { withdrawal })?;
            exported.withdrawals += 1;
        }
        for about in profiles {
            let report = about.report;
            match profiles::whole(&view, about) {
                Ok(profile) => line(to, ProfileContent { profile })?,
                Err(error) if is_damage(&error) => {
                    exported.damaged.push(Damaged::report(report, &error));
                    continue;
                }
                Err(error) => return Err(wrap(error).into()),
            }
            exported.profiles += 1;
        }
        let Exported { reports, alert_changes, withdrawals, profiles, .. } = exported;
        let counts = Counts { reports, alert_changes, withdrawals, profiles };
        line(to, BTreeMap::from([("end", counts)]))?;
        Ok(exported)
    }

    /// Imports a file of [`Store::export_file`], or a sequence of documents as in an export folder; all of it or
    /// nothing. May be compressed by gzip.
    pub fn import_file(&mut self, path: impl AsRef<Path>) -> Result<Imported, ExchangeError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(io_error("read the file", path))?;
        self.import_from(file, path)
    }

    /// Like [`Store::import_file`], from any reader. `name` is used in errors.
    pub fn import_from(&mut self, from: impl Read, name: &Path) -> Result<Imported, ExchangeError> {
        let from = unpacked(from).map_err(io_error("read the file", name))?;
        self.import_lines(from, name)
    }

    /// Like [`Store::import_from`], but also accepts another tool's history, which belongs to a place.
    pub fn import_any(
        &mut self,
        from: impl Read,
        name: &Path,
        place: &import::Place,
    ) -> Result<Imported, ExchangeError> {
        let mut from = unpacked(from).map_err(io_error("read the file", name))?;
        let beginning = from.fill_buf().map_err(io_error("read the file", name))?;
        let refuse = |reason: String| ExchangeError::File { path: name.to_owned(), reason };
        match import::is_of_another_tool(beginning) {
            false if place.is_project_named => {
                let reason = "its reports say of which projects they are; leave out --project";
                return Err(refuse(reason.to_owned()));
            }
            false => return self.import_lines(from, name),
            true => {}
        }
        let history = import::read(from, place).map_err(|error| refuse(error.to_string()))?;
        for report in &history.reports {
            validate(report).map_err(|error| refuse(error.to_string()))?;
        }
        let mut imported = Imported {
            left_out: history.left_out_count,
            left_out_named: history.left_out,
            ..Imported::default()
        };
        let mut store = || {
            let transaction = writing(&self.connection)?;
            for report in &history.reports {
                match insert(&transaction, report)? {
                    Insertion::Stored => imported.reports += 1,
                    Insertion::AlreadyThere => imported.already_there += 1,
                }
            }
            transaction.commit()
        };
        store().map_err(self.error("importing reports"))?;
        Ok(imported)
    }

    fn import_lines(
        &mut self,
        mut from: Box<dyn BufRead + '_>,
        name: &Path,
    ) -> Result<Imported, ExchangeError> {
        let wrap = self.error("importing reports");
        let view = writing(&self.connection).map_err(&wrap)?;
        let imported = match take_lines(&view, &mut from) {
            Ok(imported) => imported,
            Err(Refusal::Store(error)) => return Err(wrap(error).into()),
            Err(Refusal::File(reason)) => {
                return Err(ExchangeError::File { path: name.to_owned(), reason });
            }
        };
        view.commit().map_err(&wrap)?;
        Ok(imported)
    }
}

const UNKNOWN: &str = "it is no report, no change of an alert, no withdrawal and no profile";

/// Parses a line other than the header and the trailer.
pub(super) fn of_line(line: &[u8]) -> Result<Content, String> {
    let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    match line {
        Line { report: Some(report), .. } => Ok(Content::Report(report)),
        Line { alert_change: Some(change), .. } => Ok(Content::AlertChange(change)),
        Line { withdrawal: Some(withdrawal), .. } => Ok(Content::Withdrawal(withdrawal)),
        Line { profile: Some(profile), .. } => Ok(Content::Profile(profile)),
        Line { .. } => Err(UNKNOWN.to_owned()),
    }
}

fn line(to: &mut impl Write, content: impl Serialize) -> Result<(), ExchangeError> {
    let written = serde_json::to_writer(&mut *to, &Document::new(content)).map_err(io::Error::from);
    written.and_then(|()| to.write_all(b"\n")).map_err(io_error("write", Path::new("the export")))
}

enum Refusal {
    Store(Error),
    File(String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

fn take_lines(db: &Connection, from: &mut dyn BufRead) -> Result<Imported, Refusal> {
    let mut imported = Imported::default();
    let mut counts = Counts::default();
    let (mut is_begun, mut is_ended) = (false, false);
    let mut documents = 0_usize;
    let refuse = |reason: String| Err(Refusal::File(reason));
    for line in Documents::of(from) {
        documents += 1;
        let line = line.map_err(|error| Refusal::File(reason(&error, documents)))?;
        if is_ended {
            return refuse(format!("document {documents} follows the end"));
        }
        let content = match line {
            Line { report: Some(report), .. } => {
                counts.reports += 1;
                Content::Report(report)
            }
            Line { alert_change: Some(change), .. } => {
                counts.alert_changes += 1;
                Content::AlertChange(change)
            }
            Line { withdrawal: Some(withdrawal), .. } => {
                counts.withdrawals += 1;
                Content::Withdrawal(withdrawal)
            }
            Line { export: Some(_), .. } => {
                is_begun = true;
                continue;
            }
            Line { end: Some(told), .. } if told == counts => {
                is_ended = true;
                continue;
            }
            Line { end: Some(told), .. } => return refuse(contradiction(counts, told)),
            Line { profile: Some(profile), .. } => {
                counts.profiles += 1;
                Content::Profile(profile)
            }
            Line { .. } => return refuse(format!("document {documents}: {UNKNOWN}")),
        };
        content.validate().map_err(|error| Refusal::File(error.to_string()))?;
        match (content.insert(db), &content) {
            (Ok(is_new), _) => imported.count(&content, is_new),
            (Err(error), Content::Report(report)) if is_contradiction(&error) => {
                let uuid = report.uuid;
                return refuse(format!(
                    "the report {uuid} contradicts what is in the store: {error}"
                ));
            }
            (Err(error), _) => return Err(error.into()),
        }
    }
    match (documents, is_begun, is_ended) {
        (0, ..) => refuse("it is empty".to_owned()),
        (_, true, false) => {
            let reports = counts.reports;
            refuse(format!("it is cut off after {reports} reports: its last line is missing"))
        }
        _ => Ok(imported),
    }
}

fn contradiction(found: Counts, told: Counts) -> String {
    format!(
        "it ends after {} reports, {} changes of alerts, {} withdrawals and {} profiles, and should have {}, \
         {}, {} and {}: lines are missing or duplicated",
        found.reports,
        found.alert_changes,
        found.withdrawals,
        found.profiles,
        told.reports,
        told.alert_changes,
        told.withdrawals,
        told.profiles
    )
}

fn reason(error: &serde_json::Error, document: usize) -> String {
    let cut = "it is cut off or damaged";
    match (error.classify(), document) {
        (serde_json::error::Category::Io, _) => format!("{cut}: {error}"),
        (serde_json::error::Category::Eof, 2..) => format!("{cut} in document {document}: {error}"),
        (_, 1) => format!("it was not written by `wingbeat export`: {error}"),
        _ => format!("document {document} is broken: {error}"),
    }
}
