//! Names of a ring's folders and files.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, PrimitiveDateTime, format_description::StaticFormatDescription};

use crate::window::{Window, time_of, unix_ns};

/// The file with the metadata of the others.
pub(super) const LABELS: &str = "labels.json";
/// Prefix of a window while it is incomplete or being removed.
pub(super) const HALF_PREFIX: &str = ".half-";

const START: StaticFormatDescription =
    time::macros::format_description!("[year][month][day]T[hour][minute][second]Z");

/// Maximum characters of a service's name in a file name.
const SERVICE_CHARS_MAX: usize = 60;

/// Contents of `labels.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Labels {
    /// 1.
    pub(super) format: u32,
    pub(super) start_unix_ns: i64,
    pub(super) duration_ns: u64,
    pub(super) series: Vec<LabelsOfFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LabelsOfFile {
    pub(super) file: String,
    pub(super) kind: String,
    pub(super) labels: BTreeMap<String, String>,
}

impl Labels {
    pub(super) fn start(&self) -> SystemTime {
        time_of(self.start_unix_ns)
    }

    pub(super) fn duration(&self) -> Duration {
        Duration::from_nanos(self.duration_ns)
    }
}

/// The files of a window, `labels.json` last.
pub(super) fn files(window: &Window) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::with_capacity(window.series.len() + 1);
    let mut series = Vec::with_capacity(window.series.len());
    for (number, it) in window.series.iter().enumerate() {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._".contains(c) { c } else { '-' };
        let service: String = it.service().chars().take(SERVICE_CHARS_MAX).map(plain).collect();
        let (kind, labels) = (it.kind.name(), it.labels.clone());
        let file = format!("{kind}-{service}-{number}.pb.gz");
        files.push((file.clone(), it.pprof.clone()));
        series.push(LabelsOfFile { file, kind: kind.to_owned(), labels });
    }
    let labels = Labels {
        format: 1,
        start_unix_ns: unix_ns(window.start),
        duration_ns: u64::try_from(window.duration.as_nanos()).unwrap_or(u64::MAX),
        series,
    };
    // Cannot fail: numbers, texts, and maps of texts.
    let labels = serde_json::to_vec_pretty(&labels).unwrap_or_default();
    files.push((LABELS.to_owned(), labels));
    files
}

/// Folder name of a window; another for each attempt.
pub(super) fn folder(window: &Window, attempt: u32) -> String {
    let start: OffsetDateTime =
        OffsetDateTime::from_unix_timestamp_nanos(unix_ns(window.start).into())
            .unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let start = start.format(START).unwrap_or_else(|_| "19700101T000000Z".to_owned());
    let seconds = (window.duration.as_nanos() + 500_000_000) / 1_000_000_000;
    let seconds = seconds.max(1);
    match attempt {
        0 => format!("{start}-{seconds}s"),
        attempt => format!("{start}-{seconds}s.{attempt}"),
    }
}

/// Start and length of a window from its folder's name, with a resolution of one second; it may end up to two
/// seconds later.
pub(super) fn span(path: &Path) -> Option<(SystemTime, Duration)> {
    let name = path.file_name()?.to_str()?;
    let (start, rest) = name.split_once('-')?;
    let start = PrimitiveDateTime::parse(start, START).ok()?.assume_utc();
    let (seconds, attempt) = rest.split_once('s')?;
    let is_attempt = |text: &str| text.parse::<u32>().is_ok();
    if !attempt.is_empty() && !attempt.strip_prefix('.').is_some_and(is_attempt) {
        return None;
    }
    Some((start.into(), Duration::from_secs(seconds.parse().ok()?)))
}

/// Whether a window is incomplete or being removed.
pub(super) fn is_half(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(HALF_PREFIX.as_bytes()))
}

/// Path of a window while it is being removed.
pub(super) fn half(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{HALF_PREFIX}{name}"))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn names_say_the_span() {
        let check = |start_ns, duration_ms, attempt, expected: &str| {
            let (start, duration) = (time_of(start_ns), Duration::from_millis(duration_ms));
            let window = Window { start, duration, series: Vec::new() };
            assert_eq!(folder(&window, attempt), expected);
            let (from, length) = span(Path::new(expected)).expect("a span");
            assert!(from <= start, "{expected}");
            assert!(window.end() <= from + length + Duration::from_secs(1), "{expected}");
        };
        check(1_795_820_400_000_000_000, 15_000, 0, "20261127T230000Z-15s");
        check(1_795_820_400_000_000_000, 15_001, 0, "20261127T230000Z-15s");
        check(1_795_820_400_999_999_999, 14_501, 2, "20261127T230000Z-15s.2");
        check(0, 0, 0, "19700101T000000Z-1s");
    }

    #[test]
    fn other_names_are_no_windows() {
        let check = |name: &str| assert_eq!(span(Path::new(name)), None, "{name}");
        check("20261127T230000Z");
        check("20261327T230000Z-15s");
        check("20261127T230000Z-s");
        check("20261127T230000Z-15s.x");
        check("20261127T230000Z-15sx");
        check(".half-20261127T230000Z-15s");
        check(".lock");
        check("");
    }

    #[test]
    fn files_have_plain_names() {
        use crate::window::{Kind, Series};
        let check = |service: &str, expected: &str| {
            let labels = BTreeMap::from([("service_name".to_owned(), service.to_owned())]);
            let series = vec![Series { kind: Kind::Cpu, labels, pprof: Vec::new() }];
            let window = Window { start: UNIX_EPOCH, duration: Duration::ZERO, series };
            let files = files(&window);
            assert_eq!(files[0].0, expected);
            let labels: Labels = serde_json::from_slice(&files[1].1).expect("labels");
            assert_eq!((labels.series[0].file.as_str(), labels.format), (expected, 1));
        };
        check("nginx", "process_cpu-nginx-0.pb.gz");
        check("../../etc/ä b", "process_cpu-..-..-etc---b-0.pb.gz");
        check("", "process_cpu-unknown_service-0.pb.gz");
        check(&"x".repeat(500), &format!("process_cpu-{}-0.pb.gz", "x".repeat(60)));
    }
}
