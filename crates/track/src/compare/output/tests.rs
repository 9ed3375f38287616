//! Output of a comparison.

use super::*;
use crate::{
    compare::result::{ChangeInterval, Failed, SideName, Unmatched},
    model::{BenchmarkName, Measure},
};

const STYLE: Style = Style { width: 100, has_colours: false, is_verbose: false };

fn name(text: &str) -> BenchmarkName {
    BenchmarkName::new(text).expect("a name")
}

fn row(benchmark: &str, verdict: PairedVerdict) -> ComparedRow {
    let (lower, upper) =
        if verdict == PairedVerdict::Worse { (0.02, 0.04) } else { (-0.004, 0.003) };
    ComparedRow {
        benchmark: name(benchmark),
        measure: Measure::latency(),
        base: 1e6,
        head: 1.03e6,
        change: Some(f64::midpoint(lower, upper)),
        interval: Some(ChangeInterval { lower, upper, confidence: 0.998 }),
        smallest_visible: Some(0.006),
        pairs: 12,
        verdict,
        is_beyond_threshold: verdict == PairedVerdict::Worse,
        note: None,
    }
}

fn comparison() -> Comparison {
    let revision = |asked: &str, commit: &str, has_uncommitted_changes| Revision {
        asked: asked.to_owned(),
        commit: commit.repeat(40),
        has_uncommitted_changes,
    };
    Comparison {
        base: revision("main", "a", false),
        head: revision("working tree", "b", true),
        command: vec!["./bench".to_owned()],
        rows: vec![row("parse", PairedVerdict::Worse), row("print", PairedVerdict::NoChangeSeen)],
        unmatched: vec![Unmatched {
            side: SideName::Head,
            benchmark: name("new"),
            measures: vec!["Latency".to_owned()],
        }],
        failures: vec![Failed {
            side: SideName::Base,
            benchmark: name("bad"),
            reason: "it panicked".to_owned(),
        }],
        pairs: 12,
        elapsed_s: 24.4,
        end: End::Precise,
        precision: 0.01,
        threshold: 0.01,
        threshold_exact: 0.0,
    }
}

#[test]
fn for_people() {
    let expected = "\
working tree (bbbbbbbbbb with uncommitted changes) against main (aaaaaaaaaa)
12 pairs of runs, alternating, in 24 s, until a change of 1.0 % would have been seen

benchmark  measure      base      head   change  99.8 % interval  verdict
parse      latency  1.000 ms  1.030 ms   +3.0 %     +2.0 to +4.0  worse
print      latency  1.000 ms  1.030 ms  −0.05 %   −0.40 to +0.30  no change ≥ 0.60 %

only in head: new (Latency)
failed in base: bad: it panicked

1 worse of 2 results
";
    assert_eq!(human(&comparison(), STYLE), expected);
}

#[test]
fn for_comments() {
    let text = markdown(&comparison());
    let start = "<strong>1 worse of 2 results</strong>\n\n| benchmark |";
    assert!(text.starts_with(start), "{text}");
    // `·` represents a non-breaking space.
    let row = "| <code>parse</code> | latency | 1.000·ms | 1.030·ms | +3.0·% | +2.0·to·+4.0 \
               | <strong>worse</strong> |\n";
    assert!(text.contains(&row.replace('·', "\u{a0}")), "{text}");
    let end = "- only in head: <code>new</code> (Latency)\n\
               - failed in base: <code>bad</code>: it panicked\n";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn json_holds_everything() {
    let text = json(&comparison()).expect("JSON");
    let back: Comparison = serde_json::from_str(&text).expect("a comparison");
    assert_eq!(back, comparison());
    assert!(text.starts_with("{\n  \"schema_version\": 1,"), "{text}");
    assert!(text.contains("\"verdict\": \"no-change-seen\""), "{text}");
}

#[test]
fn conclusions() {
    let check = |verdicts: &[PairedVerdict], expected: &str| {
        let rows = verdicts.iter().map(|&verdict| row("a", verdict)).collect();
        assert_eq!(conclusion(&Comparison { rows, ..comparison() }), expected);
    };
    check(&[PairedVerdict::NoChangeSeen], "no change seen in 1 result");
    check(&[PairedVerdict::Same, PairedVerdict::NoChangeSeen], "no change seen in 2 results");
    check(
        &[PairedVerdict::Worse, PairedVerdict::Better, PairedVerdict::Better],
        "1 worse, 2 better of 3 results",
    );
    check(&[PairedVerdict::TooFewPairs], "1 undecided of 1 result");
}

#[test]
fn confidence_is_never_rounded_to_certainty() {
    let check = |confidence, expected: &str| {
        assert_eq!(rounded_down(confidence), expected, "{confidence}");
    };
    check(0.996, "99.6 %");
    check(0.999_96, "99.996 %");
    check(0.9998, "99.98 %");
}

#[test]
fn every_width_is_kept() {
    use unicode_width::UnicodeWidthStr as _;
    let mut comparison = comparison();
    comparison.rows.push(ComparedRow {
        note: Some("asked not to be judged, so it fails nothing".to_owned()),
        ..row("a_module::with::a_long::name_of_a_benchmark/1000000", PairedVerdict::TooFewPairs)
    });
    for width in 20..200 {
        let text = human(&comparison, Style { width, ..STYLE });
        for line in text.lines() {
            assert!(line.width() <= width, "{line:?} is wider than {width}");
        }
    }
}

#[test]
fn colours_only_where_wanted() {
    let text = human(&comparison(), Style { has_colours: true, ..STYLE });
    assert!(text.contains("\u{1b}[31"), "{text}");
    assert!(!human(&comparison(), STYLE).contains('\u{1b}'));
}
