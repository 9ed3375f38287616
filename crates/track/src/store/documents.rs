//! Documents of a project, page by page, for a server's API: lines of the export format, ordered so that new ones come
//! last.

use std::{cmp::Ordering, fmt, str::FromStr};

use super::prelude::*;

use super::{
    AlertChange, InvalidReport, Withdrawal, alerts,
    checksum::{ALERT_CHANGE, PROFILE, WITHDRAWAL},
    exchange::is_contradiction,
    files::{
        ChangeContent, Content, Document as Form, ProfileContent, ReportContent, WithdrawalContent,
        profile_metrics,
    },
    profiles,
    read::{Alerts, read},
    stream::of_line,
    withdrawals,
};

use crate::model::Profile;

/// A report, a change of an alert, a withdrawal or a profile: a line of an export.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    Report(Box<Report>),
    AlertChange(AlertChange),
    Withdrawal(Withdrawal),
    Profile(Box<Profile>),
}

/// A position in the documents of a project, from which to continue. Reports come first, in the order of storing, then
/// changes of alerts, then withdrawals, then profiles, each by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cursor {
    Report(i64),
    AlertChange(i64, Uuid),
    Withdrawal(i64, Uuid),
    Profile(i64, Uuid),
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

/// Metadata of a project's document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The cursor after it.
    pub at: Cursor,
    pub uuid: Uuid,
}

/// An invalid cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no place in a list of documents")]
pub struct InvalidCursor(String);

impl Document {
    /// Parses a line.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        Ok(match of_line(line)? {
            Content::Report(report) => Self::Report(report),
            Content::AlertChange(change) => Self::AlertChange(change),
            Content::Withdrawal(withdrawal) => Self::Withdrawal(withdrawal),
            Content::Profile(profile) => Self::Profile(profile),
        })
    }

    /// The document as a line, without a line feed.
    pub fn line(&self) -> Result<String, serde_json::Error> {
        match self.clone() {
            Self::Report(report) => {
                serde_json::to_string(&Form::new(ReportContent { report: *report }))
            }
            Self::AlertChange(alert_change) => {
                serde_json::to_string(&Form::new(ChangeContent { alert_change }))
            }
            Self::Withdrawal(withdrawal) => {
                serde_json::to_string(&Form::new(WithdrawalContent { withdrawal }))
            }
            Self::Profile(profile) => {
                serde_json::to_string(&Form::new(ProfileContent { profile: *profile }))
            }
        }
    }

    /// Its memory use, in metrics.
    pub(super) fn metrics(&self) -> usize {
        match self {
            Self::Report(report) => report.metrics().count(),
            Self::AlertChange(_) | Self::Withdrawal(_) => 0,
            Self::Profile(profile) => profile_metrics(profile),
        }
    }

    pub(super) fn into_content(self) -> Content {
        match self {
            Self::Report(report) => Content::Report(report),
            Self::AlertChange(change) => Content::AlertChange(change),
            Self::Withdrawal(withdrawal) => Content::Withdrawal(withdrawal),
            Self::Profile(profile) => Content::Profile(profile),
        }
    }

    pub fn uuid(&self) -> Uuid {
        match self {
            Self::Report(report) => report.uuid,
            Self::AlertChange(change) => change.uuid,
            Self::Withdrawal(withdrawal) => withdrawal.uuid,
            Self::Profile(profile) => profile.about.uuid,
        }
    }
}

impl Store {
    /// Stores a document durably, and returns whether it is new. [`StoreError::Invalid`] if it contradicts itself or
    /// existing data.
    pub fn take(&mut self, document: Document) -> Result<bool, StoreError> {
        let uuid = document.uuid();
        let content = document.into_content();
        content.validate()?;
        let store = || {
            let transaction = writing(&self.connection)?;
            let is_new = content.insert(&transaction)?;
            transaction.commit()?;
            Ok(is_new)
        };
        store().map_err(|error| match is_contradiction(&error) {
            true => {
                let reason = format!("it contradicts what is in the store: {error}");
                StoreError::Invalid(InvalidReport { report: uuid, reason })
            }
            false => self.error("storing a document")(error),
        })
    }

