//! Lists a ring's entries in a time range, without trusting its files or expecting them to stay.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::names::{self, LABELS, Labels};
use crate::{error::FolderError, window::Kind};

/// Largest `labels.json` to read, in bytes.
const LABELS_BYTES_MAX: u64 = 64 << 20;

/// A file of a ring, with its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// A profile in pprof's format, gzip'd. The ring may remove it at any time.
    pub path: PathBuf,
    pub start: SystemTime,
    pub duration: Duration,
    pub kind: Kind,
    pub labels: BTreeMap<String, String>,
}

/// Entries of a ring in a time range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Oldest first.
    pub entries: Vec<Entry>,
    /// Windows with an invalid `labels.json`.
    pub damaged: Vec<PathBuf>,
}

pub(super) fn list(
    folder: &Path,
    since: SystemTime,
    until: SystemTime,
) -> Result<Listing, FolderError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(FolderError::of("reading", folder))? {
        let path = entry.map_err(FolderError::of("reading", folder))?.path();
        let Some((start, duration)) = names::span(&path) else { continue };
        // The name has a resolution of one second.
        let end = start.checked_add(duration.saturating_add(Duration::from_secs(2)));
        if start < until && end.is_none_or(|end| end > since) {
            found.push((start, path));
        }
    }
    found.sort();
    let mut listing = Listing::default();
    for (_, path) in found {
        let labels = match labels(&path) {
            Ok(Some(labels)) => labels,
            // The ring has just removed it.
            Ok(None) => continue,
            Err(()) => {
                listing.damaged.push(path);
                continue;
            }
        };
        let (start, duration) = (labels.start(), labels.duration());
        let end = start.checked_add(duration).unwrap_or(start);
        if start >= until || end <= since {
            continue;
        }
        match entries(&path, labels) {
            Some(entries) => listing.entries.extend(entries),
            None => listing.damaged.push(path),
        }
    }
    listing.entries.sort_by_key(|entry| entry.start);
    Ok(listing)
}

pub(super) fn range(folder: &Path) -> Result<Option<(SystemTime, SystemTime)>, FolderError> {
    let mut range: Option<(SystemTime, SystemTime)> = None;
    for entry in fs::read_dir(folder).map_err(FolderError::of("reading", folder))? {
        let path = entry.map_err(FolderError::of("reading", folder))?.path();
        let Some((start, duration)) = names::span(&path) else { continue };
        let end = start.checked_add(duration).unwrap_or(start);
        let (oldest, newest) = range.unwrap_or((start, end));
        range = Some((oldest.min(start), newest.max(end)));
    }
    Ok(range)
}

/// `None` if the window has been removed.
fn labels(window: &Path) -> Result<Option<Labels>, ()> {
    let mut bytes = Vec::new();
    let read = fs::File::open(window.join(LABELS))
        .and_then(|file| file.take(LABELS_BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) => serde_json::from_slice(&bytes).map(Some).map_err(|_| ()),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !window.exists() => Ok(None),
        Err(_) => Err(()),
    }
}

fn entries(window: &Path, labels: Labels) -> Option<Vec<Entry>> {
    let (start, duration) = (labels.start(), labels.duration());
    let entry = |of: names::LabelsOfFile| {
        // A path to another folder is not an entry of the ring.
        let is_plain = Path::new(&of.file).file_name().is_some_and(|name| name == of.file.as_str());
        let kind = Kind::of_name(&of.kind).filter(|_| is_plain)?;
        Some(Entry { path: window.join(of.file), start, duration, kind, labels: of.labels })
    };
    labels.series.into_iter().map(entry).collect()
}

/// For the fuzz target: the entries of a window with these labels.
pub(super) fn fuzz(window: &Path, labels: &[u8]) -> Vec<Entry> {
    let labels: Option<Labels> = serde_json::from_slice(labels).ok();
    labels.and_then(|labels| entries(window, labels)).unwrap_or_default()
}
