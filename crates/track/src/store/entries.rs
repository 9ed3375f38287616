//! The documents of a store: all of them for an export or a copy, and those of a project page by page for a server,
//! ordered so that new ones come last.

use std::{cmp::Ordering, fmt, str::FromStr};

use serde::Serialize;
use uuid::Uuid;
use wingbeat_sql::{
    Connection, Error, OptionalExtension as _, Row, params, sqlite::integrity_faults,
};

use super::{
    SqlResult, Store, StoreError, alerts,
    document::{Counts, Document, Kind},
    error::{detail, is_damage},
    prepare, profiles, read,
    rows::project_row,
    tables::{ALERT_CHANGE, PROFILE, WITHDRAWAL},
    withdrawals,
};
use crate::model::ProjectName;

/// A position in the documents of a project, from which to continue. Reports come first, in the order of storing, then
/// changes of alerts, then withdrawals, then profiles, each by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    pub(super) kind: Kind,
    /// The row number of a report, or else the time in nanoseconds.
    number: i64,
    /// Nil for a report.
    uuid: Uuid,
}

/// A page of a project's documents, as lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Documents {
    /// Each ends with a line feed.
    pub lines: String,
    pub count: usize,
    /// The cursor after the last document. `None` if there are no more.
    pub next: Option<Cursor>,
}

/// Metadata of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The cursor after it.
    pub at: Cursor,
    pub uuid: Uuid,
}

/// A part of a store that is damaged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Damaged {
    /// The report that it belongs to, if any.
    pub report: Option<Uuid>,
    pub what: String,
}

/// An invalid cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a position in a list of documents")]
pub struct InvalidCursor(String);

impl Damaged {
    pub(super) fn of(report: Option<Uuid>, error: &Error) -> Self {
        Self { report, what: detail(error) }
    }

    pub(super) fn by_engine(fault: &String) -> Self {
        Self { report: None, what: format!("SQLite reports: {fault}") }
    }
}

impl Store {
    /// The documents of a project after a cursor: at least one if there are any, at most this many, and about this many
    /// bytes.
    pub fn documents(
        &self,
        project: &ProjectName,
        after: Option<Cursor>,
        count_max: usize,
        bytes_max: usize,
    ) -> Result<Documents, StoreError> {
        self.doing("reading documents", || {
            // A consistent view of the store despite concurrent writes.
            let view = self.connection.view()?;
            let mut page = Documents::default();
            // One more, to see whether there are more.
            for entry in of_project(&view, project, after, count_max.saturating_add(1))? {
                if page.count > 0 && (page.count >= count_max || page.lines.len() >= bytes_max) {
                    return Ok(page);
                }
                page.lines += &line(&view, entry)?;
                page.lines.push('\n');
                page.count += 1;
                page.next = Some(entry.at);
            }
            page.next = None;
            Ok(page)
        })
    }

    /// The entries of a project after a cursor, without contents.
    pub fn entries(
        &self,
        project: &ProjectName,
        after: Option<Cursor>,
        count_max: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.doing("listing documents", || {
            let view = self.connection.view()?;
            of_project(&view, project, after, count_max)
        })
    }

    /// The document of an entry, as a line without a line feed.
    pub fn line_of(&self, entry: Entry) -> Result<String, StoreError> {
        line(&self.connection, entry).map_err(self.error("reading a document"))
    }

    /// The project of a report, also of a withdrawn one.
    pub fn project_of_report(&self, report: Uuid) -> Result<Option<ProjectName>, StoreError> {
        let sql =
            "SELECT p.name FROM report r JOIN project p ON p.id = r.project WHERE r.uuid = ?1";
        self.one(sql, report).map_err(self.error("looking for a report"))
    }

    /// The project of an alert, also if its report was withdrawn.
    pub fn project_of_alert(&self, alert: Uuid) -> Result<Option<ProjectName>, StoreError> {
        let sql = "SELECT p.name FROM alert a JOIN report r ON r.id = a.report
                   JOIN project p ON p.id = r.project WHERE a.uuid = ?1";
        self.one(sql, alert).map_err(self.error("looking for an alert"))
    }

    fn one(&self, sql: &str, uuid: Uuid) -> SqlResult<Option<ProjectName>> {
        let name = |row: &Row<'_>| row.get(0);
        prepare(&self.connection, sql)?.query_row([uuid], name).optional()
    }
}

/// All documents of a store: reports first, each kind ordered by time. Reads whole tables, since an index may have lost
/// a row, and has the engine check these tables.
pub(super) fn all(db: &Connection) -> SqlResult<(Vec<Entry>, Vec<Damaged>)> {
    let (mut entries, mut damaged) = (Vec::new(), Vec::new());
    for kind in Kind::ALL {
        let table = kind.table();
        let mut of_kind = Vec::new();
        let mut list = || {
            let faults = integrity_faults(db, Some(table))?;
            damaged.extend(faults.iter().map(Damaged::by_engine));
            let columns = match kind {
                Kind::Report => "id, uuid, start_time_ns",
                _ => "time_ns, uuid, time_ns",
            };
            let not_indexed = if db.is_postgres() { "" } else { "NOT INDEXED" };
            db.scan(&format!("SELECT {columns} FROM {table} {not_indexed}"), |row| {
                let (number, uuid, time_ns) = (row.get(0)?, row.get(1)?, row.get(2)?);
                of_kind.push((time_ns, Entry::of(kind, number, uuid)));
                Ok(())
            })
        };
        match list() {
            Err(error) if is_damage(&error) => damaged.push(Damaged::of(None, &error)),
            listed => listed?,
        }
        of_kind.sort_by_key(|(time_ns, entry): &(i64, Entry)| (*time_ns, entry.uuid));
        entries.extend(of_kind.into_iter().map(|(_, entry)| entry));
    }
    Ok((entries, damaged))
}

