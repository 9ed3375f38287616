//! The table of functions.

use wingbeat_profiler::export::top::{Row, Top};

use crate::small::small;

fn shown(rows: &[Row]) -> Vec<String> {
    let shown = rows.iter().map(|row| format!("{} {}/{}", row.name, row.own, row.total));
    shown.collect()
}

#[test]
fn functions_are_ranked_both_ways() {
    let top = Top::of(&small(), 3);
    assert_eq!(top.total, 10);
    assert_eq!(
        shown(&top.by_self),
        [
            "core::hint::black_box 4/4",
            "<amicable::Pairs<'_> as core::iter::Iterator>::next 2/7",
            "_start 1/8",
        ]
    );
    assert_eq!(
        shown(&top.by_total),
        [
            "_start 1/8",
            "<amicable::Pairs<'_> as core::iter::Iterator>::next 2/7",
            "amicable::main 0/7",
        ]
    );
}

#[test]
fn recursion_counts_once_per_sample() {
    let mut profile = small();
    profile.stacks[0].frames = vec![4, 4, 3, 4, 2, 2];
    profile.samples.retain(|sample| sample.stack == 0);
    let top = Top::of(&profile, 10);
    assert_eq!(top.total, 4);
    assert!(top.by_total.iter().all(|row| row.total == 4), "{top:?}");
    assert_eq!(top.by_total.len(), 4);
    assert_eq!(top.by_self.len(), 1);
}

#[test]
fn nothing_gives_empty_tables() {
    let mut profile = small();
    profile.samples.clear();
    assert_eq!(Top::of(&profile, 10), Top::default());
}
