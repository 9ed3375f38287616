//! How many CPUs the machine has.

use std::fs;

/// More than any kernel has (`CONFIG_NR_CPUS`).
const CPUS_MAX: u32 = 1 << 16;

/// Number of CPUs that are online, whatever this process may use of them; at least 1.
pub fn cpus_online() -> u32 {
    fs::read_to_string("/sys/devices/system/cpu/online")
        .ok()
        .and_then(|list| count(&list))
        .unwrap_or(1)
}

/// Number of CPUs in a list such as `0-3,8`.
fn count(list: &str) -> Option<u32> {
    let number = |text: &str| text.trim().parse().ok().filter(|&cpu: &u32| cpu < CPUS_MAX);
    let part = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        (number(last)? + 1).checked_sub(number(first)?).filter(|&cpus| cpus > 0)
    };
    list.trim().split(',').try_fold(0_u32, |sum, range| sum.checked_add(part(range)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        let check = |list, expected| assert_eq!(count(list), expected, "{list:?}");
        check("0\n", Some(1));
        check("0-1\n", Some(2));
        check("0-3,8,10-11\n", Some(7));
        check("3-1", None);
        check("0-4294967295", None);
        check("", None);
        check("x", None);
        assert!(cpus_online() >= 1);
    }
}