/// The number of documents by kind.
pub(super) fn counts(db: &Connection) -> SqlResult<Counts> {
    let mut counts = Counts::default();
    for kind in Kind::ALL {
        let sql = format!("SELECT count(*) FROM {}", kind.table());
        let count: i64 = db.query_row(&sql, [], |row| row.get(0))?;
        *counts.of(kind) = usize::try_from(count).unwrap_or_default();
    }
    Ok(counts)
}

fn of_project(
    db: &Connection,
    project: &ProjectName,
    after: Option<Cursor>,
    count_max: usize,
) -> SqlResult<Vec<Entry>> {
    let Some(project) = project_row(db, project)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    let left = |found: &Vec<Entry>| i64::try_from(count_max - found.len()).unwrap_or(i64::MAX);
    for kind in Kind::ALL {
        let (number, uuid) = match after.map(|after| (kind.cmp(&after.kind), after)) {
            Some((Ordering::Less, _)) => continue,
            Some((Ordering::Equal, after)) => (after.number, after.uuid),
            _ => (i64::MIN, Uuid::nil()),
        };
        let mut statement = prepare(db, page_sql(kind))?;
        let entry = |row: &Row<'_>| Ok(Entry::of(kind, row.get(0)?, row.get(1)?));
        let values = params![project, number, left(&found), uuid];
        // The row number of a report is unique.
        let values = if kind == Kind::Report { &values[..3] } else { values };
        let entries = statement.query_map(values, entry)?.collect::<SqlResult<Vec<_>>>()?;
        found.extend(entries);
    }
    Ok(found)
}

/// Selects the row number or time, and the UUID, of a project's documents after a cursor.
fn page_sql(kind: Kind) -> &'static str {
    match kind {
        Kind::Report => {
            "SELECT id, uuid FROM report NOT INDEXED
             WHERE id > ?2 AND project = ?1 ORDER BY id LIMIT ?3"
        }
        // These are made by people, so they are few.
        Kind::AlertChange => {
            "SELECT c.time_ns, c.uuid FROM alert_change c
             CROSS JOIN alert a ON a.uuid = c.alert JOIN report r ON r.id = a.report
             WHERE r.project = ?1 AND (c.time_ns, c.uuid) > (?2, ?4)
             ORDER BY c.time_ns, c.uuid LIMIT ?3"
        }
        Kind::Withdrawal => {
            "SELECT taken.time_ns, taken.uuid FROM withdrawal taken
             CROSS JOIN report r ON r.uuid = taken.report
             WHERE r.project = ?1 AND (taken.time_ns, taken.uuid) > (?2, ?4)
             ORDER BY taken.time_ns, taken.uuid LIMIT ?3"
        }
        Kind::Profile => {
            "SELECT pr.time_ns, pr.uuid FROM profile pr
             CROSS JOIN report r ON r.uuid = pr.report
             WHERE r.project = ?1 AND (pr.time_ns, pr.uuid) > (?2, ?4)
             ORDER BY pr.time_ns, pr.uuid LIMIT ?3"
        }
    }
}

fn line(db: &Connection, entry: Entry) -> SqlResult<String> {
    document(db, entry)?.line().map_err(Error::value)
}

/// Reads a document. A report is compared with its digest, and a profile with the hash of its content.
pub(super) fn document(db: &Connection, Entry { at, uuid }: Entry) -> SqlResult<Document> {
    let select = |table: &str| prepare(db, &format!("{table} WHERE uuid = ?1"));
    Ok(match at.kind {
        Kind::Report => Document::Report(Box::new(read::verified(db, at.number)?)),
        Kind::AlertChange => {
            let change = select(&ALERT_CHANGE.select())?.query_row([uuid], alerts::change)?;
            Document::AlertChange(change)
        }
        Kind::Withdrawal => Document::Withdrawal(
            select(&WITHDRAWAL.select())?.query_row([uuid], withdrawals::withdrawal)?,
        ),
        Kind::Profile => {
            let about = select(&PROFILE.select())?.query_row([uuid], profiles::info)?;
            Document::Profile(Box::new(profiles::whole(db, about)?))
        }
    })
}

impl Entry {
    /// `number` as in [`Cursor`].
    pub(super) fn of(kind: Kind, number: i64, uuid: Uuid) -> Self {
        let of_cursor = if kind == Kind::Report { Uuid::nil() } else { uuid };
        Self { at: Cursor { kind, number, uuid: of_cursor }, uuid }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at.kind.name(), self.uuid)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, number, uuid } = self;
        write!(f, "{}{number}", kind.letter())?;
        if *kind == Kind::Report { Ok(()) } else { write!(f, ".{}", uuid.simple()) }
    }
}

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let parse = || {
            let strip = |kind: Kind| Some((kind, text.strip_prefix(kind.letter())?));
            let (kind, rest) = Kind::ALL.into_iter().find_map(strip)?;
            let (number, uuid) = match kind {
                Kind::Report => (rest, Uuid::nil()),
                _ => {
                    let (time_ns, uuid) = rest.split_once('.')?;
                    (time_ns, Uuid::try_parse(uuid).ok()?)
                }
            };
            Some(Self { kind, number: number.parse().ok()?, uuid })
        };
        parse().ok_or_else(|| InvalidCursor(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_texts() {
        let uuid = Uuid::from_u128(7);
        for (kind, number) in Kind::ALL.into_iter().zip([17, -3, 9, 10]) {
            let cursor = Entry::of(kind, number, uuid).at;
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for text in ["", "r", "rx", "a1", "a1.x", "ö7", "x1.00"] {
            assert_eq!(text.parse::<Cursor>(), Err(InvalidCursor(text.to_owned())));
        }
    }
}
