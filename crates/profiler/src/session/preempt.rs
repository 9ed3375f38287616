//! Whether the kernel may preempt a task while the program of a uprobe runs for it.

use std::fs;

/// Why such programs are not loaded where nothing keeps two of them apart.
pub(super) const REFUSED: &str = "this kernel may preempt the probes of one thread for those of another, which share \
                                  memory from Linux 6.13 on, and cannot prevent that before 6.15; use another kernel, \
                                  or boot with preempt=voluntary";

/// What the kernel was built for, and what was chosen when it was booted.
pub(super) fn is_possible() -> bool {
    let version = rustix::system::uname().version().to_string_lossy().into_owned();
    let chosen = fs::read_to_string("/sys/kernel/debug/sched/preempt").unwrap_or_default();
    is_possible_with(&version, &chosen)
}

fn is_possible_with(version: &str, chosen: &str) -> bool {
    version.contains("PREEMPT") && !["(none)", "(voluntary)"].iter().any(|it| chosen.contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_and_choices() {
        let check = |version, chosen, expected| {
            assert_eq!(is_possible_with(version, chosen), expected, "{version} {chosen}");
        };
        check("#1 SMP Debian 6.1.1", "", false);
        check("#1 SMP PREEMPT_DYNAMIC", "none (voluntary) full\n", false);
        check("#1 SMP PREEMPT_DYNAMIC", "(none) voluntary full\n", false);
        check("#1 SMP PREEMPT_DYNAMIC", "full (lazy)\n", true);
        // Nobody says.
        check("#1 SMP PREEMPT_DYNAMIC", "", true);
        check("#1 SMP PREEMPT_RT", "", true);
    }
}
