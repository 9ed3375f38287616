//! Human-readable tables of results and comparisons.

use unicode_width::UnicodeWidthStr as _;
use wingbeat_bpf_bench::{
    report::{Style, comparison, errors, human},
    result::{BenchReport, Comparison, Failure, PairedVerdict, Part},
};

use super::{golden, sample};

fn style(width: usize) -> Style {
    Style { width, ..Style::default() }
}

fn verbose(width: usize) -> Style {
    Style { is_verbose: true, ..style(width) }
}

/// Compares with the golden file, which ends with the stderr output, and checks the line width. Log
/// lines may be longer.
#[track_caller]
fn check(name: &str, report: &BenchReport, style: Style) {
    check_text(name, human(report, style), report, style);
}

/// The same for any text about a report.
#[track_caller]
fn check_text(name: &str, mut text: String, report: &BenchReport, style: Style) {
    if let Some(errors) = errors(report, style) {
        text += &format!("\n(stderr)\n{errors}\n");
    }
    golden::check(name, &text);
    for line in text.lines() {
        assert!(line.width() <= style.width, "wider than {}: {line}", style.width);
        assert_eq!(line, line.trim_end(), "blanks at the end");
    }
}

#[test]
fn the_usual_case_is_one_table_of_100_columns() {
    check("typical.txt", &sample::typical(), style(100));
}

#[test]
fn more_room_means_fewer_tables() {
    check("typical_wide.txt", &sample::typical(), style(200));
    check("typical_narrow.txt", &sample::typical(), style(60));
    check("typical_verbose.txt", &sample::typical(), verbose(100));
}

#[test]
fn missing_figures_are_explained_once_per_reason() {
    check("unavailable.txt", &sample::unavailable(), style(100));
}

#[test]
fn without_an_empty_program_nothing_is_subtracted() {
    let mut report = sample::typical();
    for case in &mut report.cases {
        if let Part::Measured(latency) = &mut case.latency {
            latency.net_ns = None;
        }
        if let Part::Measured(single) = &mut case.distribution {
            (single.clock_ns, single.net_p50_ns) = (None, None);
        }
    }
    let text = human(&report, style(100));
    assert!(text.contains("63.1 … 63.8    –"), "{text}");
    let note =
        "no net time of fun_xdp_v3, fun_xdp_v4: no empty program of its type could be measured";
    assert!(text.contains(note), "{text}");
}

#[test]
fn what_was_not_run_has_the_figures_of_the_verifier() {
    check("verified.txt", &sample::only_verified(), style(100));
    check("verified_narrow.txt", &sample::only_verified(), style(60));
}

#[test]
fn what_broke_in_the_middle_has_figures() {
    let mut report = sample::typical();
    report.failures = vec![Failure::new("fun_xdp_v3", "the verifier rejected it")];
    let text = errors(&report, style(100)).expect("an error");
    assert!(text.contains("fun_xdp_v3 was not measured to the end: the verifier"), "{text}");
    assert!(!human(&report, style(100)).contains("to the end"), "errors go to stderr");
}

#[test]
fn several_inputs_are_ranked() {
    check("inputs.txt", &sample::inputs(3), style(100));
    check("many_inputs.txt", &sample::inputs(400), style(100));
}

#[test]
fn everything_is_there_if_asked_for() {
    let text = human(&sample::inputs(400), verbose(100));
    for number in 1..=400 {
        let name = format!("fun_xdp_v3/dns#{number}");
        assert!(text.lines().any(|line| line.starts_with(&name)), "{name}");
    }
    assert!(!text.contains("are shown"));
}

#[test]
fn long_names_are_whole() {
    check("long_names.txt", &sample::long_names(), style(100));
}

#[test]
fn nothing_is_said_to_be_nothing() {
    check("empty.txt", &sample::report(Vec::new()), style(100));
    let mut report = sample::typical();
    report.cases.clear();
    report.verified.clear();
    check("failed.txt", &report, style(100));
}

#[test]
fn colours_change_nothing_else() {
    let coloured = human(&sample::typical(), Style { has_colours: true, ..style(100) });
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((text, escape)) = rest.split_once("\u{1b}[") {
        plain += text;
        rest = escape.split_once('m').expect("an escape sequence that ends").1;
    }
    assert!(coloured.len() > plain.len() + rest.len());
    assert_eq!(plain + rest, human(&sample::typical(), style(100)));
}

#[track_caller]
fn check_comparison(name: &str, found: &Comparison, style: Style) {
    check_text(name, comparison(found, style), &found.report, style);
}

#[test]
fn changes_stand_beside_verdicts() {
    check_comparison("comparison.txt", &sample::compared(), Style::default());
    check_comparison(
        "comparison_narrow.txt",
        &sample::compared(),
        Style { width: 60, ..Style::default() },
    );
    let verbose = Style { is_verbose: true, ..Style::default() };
    check_comparison("comparison_verbose.txt", &sample::compared(), verbose);
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