    /// The documents of a project after a cursor: at least one if there are any, at most this many, and about this many
    /// bytes.
    pub fn documents(
        &self,
        project: &ProjectName,
        after: Option<Cursor>,
        count_max: usize,
        bytes_max: usize,
    ) -> Result<Documents, StoreError> {
        let page = || {
            // A consistent view of the store despite concurrent writes.
            let view = self.connection.view()?;
            let mut page = Documents::default();
            // One more, to see whether there are more.
            for entry in entries(&view, project, after, count_max.saturating_add(1))? {
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
        };
        page().map_err(self.error("reading documents"))
    }

    /// The entries of a project after a cursor, without contents.
    pub fn entries(
        &self,
        project: &ProjectName,
        after: Option<Cursor>,
        count_max: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let list = || {
            let view = self.connection.view()?;
            entries(&view, project, after, count_max)
        };
        list().map_err(self.error("listing documents"))
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
        let name = |row: &Row<'_>| row.get::<_, Text<_>>(0).map(|text| text.0);
        prepare(&self.connection, sql)?.query_row([Id(uuid)], name).optional()
    }
}

fn entries(
    db: &Connection,
    project: &ProjectName,
    after: Option<Cursor>,
    count_max: usize,
) -> SqlResult<Vec<Entry>> {
    let Some(project) = project_row(db, project)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    let left = |found: &Vec<Entry>| i64::try_from(count_max - found.len()).unwrap_or(i64::MAX);
    if matches!(after, None | Some(Cursor::Report(_))) {
        let row = if let Some(Cursor::Report(row)) = after { row } else { i64::MIN };
        let sql = "SELECT id, uuid FROM report NOT INDEXED
                   WHERE id > ?1 AND project = ?2 ORDER BY id LIMIT ?3";
        let entry = |row: &Row<'_>| {
            Ok(Entry { at: Cursor::Report(row.get(0)?), uuid: row.get::<_, Id>(1)?.0 })
        };
        let mut statement = prepare(db, sql)?;
        for entry in statement.query_map([row, project, left(&found)], entry)? {
            found.push(entry?);
        }
    }
    for rest in Rest::ALL {
        let (time_ns, uuid) = match after.map(|after| (rest.of(after), after)) {
            Some((Ordering::Less, _)) => continue,
            Some((Ordering::Equal, after)) => after.time_and_uuid().unwrap_or(BEGIN),
            _ => BEGIN,
        };
        let values = params![project, time_ns, Id(uuid), left(&found)];
        let entry = |row: &Row<'_>| {
            let (time_ns, uuid) = (row.get(0)?, row.get::<_, Id>(1)?.0);
            Ok(Entry { at: rest.cursor(time_ns, uuid), uuid })
        };
        for entry in prepare(db, rest.sql())?.query_map(values, entry)? {
            found.push(entry?);
        }
    }
    Ok(found)
}

/// Before all times.
const BEGIN: (i64, Uuid) = (i64::MIN, Uuid::nil());

/// The kinds of documents after the reports, in list order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rest {
    AlertChange,
    Withdrawal,
    Profile,
}

impl Rest {
    const ALL: [Self; 3] = [Self::AlertChange, Self::Withdrawal, Self::Profile];

    /// Order of this kind relative to the cursor: [`Ordering::Less`] is before it.
    fn of(self, cursor: Cursor) -> Ordering {
        match cursor {
            Cursor::Report(_) => Ordering::Greater,
            Cursor::AlertChange(..) => self.cmp(&Self::AlertChange),
            Cursor::Withdrawal(..) => self.cmp(&Self::Withdrawal),
            Cursor::Profile(..) => self.cmp(&Self::Profile),
        }
    }

    fn cursor(self, time_ns: i64, uuid: Uuid) -> Cursor {
        match self {
            Self::AlertChange => Cursor::AlertChange(time_ns, uuid),
            Self::Withdrawal => Cursor::Withdrawal(time_ns, uuid),
            Self::Profile => Cursor::Profile(time_ns, uuid),
        }
    }

