//! A whole store in one file or through a pipe: JSON lines, each a document, between a header and a trailer. Only one
//! document is in memory at a time.

use std::{
    fs::File,
    io::{self, BufRead, BufWriter, Read, Write},
    path::Path,
};

use flate2::{Compression, write::GzEncoder};
use wingbeat_sql::{Connection, Error};

use super::{
    Document, ExchangeError, Exported, Imported, Store,
    document::{Counts, Form, Lines, NO_DOCUMENT, Origin, reason, unpacked},
    exchange::{io_error, new_file},
};
use crate::import;

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
        let (file, exported) =
            new_file(folder.unwrap_or(Path::new("."))).map_err(error()).and_then(|mut file| {
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
        let failed = |error: io::Error| io_error("write", Path::new("the export"))(error);
        let wingbeat = env!("CARGO_PKG_VERSION").to_owned();
        let header = serde_json::to_writer(&mut *to, &Form("export", Origin { wingbeat }));
        header.map_err(io::Error::from).and_then(|()| to.write_all(b"\n")).map_err(failed)?;
        let exported = self.export_documents(
            |_| false,
            |document| {
                document.write(&mut *to).map_err(|error| failed(error.into()))?;
                to.write_all(b"\n").map_err(failed)?;
                Ok(true)
            },
        )?;
        let trailer = serde_json::to_writer(&mut *to, &Form("end", exported.documents));
        trailer.map_err(io::Error::from).and_then(|()| to.write_all(b"\n")).map_err(failed)?;
        Ok(exported)
    }

    /// Imports a file of [`Store::export_file`], or a sequence of documents as in an export folder; all of it or
    /// nothing. May be compressed by gzip.
    pub fn import_file(&self, path: impl AsRef<Path>) -> Result<Imported, ExchangeError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(io_error("read the file", path))?;
        self.import_from(file, path)
    }

    /// Like [`Store::import_file`], from any reader. `name` is used in errors.
    pub fn import_from(&self, from: impl Read, name: &Path) -> Result<Imported, ExchangeError> {
        let from = unpacked(from).map_err(io_error("read the file", name))?;
        self.import_lines(from, name)
    }

    /// Like [`Store::import_from`], but also accepts another tool's history, which belongs to a place.
    pub fn import_any(
        &self,
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
        let history = import::read(from, place).map_err(refuse)?;
        let (left_out, left_out_named) = (history.left_out_count, history.left_out);
        let imported = self.import_whole(name, |db, imported| {
            let mut reports = history.reports.into_iter();
            reports.try_for_each(|report| take(db, &Document::Report(Box::new(report)), imported))
        })?;
        Ok(Imported { left_out, left_out_named, ..imported })
    }

    fn import_lines(
        &self,
        mut from: Box<dyn BufRead + '_>,
        name: &Path,
    ) -> Result<Imported, ExchangeError> {
        self.import_whole(name, |db, imported| take_lines(db, &mut from, imported))
    }

    /// Imports documents in one transaction, all or none.
    fn import_whole(
        &self,
        name: &Path,
        take: impl FnOnce(&Connection, &mut Imported) -> Result<(), Refusal>,
    ) -> Result<Imported, ExchangeError> {
        let wrap = self.error("importing reports");
        let transaction = self.connection.writing().map_err(&wrap)?;
        let mut imported = Imported::default();
        match take(&transaction, &mut imported) {
            Ok(()) => {}
            Err(Refusal::Store(error)) => return Err(wrap(error).into()),
            Err(Refusal::File(reason)) => {
                return Err(ExchangeError::File { path: name.to_owned(), reason });
            }
        }
        transaction.commit().map_err(&wrap)?;
        Ok(imported)
    }
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

fn take(db: &Connection, document: &Document, imported: &mut Imported) -> Result<(), Refusal> {
    match document.insert(db)? {
        Ok(is_new) => imported.count(document.kind(), is_new),
        Err(invalid) => return Err(Refusal::File(invalid.to_string())),
    }
    Ok(())
}

fn take_lines(
    db: &Connection,
    from: &mut dyn BufRead,
    imported: &mut Imported,
) -> Result<(), Refusal> {
    let mut counts = Counts::default();
    let (mut is_begun, mut is_ended) = (false, false);
    let mut number = 0_usize;
    let refuse = |reason: String| Err(Refusal::File(reason));
    for line in Lines::of(from) {
        number += 1;
        let line = line.map_err(|error| Refusal::File(reason(&error, number)))?;
        if is_ended {
            return refuse(format!("document {number} follows the end"));
        }
        if line.export.is_some() {
            is_begun = true;
            continue;
        }
        if let Some(recorded) = line.end {
            if recorded != counts {
                return refuse(contradiction(counts, recorded));
            }
            is_ended = true;
            continue;
        }
        let Some(document) = line.document() else {
            return refuse(format!("document {number}: {NO_DOCUMENT}"));
        };
        *counts.of(document.kind()) += 1;
        take(db, &document, imported)?;
    }
    match (number, is_begun, is_ended) {
        (0, ..) => refuse("it is empty".to_owned()),
        (_, true, false) => {
            let reports = counts.reports;
            refuse(format!("it is cut off after {reports} reports: its last line is missing"))
        }
        _ => Ok(()),
    }
}

fn contradiction(found: Counts, recorded: Counts) -> String {
    format!(
        "it ends after {} reports, {} changes of alerts, {} withdrawals and {} profiles, and should have {}, \
         {}, {} and {}: lines are missing or duplicated",
        found.reports,
        found.alert_changes,
        found.withdrawals,
        found.profiles,
        recorded.reports,
        recorded.alert_changes,
        recorded.withdrawals,
        recorded.profiles
    )
}
