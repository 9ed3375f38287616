//! The stacks with most blocked time: the table shown after a run.

use super::places::{innermost_call, innermost_user, program_functions, woken_by};
use crate::model::{BlockTimes, Blocked, Profile};
use crate::summary::off_cpu::merged;

/// Maximum number of program functions in a row.
const FUNCTIONS_MAX: usize = 2;

/// A stack and its blocked time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedRow {
    pub process: String,
    /// Name of the state frame without brackets: `sleeping`.
    pub state: &'static str,
    /// The waiting functions, innermost first: the last function called by the program (possibly a library's),
    /// then functions of the program.
    pub functions: Vec<String>,
    /// The waker, if recorded.
    pub woken_by: Option<String>,
    pub times: BlockTimes,
}

/// Returns the `rows_max` stacks with most blocked time. Stacks that differ only in frames not shown keep separate
/// rows.
pub fn most_blocked(profile: &Profile, rows_max: usize) -> Vec<BlockedRow> {
    let row = |(process, blocked): (&str, Blocked)| BlockedRow {
        process: process.to_owned(),
        state: blocked.state.title(),
        functions: functions(profile, blocked.stack),
        woken_by: woken_by(profile, blocked.stack).map(str::to_owned),
        times: blocked.times(),
    };
    merged(profile).into_iter().take(rows_max).map(row).collect()
}

fn functions(profile: &Profile, stack: u32) -> Vec<String> {
    let mut functions: Vec<&str> = program_functions(profile, stack).take(FUNCTIONS_MAX).collect();
    if functions.is_empty() {
        functions.extend(innermost_user(profile, stack));
    }
    if let Some(call) = innermost_call(profile, stack).filter(|call| !functions.contains(call)) {
        functions.insert(0, call);
    }
    functions.into_iter().map(short).collect()
}

/// Longer path names are shortened at the front.
const PATH_CHARS_MAX: usize = 32;

/// Shortens a name for a narrow column: a long path keeps its last two parts.
fn short(name: &str) -> String {
    if name.chars().count() <= PATH_CHARS_MAX || name.contains('<') {
        return name.to_owned();
    }
    let mut parts: Vec<&str> = name.rsplit("::").take(2).collect();
    parts.reverse();
    parts.join("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_for_a_narrow_column() {
        let check = |name, expected| assert_eq!(short(name), expected);
        check("main", "main");
        check("profiler::drain::process_sample", "profiler::drain::process_sample");
        check("profiler::drain::oops::process_sample", "oops::process_sample");
        check(
            "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop",
            "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop",
        );
    }
}
