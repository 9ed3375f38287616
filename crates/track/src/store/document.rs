//! Documents: what a store exchanges with files, streams, servers and other stores. A document is a report, a change of
//! an alert, a withdrawal or a profile, as one JSON object.
//!
//! This is the only place that encodes and decodes them; [`super::batch`] stores them. Sources and sinks are thin: [a
//! folder](super::folder), [a stream](super::stream), pages of a server ([`super::entries`]) and [another
//! store](super::copy).

use std::{
    borrow::Cow,
    io::{self, BufRead, BufReader, Read},
};

use flate2::bufread::MultiGzDecoder;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _, ser::SerializeMap as _};
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use sha2::{Digest as _, Sha256};
use time::{OffsetDateTime, UtcOffset};
use uuid::Uuid;
use wingbeat_sql::Error;

use super::{AlertChange, SqlResult, Withdrawal};
use crate::model::{Profile, Report};

/// The format of documents. Newer ones are refused.
pub(super) const FORMAT: u32 = 1;

/// A report with its alerts as raised, a change of an alert, a withdrawal or a profile.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    Report(Box<Report>),
    AlertChange(AlertChange),
    Withdrawal(Withdrawal),
    Profile(Box<Profile>),
}

/// The kind of a document, in the order of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Report,
    AlertChange,
    Withdrawal,
    Profile,
}

impl Kind {
    pub(super) const ALL: [Self; 4] =
        [Self::Report, Self::AlertChange, Self::Withdrawal, Self::Profile];

    pub(super) fn table(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::AlertChange => "alert_change",
            Self::Withdrawal => "withdrawal",
            Self::Profile => "profile",
        }
    }

    /// The beginning of a cursor.
    pub(super) fn letter(self) -> char {
        match self {
            Self::Report => 'r',
            Self::AlertChange => 'a',
            Self::Withdrawal => 'w',
            Self::Profile => 'p',
        }
    }

    /// Its name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::AlertChange => "change of an alert",
            Self::Withdrawal => "withdrawal",
            Self::Profile => "profile",
        }
    }
}

/// Number of documents by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    pub reports: usize,
    pub alert_changes: usize,
    pub withdrawals: usize,
    pub profiles: usize,
}

impl Counts {
    pub(super) fn of(&mut self, kind: Kind) -> &mut usize {
        match kind {
            Kind::Report => &mut self.reports,
            Kind::AlertChange => &mut self.alert_changes,
            Kind::Withdrawal => &mut self.withdrawals,
            Kind::Profile => &mut self.profiles,
        }
    }

    pub fn all(&self) -> usize {
        self.reports + self.alert_changes + self.withdrawals + self.profiles
    }
}

/// Any line of a stream, or the content of a file of a folder.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    #[serde(deserialize_with = "known_format")]
    #[expect(dead_code, reason = "it is checked while it is read")]
    format: (),
    /// The first line of a stream.
    pub(super) export: Option<Origin>,
    /// The last line of a stream.
    pub(super) end: Option<Counts>,
    report: Option<Box<Report>>,
    alert_change: Option<AlertChange>,
    withdrawal: Option<Withdrawal>,
    profile: Option<Box<Profile>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Origin {
    pub(super) wingbeat: String,
}

/// Deserialized first, so that a newer format is refused before anything else of it is read.
fn known_format<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    match u32::deserialize(deserializer)? {
        0..=FORMAT => Ok(()),
        format => Err(D::Error::custom(format!(
            "{NEWER} {format}, and this wingbeat knows formats up to {FORMAT}; a newer wingbeat has written it and can \
             read it"
        ))),
    }
}

const NEWER: &str = "it has format";

impl Line {
    /// The document. `None` if the line has none.
    pub(super) fn document(self) -> Option<Document> {
        let Self { report, alert_change, withdrawal, profile, .. } = self;
        report
            .map(Document::Report)
            .or_else(|| alert_change.map(Document::AlertChange))
            .or_else(|| withdrawal.map(Document::Withdrawal))
            .or_else(|| profile.map(Document::Profile))
    }
}

/// Why a line without a document is refused.
pub(super) const NO_DOCUMENT: &str =
    "it has no report, no change of an alert, no withdrawal and no profile";

