//! Reads and parses small kernel files.

use std::{fs, io};

/// Trimmed content of a one-line file.
pub(super) fn line(path: &str) -> io::Result<String> {
    fs::read_to_string(path).map(|text| text.trim().to_owned())
}

/// Major and minor version of a kernel release such as `6.1.0-44-cloud-amd64`.
pub(super) fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

/// The selected value in `none [integrity] confidentiality`.
pub(super) fn chosen(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

/// Whether a file system of type `kind` is listed in the text of `/proc/self/mounts`.
pub(super) fn is_mounted(mounts: &str, kind: &str) -> bool {
    mounts.lines().any(|line| line.split(' ').nth(2) == Some(kind))
}

/// Whether any line of `/proc/kallsyms` has an address. Without the privilege all are 0.
pub(super) fn has_addresses(symbols: &str) -> bool {
    symbols.lines().any(|line| {
        line.split(' ').next().is_some_and(|address| {
            address.len() == 16 && address.bytes().any(|digit| digit != b'0')
        })
    })
}