    /// Time and UUID of a project's documents after a time and a UUID.
    fn sql(self) -> &'static str {
        match self {
            // These are made by people, so they are few.
            Self::AlertChange => {
                "SELECT c.time_ns, c.uuid FROM alert_change c
                 CROSS JOIN alert a ON a.uuid = c.alert JOIN report r ON r.id = a.report
                 WHERE r.project = ?1 AND (c.time_ns, c.uuid) > (?2, ?3)
                 ORDER BY c.time_ns, c.uuid LIMIT ?4"
            }
            Self::Withdrawal => {
                "SELECT taken.time_ns, taken.uuid FROM withdrawal taken
                 CROSS JOIN report r ON r.uuid = taken.report
                 WHERE r.project = ?1 AND (taken.time_ns, taken.uuid) > (?2, ?3)
                 ORDER BY taken.time_ns, taken.uuid LIMIT ?4"
            }
            Self::Profile => {
                "SELECT pr.time_ns, pr.uuid FROM profile pr
                 CROSS JOIN report r ON r.uuid = pr.report
                 WHERE r.project = ?1 AND (pr.time_ns, pr.uuid) > (?2, ?3)
                 ORDER BY pr.time_ns, pr.uuid LIMIT ?4"
            }
        }
    }
}

impl Cursor {
    fn time_and_uuid(self) -> Option<(i64, Uuid)> {
        match self {
            Self::Report(_) => None,
            Self::AlertChange(time_ns, uuid)
            | Self::Withdrawal(time_ns, uuid)
            | Self::Profile(time_ns, uuid) => Some((time_ns, uuid)),
        }
    }
}

fn line(db: &Connection, entry: Entry) -> SqlResult<String> {
    read_document(db, entry)?.line().map_err(Error::value)
}

pub(super) fn read_document(db: &Connection, entry: Entry) -> SqlResult<Document> {
    Ok(match entry.at {
        Cursor::Report(row) => Document::Report(Box::new(read(db, row, Alerts::Raised)?)),
        Cursor::AlertChange(..) => {
            let sql = format!("{} WHERE uuid = ?1", ALERT_CHANGE.select());
            let change = |row: &Row<'_>| {
                ALERT_CHANGE.verify(row, 0)?;
                alerts::change(row)
            };
            Document::AlertChange(prepare(db, &sql)?.query_row([Id(entry.uuid)], change)?)
        }
        Cursor::Withdrawal(..) => {
            let sql = format!("{} WHERE uuid = ?1", WITHDRAWAL.select());
            let withdrawal = |row: &Row<'_>| {
                WITHDRAWAL.verify(row, 0)?;
                withdrawals::withdrawal(row)
            };
            Document::Withdrawal(prepare(db, &sql)?.query_row([Id(entry.uuid)], withdrawal)?)
        }
        Cursor::Profile(..) => {
            let sql = format!("{} WHERE uuid = ?1", PROFILE.select());
            let (about, _) = prepare(db, &sql)?.query_row([Id(entry.uuid)], profiles::verified)?;
            Document::Profile(Box::new(profiles::whole(db, about)?))
        }
    })
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Report(row) => write!(f, "r{row}"),
            Self::AlertChange(time_ns, uuid) => write!(f, "a{time_ns}.{}", uuid.simple()),
            Self::Withdrawal(time_ns, uuid) => write!(f, "w{time_ns}.{}", uuid.simple()),
            Self::Profile(time_ns, uuid) => write!(f, "p{time_ns}.{}", uuid.simple()),
        }
    }
}

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let of = |rest: &str| {
            let (time_ns, uuid) = rest.split_once('.')?;
            Some((time_ns.parse().ok()?, Uuid::try_parse(uuid).ok()?))
        };
        let parsed = match (text.get(..1), text.get(1..)) {
            (Some("r"), Some(rest)) => rest.parse().ok().map(Self::Report),
            (Some("a"), Some(rest)) => of(rest).map(|(time, uuid)| Self::AlertChange(time, uuid)),
            (Some("w"), Some(rest)) => of(rest).map(|(time, uuid)| Self::Withdrawal(time, uuid)),
            (Some("p"), Some(rest)) => of(rest).map(|(time, uuid)| Self::Profile(time, uuid)),
            _ => None,
        };
        parsed.ok_or_else(|| InvalidCursor(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_texts() {
        let uuid = Uuid::from_u128(7);
        for cursor in [
            Cursor::Report(17),
            Cursor::AlertChange(-3, uuid),
            Cursor::Withdrawal(9, uuid),
            Cursor::Profile(10, uuid),
        ] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for text in ["", "r", "rx", "a1", "a1.x", "ö7", "x1.00"] {
            assert_eq!(text.parse::<Cursor>(), Err(InvalidCursor(text.to_owned())));
        }
    }
}