/// Why the `number`-th line cannot be read.
pub(super) fn reason(error: &serde_json::Error, number: usize) -> String {
    use serde_json::error::Category;
    let text = error.to_string();
    match error.classify() {
        _ if text.starts_with(NEWER) => text,
        Category::Io | Category::Eof => {
            format!("it is cut off or damaged in document {number}: {text}")
        }
        _ if number == 1 => {
            format!("it was not written by `wingbeat export`, or it is broken: {text}")
        }
        _ => format!("document {number} is broken: {text}"),
    }
}

/// Content in the form of a line: its format comes first.
pub(super) struct Form<T>(pub(super) &'static str, pub(super) T);

impl<T: Serialize> Serialize for Form<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("format", &FORMAT)?;
        map.serialize_entry(self.0, &self.1)?;
        map.end()
    }
}

impl Document {
    /// Parses a line.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        line.document().ok_or_else(|| NO_DOCUMENT.to_owned())
    }

    /// The document as a line, without a line feed.
    pub fn line(&self) -> Result<String, serde_json::Error> {
        let mut line = Vec::new();
        self.write(&mut line)?;
        String::from_utf8(line).map_err(|error| serde_json::Error::io(io::Error::other(error)))
    }

    /// Writes the document as a line, without a line feed.
    pub(super) fn write(&self, to: impl io::Write) -> Result<(), serde_json::Error> {
        match self {
            Self::Report(report) => serde_json::to_writer(to, &Form("report", report)),
            Self::AlertChange(change) => serde_json::to_writer(to, &Form("alert_change", change)),
            Self::Withdrawal(one) => serde_json::to_writer(to, &Form("withdrawal", one)),
            Self::Profile(profile) => serde_json::to_writer(to, &Form("profile", profile)),
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

    pub(super) fn time(&self) -> OffsetDateTime {
        match self {
            Self::Report(report) => report.start_time,
            Self::AlertChange(change) => change.time,
            Self::Withdrawal(withdrawal) => withdrawal.time,
            Self::Profile(profile) => profile.about.time,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Report(_) => Kind::Report,
            Self::AlertChange(_) => Kind::AlertChange,
            Self::Withdrawal(_) => Kind::Withdrawal,
            Self::Profile(_) => Kind::Profile,
        }
    }
}

/// Decompresses gzip. Other content is unchanged.
pub(super) fn unpacked<'r>(from: impl Read + 'r) -> io::Result<Box<dyn BufRead + 'r>> {
    let mut from = BufReader::with_capacity(1 << 16, from);
    // RFC 1952: these two bytes begin each member. JSON never begins with them.
    let is_gzip = from.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(match is_gzip {
        true => Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(from))),
        false => Box::new(from),
    })
}

/// The lines of a stream: documents, usually one per line: parsing from memory is three times as fast as byte by byte. A
/// document spanning several lines, as people write it, is parsed as a stream.
pub(super) struct Lines<'r> {
    from: &'r mut dyn BufRead,
    /// The rest of the last line.
    line: Vec<u8>,
}

/// Maximum length of a line: input without line breaks may be endless.
const LINE_BYTES_MAX: u64 = 64 << 20;

impl<'r> Lines<'r> {
    pub(super) fn of(from: &'r mut dyn BufRead) -> Self {
        Self { from, line: Vec::new() }
    }
}

impl Iterator for Lines<'_> {
    type Item = serde_json::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.line.trim_ascii().is_empty() {
            self.line.clear();
            match Read::take(&mut *self.from, LINE_BYTES_MAX).read_until(b'\n', &mut self.line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(Err(serde_json::Error::io(error))),
            }
        }
        let mut documents = serde_json::Deserializer::from_slice(&self.line).into_iter();
        let document = documents.next()?;
        let end = documents.byte_offset();
        if document.as_ref().is_err_and(serde_json::Error::is_eof) {
            let rest = Read::chain(&*self.line, &mut *self.from);
            let whole = Line::deserialize(&mut serde_json::Deserializer::from_reader(rest));
            self.line.clear();
            return Some(whole);
        }
        self.line.drain(..end);
        Some(document)
    }
}

/// SHA-256 of a report's canonical document.
pub(super) type Digest = [u8; 32];

/// The SHA-256 of a report's canonical document: the JSON of an export, with times in UTC and without the sign of zero,
/// neither of which every engine keeps.
pub(super) fn digest(report: &Report) -> SqlResult<Digest> {
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, Canonical);
    in_utc(report).serialize(&mut serializer).map_err(Error::value)?;
    Ok(Sha256::digest(&text).into())
}

