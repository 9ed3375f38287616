//! Human-readable comparisons.

use wingbeat_bpf_bench::{
    report::{Style, comparison},
    result::{Comparison, PairedVerdict},
};

use crate::{human::check_text, sample};

#[track_caller]
fn check(name: &str, found: &Comparison, style: Style) {
    check_text(name, comparison(found, style), &found.report, style);
}

#[test]
fn changes_stand_beside_verdicts() {
    check("comparison.txt", &sample::compared(), Style::default());
    check("comparison_narrow.txt", &sample::compared(), Style { width: 60, ..Style::default() });
    let verbose = Style { is_verbose: true, ..Style::default() };
    check("comparison_verbose.txt", &sample::compared(), verbose);
}

#[test]
fn the_last_line_tells_the_verdict() {
    #[track_caller]
    fn check(found: &Comparison, expected: &str) {
        let text = comparison(found, Style { width: 200, ..Style::default() });
        assert_eq!(text.lines().last(), Some(expected));
    }
    let mut found = sample::compared();
    check(
        &found,
        "worse (by more than 1 % of time, 0 % of instructions or calls): 2 of 13 measures, of \
         fun_xdp_v3",
    );
    found.cases.remove(0);
    found.exact_threshold = 0.005;
    check(&found, "nothing is worse (by more than 1 % of time, 0.5 % of instructions or calls)");
    found.cases.clear();
    check(&found, "nothing was compared");
}

#[test]
fn of_many_cases_those_without_a_change_are_counted() {
    let mut found = sample::compared();
    let same = found.cases.remove(1);
    assert!(same.measures.iter().all(|one| one.verdict != PairedVerdict::Worse));
    found.cases.extend((0..30).map(|_| same.clone()));
    let text = comparison(&found, Style::default());
    assert!(text.contains("no change seen in 30 other cases"), "{text}");
    assert!(!text.lines().any(|line| line == "fun_xdp_v4"));
    let text = comparison(&found, Style { is_verbose: true, ..Style::default() });
    assert_eq!(text.lines().filter(|line| *line == "fun_xdp_v4").count(), 31);
}
