//! Names of files: readable, unique, and within the place.

use time::{OffsetDateTime, format_description::StaticFormatDescription};
use uuid::Uuid;

const START: StaticFormatDescription =
    time::macros::format_description!("[year][month][day]T[hour][minute][second]Z");

/// Maximum characters of a name within a file name.
const NAME_CHARS_MAX: usize = 60;

/// Minimum disk usage of a file.
const DISK_BLOCK: u64 = 4096;

/// Suffix of all files.
pub(super) const SUFFIX: &str = ".pb.gz";

/// Path of a block: `PROJECT/SERVICE/process_cpu-20261128T020000Z-600s-01a22e0c.pb.gz`.
pub(in crate::profiles) fn path(
    (project, service, name): (&str, &str, &str),
    (start_ns, end_ns): (i64, i64),
) -> String {
    let start = OffsetDateTime::from_unix_timestamp_nanos(start_ns.into())
        .unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let start = start.format(START).unwrap_or_default();
    let seconds = end_ns.saturating_sub(start_ns) / 1_000_000_000;
    let id = Uuid::now_v7().simple();
    format!("{}/{}/{}-{start}-{seconds}s-{id}{SUFFIX}", plain(project), plain(service), plain(name))
}

/// Bytes that a file takes on a disk.
pub(in crate::profiles) fn disk_bytes(bytes: usize) -> i64 {
    i64::try_from((bytes as u64).next_multiple_of(DISK_BLOCK)).unwrap_or(i64::MAX)
}

/// Sanitizes a text as a file name that cannot escape the folder.
fn plain(text: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || "._".contains(c) { c } else { '-' };
    let name: String = text.chars().take(NAME_CHARS_MAX).map(fit).collect();
    match name.starts_with('.') || name.is_empty() {
        true => format!("_{name}"),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_readable_and_stay_in_the_folder() {
        let check = |service: &str, expected: &str| {
            let start = 1_795_820_400_000_000_000;
            let found = path(("p", service, "process_cpu"), (start, start + 600_000_000_000));
            let (readable, id) = found.rsplit_once('-').expect("an ID");
            assert_eq!(readable, format!("p/{expected}/process_cpu-20261127T230000Z-600s"));
            assert_eq!(id.len(), 32 + SUFFIX.len());
        };
        check("nginx", "nginx");
        check("..", "_..");
        check("../../etc/ä b", "_..-..-etc---b");
        check("", "_");
        check(&"x".repeat(500), &"x".repeat(60));
    }
}
