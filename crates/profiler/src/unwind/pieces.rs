//! Current JIT-compiled code of a process, with its unwind rules.
//!
//! Compilers report only new code. It replaces the code that was at its addresses.

use std::collections::BTreeMap;

use wingbeat_profiler_abi::unwind::{FP, Rule};
use wingbeat_unwind::{RuleId, Rules};

use super::jitdump::{Change, Rows};

/// Maximum pieces of code with rules in one process, and their rows: any others have no rules.
const PIECES_MAX: usize = 1 << 18;
const ROWS_MAX: usize = 1 << 21;

/// The rule inside a function with a frame pointer.
const FRAMED: Rule = Rule::framed(FP, 16).saving_fp(-2);

/// All pieces of a process, none overlapping.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pieces {
    by_start: BTreeMap<u64, Piece>,
    rows: usize,
}

#[derive(Debug, Clone)]
struct Piece {
    end: u64,
    rows: Rows,
}

impl Pieces {
    /// Applies a change of code.
    pub(crate) fn take(&mut self, change: Change) {
        match change {
            Change::Load { start, size, rows } => self.put(start, size, rows),
            Change::Move { from, to } => {
                let Some(piece) = self.remove(from) else { return };
                self.put(to, piece.end - from, piece.rows);
            }
        }
    }

    fn put(&mut self, start: u64, size: u64, rows: Rows) {
        let end = start.saturating_add(size);
        while let Some((&before, piece)) = self.by_start.range(..end).next_back()
            && piece.end > start
        {
            self.remove(before);
        }
        let has_room = self.by_start.len() < PIECES_MAX && self.rows + rows.len() <= ROWS_MAX;
        if has_room && start < end && !rows.is_empty() {
            self.rows += rows.len();
            self.by_start.insert(start, Piece { end, rows });
        }
    }

    fn remove(&mut self, start: u64) -> Option<Piece> {
        let piece = self.by_start.remove(&start)?;
        self.rows -= piece.rows.len();
        Some(piece)
    }

    /// The rule at an address; `None` if no code with rules is there.
    pub(crate) fn rule_at(&self, address: u64) -> Option<RuleId> {
        let (start, piece) = self.by_start.range(..=address).next_back()?;
        if address >= piece.end {
            return None;
        }
        let offset = address - start;
        let after = piece.rows.partition_point(|(from, _)| u64::from(*from) <= offset);
        Some(piece.rows.get(after.checked_sub(1)?)?.1)
    }
}

/// Whether frame pointer walks go wrong in most of a piece of code. At the start and end they do in any code.
pub(crate) fn needs_rules(rows: &Rows, size: u64, rules: &Rules) -> bool {
    let ends = rows.iter().skip(1).map(|(offset, _)| u64::from(*offset)).chain([size]);
    let without: u64 = rows
        .iter()
        .zip(ends)
        .filter(|((_, id), _)| {
            let rule = rules.get(*id);
            rule != FRAMED && rule != Rule::GAP
        })
        .map(|((offset, _), end)| end.saturating_sub(u64::from(*offset)))
        .sum();
    without > size / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn load(start: u64, size: u64, rows: &[(u32, u16)]) -> Change {
        let rows = rows.iter().map(|&(offset, id)| (offset, RuleId(id))).collect();
        Change::Load { start, size, rows }
    }

    fn pieces(changes: &[Change]) -> Pieces {
        let mut pieces = Pieces::default();
        changes.iter().cloned().for_each(|change| pieces.take(change));
        pieces
    }

    #[test]
    fn new_code_replaces_what_lay_there() {
        let check = |changes: &[Change], expected: &[(u64, u16)]| {
            let pieces = pieces(changes);
            let addresses = (0..0x40).map(|at| 0x1000 + at);
            let found = addresses.filter_map(|at| Some((at, pieces.rule_at(at)?.0)));
            let mut found: Vec<_> = found.collect();
            found.dedup_by_key(|(_, id)| *id);
            assert_eq!(found, expected, "{changes:x?}");
        };
        let first = load(0x1000, 0x20, &[(0, 2), (8, 3)]);
        check(std::slice::from_ref(&first), &[(0x1000, 2), (0x1008, 3)]);
        check(&[first.clone(), load(0x1010, 0x10, &[(0, 4)])], &[(0x1010, 4)]);
        check(&[first.clone(), load(0x1010, 0x10, &[])], &[]);
        check(
            &[first.clone(), load(0x1020, 1, &[(0, 4)])],
            &[(0x1000, 2), (0x1008, 3), (0x1020, 4)],
        );
        check(
            &[first.clone(), Change::Move { from: 0x1000, to: 0x1010 }],
            &[(0x1010, 2), (0x1018, 3)],
        );
        check(
            &[first.clone(), Change::Move { from: 0x1001, to: 0x1010 }],
            &[(0x1000, 2), (0x1008, 3)],
        );
        check(&[first, load(0, u64::MAX, &[])], &[]);
        check(&[load(u64::MAX, 5, &[(0, 2)])], &[]);
    }

    #[test]
    fn code_without_frame_pointers_needs_rules() {
        let mut rules = Rules::new();
        let framed = rules.id_of(FRAMED).0;
        let other = rules.id_of(Rule::framed(7, 8)).0;
        let check = |rows: &[(u32, u16)], expected| {
            let Change::Load { rows, size, .. } = load(0, 100, rows) else { return };
            assert_eq!(needs_rules(&rows, size, &rules), expected, "{rows:?}");
        };
        check(&[], false);
        check(&[(0, other), (4, framed), (98, other)], false);
        check(&[(0, other)], true);
        check(&[(0, other), (49, framed)], false);
        check(&[(0, other), (51, framed)], true);
        check(&[(0, 0), (40, other)], true);
        check(&[(0, 0), (60, other)], false);
    }

    proptest! {
        #[test]
        fn an_address_has_the_rule_that_was_put_there_last(
            loads in prop::collection::vec((0..64_u64, 1..16_u64, any::<bool>()), 0..24),
        ) {
            let mut changes = Vec::new();
            let mut expected = vec![(usize::MAX, None); 96];
            for (number, &(start, size, has_rules)) in loads.iter().enumerate() {
                let id = number as u16 + 2;
                let rows: &[(u32, u16)] = if has_rules { &[(0, id)] } else { &[] };
                changes.push(load(start, size, rows));
                // Partly overwritten code is removed as a whole.
                let covered = start as usize..(start + size) as usize;
                let gone: Vec<usize> = expected[covered.clone()].iter().map(|it| it.0).collect();
                for at in &mut expected {
                    if at.1.is_some() && gone.contains(&at.0) {
                        *at = (usize::MAX, None);
                    }
                }
                expected[covered].fill((number, has_rules.then_some(id)));
            }
            let pieces = pieces(&changes);
            for (address, (_, id)) in expected.iter().enumerate() {
                prop_assert_eq!(pieces.rule_at(address as u64).map(|id| id.0), *id, "{}", address);
            }
        }
    }
}
