//! Maps lines between two versions of a file, so that counts per line can be compared even if lines were added above.

use std::time::Duration;

use similar::{DiffOp, TextDiff};

/// Time limit, after which large files with little in common are compared roughly.
const TIME_MAX: Duration = Duration::from_secs(1);

/// The line mapping between two versions of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LineMapping {
    /// For each line of the earlier version its number in the later one, if it still exists.
    later: Vec<Option<u32>>,
    /// For each line of the later version its number in the earlier one, or that of the line it replaced.
    earlier: Vec<Option<u32>>,
}

impl LineMapping {
    pub(super) fn between(earlier: &str, later: &str) -> Self {
        let (earlier, later): (Vec<_>, Vec<_>) =
            (earlier.lines().collect(), later.lines().collect());
        let mut mapping =
            Self { later: vec![None; earlier.len()], earlier: vec![None; later.len()] };
        let difference = TextDiff::configure().timeout(TIME_MAX).diff_slices(&earlier, &later);
        for part in difference.ops() {
            match *part {
                DiffOp::Equal { old_index, new_index, len } => {
                    for at in 0..len {
                        mapping.set_later(old_index + at, new_index + at);
                        mapping.set_earlier(new_index + at, old_index + at);
                    }
                }
                DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                    for at in 0..new_len {
                        mapping.set_earlier(new_index + at, old_index + at.min(old_len - 1));
                        // The same number of lines: assumes they were edited in place.
                        if old_len == new_len {
                            mapping.set_later(old_index + at, new_index + at);
                        }
                    }
                }
                DiffOp::Delete { .. } | DiffOp::Insert { .. } => {}
            }
        }
        mapping
    }

    fn set_later(&mut self, from: usize, to: usize) {
        if let Some(place) = self.later.get_mut(from) {
            *place = number(to);
        }
    }

    fn set_earlier(&mut self, from: usize, to: usize) {
        if let Some(place) = self.earlier.get_mut(from) {
            *place = number(to);
        }
    }

    /// The later number of a line, also of an edited one. `None` if it was removed.
    pub(super) fn later(&self, line: u32) -> Option<u32> {
        at(&self.later, line)
    }

    /// The earlier number of a line, or that of the line it replaced. `None` if it was added.
    pub(super) fn earlier(&self, line: u32) -> Option<u32> {
        at(&self.earlier, line)
    }
}

fn at(lines: &[Option<u32>], line: u32) -> Option<u32> {
    *lines.get(usize::try_from(line).ok()?.checked_sub(1)?)?
}

fn number(index: usize) -> Option<u32> {
    u32::try_from(index + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_where_they_went() {
        let check = |earlier: &str, later: &str, expected: &[Option<u32>], back: &[Option<u32>]| {
            let mapping = LineMapping::between(earlier, later);
            let lines = (1..).take(expected.len());
            assert_eq!(lines.map(|line| mapping.later(line)).collect::<Vec<_>>(), expected);
            let lines = (1..).take(back.len());
            assert_eq!(lines.map(|line| mapping.earlier(line)).collect::<Vec<_>>(), back);
        };
        check("a\nb\n", "a\nb\n", &[Some(1), Some(2), None], &[Some(1), Some(2), None]);
        check("a\nb", "x\na\ny\nb\n", &[Some(2), Some(4)], &[None, Some(1), None, Some(2)]);
        check("a\nb\nc\n", "a\nc\n", &[Some(1), None, Some(2)], &[Some(1), Some(3)]);
        check(
            "a\nb\nc\n",
            "a\nx\ny\nc\n",
            &[Some(1), None, Some(4)],
            &[Some(1), Some(2), Some(2), Some(3)],
        );
        check("a\nb\n", "x\na\nc\n", &[Some(2), Some(3)], &[None, Some(1), Some(2)]);
        check("", "a\n", &[None], &[None]);
        assert_eq!(LineMapping::between("a", "a").later(0), None);
    }
}
