//! The CPUs of this machine.

use std::{fs, io};

/// Numbers of the online CPUs, ascending. Fails if the kernel does not report them.
pub fn online() -> io::Result<Vec<u32>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let cpus = listed(text.trim()).filter(|cpus| !cpus.is_empty());
    cpus.ok_or_else(|| io::Error::other(format!("no list of CPUs: {text:?}")))
}

/// Parses a list such as `0-3,8`, which may be empty; `None` if it is invalid.
pub fn listed(list: &str) -> Option<Vec<u32>> {
    /// More than any kernel supports (`CONFIG_NR_CPUS`).
    const CPUS_MAX: u32 = 1 << 16;
    let mut all = Vec::new();
    for range in list.split(',').filter(|_| !list.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last >= CPUS_MAX || first > last {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        let check = |list, expected: Option<&[u32]>| {
            assert_eq!(listed(list).as_deref(), expected, "{list:?}");
        };
        check("0", Some(&[0]));
        check("0-2,5,8-9", Some(&[0, 1, 2, 5, 8, 9]));
        check("", Some(&[]));
        check("a", None);
        check("1-", None);
        check("0,", None);
        check("2-1", None);
        check("0-4294967295", None);
    }
}
