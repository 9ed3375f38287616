//! Own and total cost of each function.

use std::cmp::Ordering;

use super::tree::Tree;
use crate::scale::{Change, Sum};

/// A function of one or two profiles, in units of the metric.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionRow {
    pub name: String,
    pub own: Change,
    /// Including callees; recursion counts once.
    pub total: Change,
}

/// Sums of a name.
#[derive(Clone, Copy, Default)]
struct Found {
    own: [Sum; 2],
    total: [Sum; 2],
    /// Number of open frames with the name.
    open: u32,
}

/// Rows of a tree, sorted by change if two profiles are compared, otherwise by own cost.
pub(super) fn of(tree: &Tree) -> Vec<FunctionRow> {
    let mut found = vec![Found::default(); tree.names.len()];
    // Frames to enter or leave.
    let mut open = vec![(0, true)];
    while let Some((place, is_entered)) = open.pop() {
        let frame = &tree.frames[place];
        let Some(of_name) = found.get_mut(frame.name as usize) else { continue };
        if !is_entered {
            of_name.open -= 1;
            continue;
        }
        for side in 0..2 {
            of_name.own[side].join(frame.own_sums[side]);
            if of_name.open == 0 {
                of_name.total[side].join(frame.sums[side]);
            }
        }
        of_name.open += 1;
        open.push((place, false));
        open.extend(frame.children.iter().map(|child| (*child as usize, true)));
    }
    // The first name is that of the root.
    let rows = tree.names.iter().zip(found).skip(1).map(|((name, _), found)| FunctionRow {
        name: name.clone(),
        own: tree.scaled(found.own),
        total: tree.scaled(found.total),
    });
    let mut rows: Vec<FunctionRow> = rows.collect();
    rows.sort_by(order);
    rows
}

fn order(a: &FunctionRow, b: &FunctionRow) -> Ordering {
    let size = |row: &FunctionRow| row.own.difference().abs();
    let total = |row: &FunctionRow| row.total.difference().abs();
    size(b)
        .total_cmp(&size(a))
        .then_with(|| total(b).total_cmp(&total(a)))
        .then_with(|| a.name.cmp(&b.name))
}

#[cfg(test)]
mod tests {
    use crate::{Flame, Metric, compare, side::tests::side};

    #[test]
    fn functions_that_call_themselves_count_once() {
        let flame = Flame::single(&side("main;a;b;a 4\nmain;a 2\nmain;b 2\nmain 1"), 9.0);
        let rows = flame.functions().into_iter();
        let rows: Vec<_> = rows.map(|it| (it.name, it.own.after, it.total.after)).collect();
        let expected = [("a", 6.0, 6.0), ("b", 2.0, 6.0), ("main", 1.0, 9.0)];
        assert_eq!(rows, expected.map(|(name, own, total)| (name.to_owned(), own, total)));
    }

    #[test]
    fn what_changed_most_comes_first() {
        let metric = Metric { before: 10.0, after: 20.0, before_sd: 0.0, after_sd: 0.0 };
        let (before, after) = (side("main;a 6\nmain;b 4"), side("main;a 15\nmain;b 3\nmain;c 2"));
        let explanation = compare(&before, &after, metric).expect("comparable");
        let rows = Flame::of(&before, &after, &explanation).functions().into_iter();
        let rows: Vec<_> =
            rows.map(|it| (it.name, it.own.difference(), it.total.difference())).collect();
        let expected = [("a", 9.0, 9.0), ("c", 2.0, 2.0), ("b", -1.0, -1.0), ("main", 0.0, 10.0)];
        assert_eq!(rows, expected.map(|(name, own, total)| (name.to_owned(), own, total)));
    }
}
