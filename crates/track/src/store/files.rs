//! The files of an exported store: their names, their content, and atomic writes.

use std::{
    fs::{File, Permissions},
    io::{self, BufRead, BufReader, BufWriter, Read, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use flate2::bufread::MultiGzDecoder;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use tempfile::NamedTempFile;
use time::{OffsetDateTime, UtcOffset};
use uuid::Uuid;
use wingbeat_sql::Connection;

use super::{
    AlertChange, Insertion, InvalidReport, SqlResult, Withdrawal,
    alerts::{insert_change, validate_change},
    insert::{insert, validate},
    profiles::{insert_profile, validate_profile},
    withdrawals::{insert_withdrawal, validate_withdrawal},
};
use crate::model::{Profile, Report};

/// The format of the files. Newer ones are rejected.
pub(super) const FORMAT: u32 = 1;

/// Approximate memory use of a metric.
const METRIC_BYTES: usize = 256;

const REPORT_END: &str = ".json";

const CHANGE_END: &str = ".alert.json";

const WITHDRAWAL_END: &str = ".withdrawal.json";

const PROFILE_END: &str = ".profile.json";

const UNFINISHED: &str = ".unfinished-";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum FileKind {
    /// A report with its alerts as raised.
    Report,
    AlertChange,
    Withdrawal,
    Profile,
}

#[derive(Debug, Serialize)]
pub(super) struct Document<T> {
    format: u32,
    #[serde(flatten)]
    content: T,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ReportContent {
    pub(super) report: Report,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ChangeContent {
    pub(super) alert_change: AlertChange,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WithdrawalContent {
    pub(super) withdrawal: Withdrawal,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProfileContent {
    pub(super) profile: Profile,
}

/// The header of a file of any format.
#[derive(Deserialize)]
struct Claim {
    format: u32,
    alert_change: Option<IgnoredAny>,
    withdrawal: Option<IgnoredAny>,
    profile: Option<IgnoredAny>,
}

#[derive(Debug)]
pub(super) enum Content {
    Report(Box<Report>),
    AlertChange(AlertChange),
    Withdrawal(Withdrawal),
    Profile(Box<Profile>),
}

impl Content {
    pub(super) fn validate(&self) -> Result<(), InvalidReport> {
        match self {
            Self::Report(report) => validate(report),
            Self::AlertChange(change) => validate_change(change),
            Self::Withdrawal(withdrawal) => validate_withdrawal(withdrawal),
            Self::Profile(profile) => validate_profile(profile),
        }
    }

    /// Stores the content, and returns whether it is new.
    pub(super) fn insert(&self, db: &Connection) -> SqlResult<bool> {
        match self {
            Self::Report(report) => Ok(insert(db, report)? == Insertion::Stored),
            Self::AlertChange(change) => insert_change(db, change),
            Self::Withdrawal(withdrawal) => insert_withdrawal(db, withdrawal),
            Self::Profile(profile) => insert_profile(db, profile),
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
}

/// Memory use of a profile, in metrics.
pub(super) fn profile_metrics(profile: &Profile) -> usize {
    profile.pprof.as_ref().map_or(0, Vec::len) / METRIC_BYTES
}

impl<T> Document<T> {
    pub(super) fn new(content: T) -> Self {
        Self { format: FORMAT, content }
    }
}

/// The name of a file: `2026-11-21T22-04-32Z-<uuid>.json`. Valid on every file system, and sorts by time.
pub(super) fn name(kind: FileKind, time: OffsetDateTime, uuid: Uuid) -> String {
    let time = time.to_offset(UtcOffset::UTC);
    let end = match kind {
        FileKind::Report => REPORT_END,
        FileKind::AlertChange => CHANGE_END,
        FileKind::Withdrawal => WITHDRAWAL_END,
        FileKind::Profile => PROFILE_END,
    };
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    let (hour, minute, second) = time.to_hms();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}Z-{uuid}{end}")
}

/// Parses a name made by [`name`].
pub(super) fn parse_name(name: &str) -> Option<(FileKind, Uuid)> {
    let (kind, rest) = if let Some(rest) = name.strip_suffix(CHANGE_END) {
        (FileKind::AlertChange, rest)
    } else if let Some(rest) = name.strip_suffix(WITHDRAWAL_END) {
        (FileKind::Withdrawal, rest)
    } else if let Some(rest) = name.strip_suffix(PROFILE_END) {
        (FileKind::Profile, rest)
    } else {
        (FileKind::Report, name.strip_suffix(REPORT_END)?)
    };
    let uuid = rest.get(rest.len().checked_sub(36)?..)?;
    Some((kind, Uuid::try_parse(uuid).ok()?))
}

/// Whether a file of that name is probably not ours: notes, git's own files, files being written.
pub(super) fn is_of_others(name: &str) -> bool {
    name.starts_with('.') || !name.ends_with(REPORT_END)
}

/// A temporary file without a final name.
pub(super) fn new_file(folder: &Path) -> io::Result<NamedTempFile> {
    // As for other new files, subject to the umask.
    let permissions = Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(UNFINISHED).permissions(permissions).tempfile_in(folder)
}

/// Writes a new file atomically. Returns `false` if it already exists, unchanged.
pub(super) fn write(folder: &Path, name: &str, content: &impl Serialize) -> io::Result<bool> {
    let mut file = new_file(folder)?;
    let mut buffer = BufWriter::new(&mut file);
    serde_json::to_writer(&mut buffer, content)?;
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

/// Why a document of a newer format is rejected.
pub(super) fn newer(format: u32) -> String {
    format!(
        "it has format {format}, and this wingbeat knows formats up to {FORMAT}; a newer wingbeat has \
         written it and can read it"
    )
}

pub(super) fn read(path: &Path) -> Result<Content, String> {
    // Reads it twice, rather than keeping the text in memory.
    let text = || {
        let file = File::open(path).and_then(unpacked);
        file.map_err(|error| format!("it cannot be read: {error}"))
    };
    let broken = |error: serde_json::Error| format!("it is broken: {error}");
    let claim: Claim = serde_json::from_reader(text()?).map_err(|error| match error.is_data() {
        true => "it was not written by `wingbeat export`: it has no format".to_owned(),
        false => broken(error),
    })?;
    if claim.format > FORMAT {
        return Err(newer(claim.format));
    }
    if claim.alert_change.is_some() {
        let content: ChangeContent = serde_json::from_reader(text()?).map_err(broken)?;
        return Ok(Content::AlertChange(content.alert_change));
    }
    if claim.withdrawal.is_some() {
        let content: WithdrawalContent = serde_json::from_reader(text()?).map_err(broken)?;
        return Ok(Content::Withdrawal(content.withdrawal));
    }
    if claim.profile.is_some() {
        let content: ProfileContent = serde_json::from_reader(text()?).map_err(broken)?;
        return Ok(Content::Profile(Box::new(content.profile)));
    }
    let content: ReportContent = serde_json::from_reader(text()?).map_err(broken)?;
    Ok(Content::Report(Box::new(content.report)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_time_and_uuid() {
        let uuid = Uuid::from_u128(0xab);
        let time = OffsetDateTime::from_unix_timestamp(1_795_298_672).expect("a time");
        let text = "00000000-0000-0000-0000-0000000000ab";
        let check = |kind, expected: &str| {
            let name = name(kind, time, uuid);
            assert_eq!(name, expected);
            assert_eq!(parse_name(&name), Some((kind, uuid)));
        };
        check(FileKind::Report, &format!("2026-11-21T22-04-32Z-{text}.json"));
        check(FileKind::AlertChange, &format!("2026-11-21T22-04-32Z-{text}.alert.json"));
        check(FileKind::Withdrawal, &format!("2026-11-21T22-04-32Z-{text}.withdrawal.json"));
        check(FileKind::Profile, &format!("2026-11-21T22-04-32Z-{text}.profile.json"));
        for other in
            ["", "a.json", ".json", "README.md", "ö00000000-0000-0000-0000-0000000000a.json"]
        {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }
}