fn in_utc(report: &Report) -> Cow<'_, Report> {
    let until = report.start_point.as_ref().and_then(|start| start.until);
    let times = [Some(report.start_time), Some(report.end_time), until];
    if times.into_iter().flatten().all(|time| time.offset().is_utc()) {
        return Cow::Borrowed(report);
    }
    let mut report = report.clone();
    let until = report.start_point.as_mut().and_then(|start| start.until.as_mut());
    for time in [&mut report.start_time, &mut report.end_time].into_iter().chain(until) {
        *time = time.to_offset(UtcOffset::UTC);
    }
    Cow::Owned(report)
}

struct Canonical;

impl Formatter for Canonical {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        CompactFormatter.write_f64(writer, value + 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{BenchmarkName, Measure, Metric, Results};

    #[test]
    fn a_digest_depends_on_the_content_alone() {
        let report = |value: f64, time: OffsetDateTime| {
            let mut results = Results::default();
            let name = BenchmarkName::new("a").expect("a name");
            results.add(name, Measure::latency(), Metric::new(value)).expect("added");
            let [project, branch, testbed] = ["p", "b", "t"];
            let names = (project.parse(), branch.parse(), testbed.parse());
            let (project, branch, testbed) =
                (names.0.expect("a name"), names.1.expect("a name"), names.2.expect("a name"));
            let iterations = vec![results];
            Report { iterations, ..Report::new(Uuid::nil(), project, branch, testbed, time) }
        };
        let utc = OffsetDateTime::UNIX_EPOCH;
        let elsewhere = utc.to_offset(UtcOffset::from_hms(2, 0, 0).expect("an offset"));
        let of = |value, time| digest(&report(value, time)).expect("a digest");
        assert_eq!(of(0.0, utc), of(-0.0, elsewhere));
        assert_ne!(of(0.0, utc), of(f64::MIN_POSITIVE, utc));
        assert_ne!(of(0.0, utc), of(0.0, utc + time::Duration::NANOSECOND));
    }

    #[test]
    fn documents_come_back() {
        let withdrawal = Withdrawal {
            uuid: Uuid::from_u128(1),
            report: Uuid::from_u128(2),
            time: OffsetDateTime::UNIX_EPOCH,
            reason: None,
        };
        let document = Document::Withdrawal(withdrawal);
        let line = document.line().expect("a line");
        assert!(line.starts_with(r#"{"format":1,"withdrawal":{"#), "{line}");
        assert_eq!(Document::parse(line.as_bytes()), Ok(document));
        assert_eq!(Document::parse(br#"{"format":1}"#), Err(NO_DOCUMENT.to_owned()));
        let newer = line.replace("\"format\":1", "\"format\":2");
        let refused = Document::parse(newer.as_bytes()).expect_err("newer");
        assert!(refused.contains("a newer wingbeat has written it"), "{refused}");
    }

    /// Checks the number of documents in a text, or the error.
    fn check(text: &str, expected: Result<usize, &str>) {
        let mut from = text.as_bytes();
        let mut count = 0;
        let mut found = Ok(());
        for line in Lines::of(&mut from) {
            match line {
                Ok(_) => count += 1,
                Err(error) => {
                    found = Err(error.to_string());
                    break;
                }
            }
        }
        match (found, expected) {
            (Ok(()), Ok(expected)) => assert_eq!(count, expected, "{text}"),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{text}: {found}"),
            (found, expected) => panic!("{text}: {count}, {found:?} in place of {expected:?}"),
        }
    }

    #[test]
    fn documents_need_not_be_lines() {
        let one = r#"{"format":1,"end":{"reports":0,"alert_changes":0}}"#;
        let pretty = one.replace(',', ",\n  ").replace('{', "{\r\n");
        for separator in ["\n", "", " ", "\n\n", "\r\n"] {
            check(&[one, one, one].join(separator), Ok(3));
            check(&[pretty.as_str(), one, &pretty].join(separator), Ok(3));
        }
        check("", Ok(0));
        check(" \n\n", Ok(0));
        check(&format!("{one}\n{}", &one[..20]), Err("EOF"));
        check(&format!("{one}\nnothing\n{one}"), Err("expected ident"));
    }
}
