//! Reads collapsed stacks, as tolerant as other tools.

use std::collections::BTreeMap;

use super::{DiffError, Unit};
use crate::export::printable;
use crate::model::State;

/// Characters of an invalid line to show in an error.
const SHOWN_CHARS_MAX: usize = 60;

/// Sums up all stacks. Skips empty lines and comments, and truncates fractional counts, as inferno does.
pub(super) fn read(name: &str, bytes: &[u8]) -> Result<BTreeMap<String, u64>, DiffError> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let text = String::from_utf8_lossy(bytes);
    for (position, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || is_comment(line) {
            continue;
        }
        let (stack, count) = parse(line).ok_or_else(|| DiffError::Line {
            name: name.to_owned(),
            line: position + 1,
            text: line.chars().take(SHOWN_CHARS_MAX).collect(),
        })?;
        if count > 0 {
            let sum = counts.entry(printable(stack).into_owned()).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    Ok(counts)
}

/// Nanoseconds if a stack ends in an off-CPU state; the format itself has no unit.
pub(super) fn unit(counts: &BTreeMap<String, u64>) -> Unit {
    let has_state = |stack: &String| {
        stack.split(';').any(|frame| State::ALL.iter().any(|state| state.frame() == frame))
    };
    if counts.keys().any(has_state) { Unit::Nanoseconds } else { Unit::Samples }
}

/// `# text`. A frame may begin with `#`, but without the space.
fn is_comment(line: &str) -> bool {
    let rest = line.strip_prefix('#');
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// `stack count`, split at the last space.
fn parse(line: &str) -> Option<(&str, u64)> {
    let (stack, count) = line.rsplit_once(char::is_whitespace)?;
    let (whole, fraction) = count.split_once('.').unwrap_or((count, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let stack = stack.trim_end();
    if stack.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    Some((stack, whole.parse().ok()?))
}
