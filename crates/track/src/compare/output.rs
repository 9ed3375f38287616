//! Formats a comparison: a table for people, and Markdown for comments. Pure. Tables and numbers are those of
//! [`crate::output`].

use wingbeat_text::{
    Block, Column, GivesWay, Look, Scale, Span, Style, Table, glued, grouped, line, plural, share,
    unbroken,
};

use super::result::{ComparedRow, Comparison, End, PairedVerdict, Revision};
use crate::model::BenchmarkName;

/// Length of a shortened hash.
const HASH: usize = 10;

/// The complete comparison as JSON with a trailing line break.
pub fn json(comparison: &Comparison) -> Result<String, serde_json::Error> {
    #[derive(serde::Serialize)]
    struct Document<'a> {
        schema_version: u32,
        #[serde(flatten)]
        comparison: &'a Comparison,
    }

    let mut text = serde_json::to_string_pretty(&Document { schema_version: 1, comparison })?;
    text.push('\n');
    Ok(text)
}

/// A table for people, with the remarks around it. There is one level of detail.
pub fn human(comparison: &Comparison, style: Style) -> String {
    let look = match comparison.is_worse() {
        true => Look::Bad,
        false if comparison.is_undecided() => Look::Warning,
        false => Look::Good,
    };
    let blocks = [
        Block::List(vec![vec![Span::strong(sides(comparison))], line(course(comparison))]),
        Block::Table(table(comparison)),
        remarks(comparison),
        Block::Paragraph(vec![Span::new(look, conclusion(comparison))]),
    ];
    wingbeat_text::human(&blocks, style)
}

/// The comparison in Markdown, the verdict first.
pub fn markdown(comparison: &Comparison) -> String {
    wingbeat_text::markdown(&[
        Block::Paragraph(vec![Span::strong(conclusion(comparison))]),
        Block::Table(table(comparison)),
        Block::Paragraph(line(format!("{}; {}", sides(comparison), course(comparison)))),
        remarks(comparison),
    ])
}

/// `feature (1a2b3c4d5e) against main (0123456789)`.
fn sides(comparison: &Comparison) -> String {
    format!("{} against {}", named(&comparison.head), named(&comparison.base))
}

fn named(revision: &Revision) -> String {
    let Revision { asked, commit, has_uncommitted_changes } = revision;
    let commit = commit.get(..HASH).unwrap_or(commit);
    let changes = if *has_uncommitted_changes { " with uncommitted changes" } else { "" };
    match commit.starts_with(asked.as_str()) {
        true => format!("{commit}{changes}"),
        false => format!("{asked} ({commit}{changes})"),
    }
}

/// `12 pairs of runs, alternating, in 24 s, until time was up`.
fn course(comparison: &Comparison) -> String {
    let Comparison { pairs, elapsed_s, end, precision, .. } = comparison;
    let end = match end {
        End::Precise if comparison.rows.iter().all(|row| row.interval.is_none()) => {
            "which is enough for exact measures".to_owned()
        }
        End::Precise => {
            format!("until a change of {} would have been seen", share::size(*precision))
        }
        End::TimeSpent => "until time was up".to_owned(),
        End::Interrupted => "until it was stopped".to_owned(),
    };
    format!("{} of runs, alternating, in {elapsed_s:.0} s, {end}", plural(*pairs, "pair"))
}

fn table(comparison: &Comparison) -> Table {
    let rows = &comparison.rows;
    let confidence = rows.iter().find_map(|row| Some(row.interval?.confidence));
    let interval =
        confidence.map_or_else(String::new, |share| format!("{} interval", rounded_down(share)));
    let scales: Vec<Scale> =
        rows.iter().map(|row| row.measure.scale(row.base, Some(row.head))).collect();
    let values = |of: fn(&ComparedRow) -> f64| {
        rows.iter().zip(&scales).map(|(row, scale)| unbroken(&scale.with_unit(of(row)))).collect()
    };
    let cells = |cell: fn(&ComparedRow) -> String| rows.iter().map(cell).collect();
    let columns = vec![
        Column::words("measure", cells(|row| row.measure.label().to_owned())),
        Column::numbers("base", values(|row| row.base)).giving_way(GivesWay::Last),
        Column::numbers("head", values(|row| row.head)),
        Column::numbers("change", cells(change_text)),
        Column::numbers(interval, cells(|row| unbroken(&interval_text(row))))
            .giving_way(GivesWay::First),
        Column::words("verdict", cells(|row| glued(&verdict(row)))),
    ];
    let look = |row: &ComparedRow| match row.verdict {
        _ if row.is_beyond_threshold => Look::Bad,
        PairedVerdict::Better => Look::Good,
        PairedVerdict::Worse | PairedVerdict::Changed => Look::Plain,
        _ => Look::Dim,
    };
    Table::new("benchmark", rows.iter().map(|row| &row.benchmark), columns)
        .with_looks(rows.iter().map(look).collect())
}

fn change_text(row: &ComparedRow) -> String {
    row.change.map_or_else(String::new, |change| unbroken(&share::change(change)))
}

fn interval_text(row: &ComparedRow) -> String {
    row.interval.map_or_else(String::new, |found| share::interval(found.lower, found.upper))
}

/// A confidence rounded down, so that it never becomes 100 %.
fn rounded_down(confidence: f64) -> String {
    let nines = (1.0 - confidence).log10().floor();
    let step = 10_f64.powf(nines.clamp(-9.0, -1.0));
    // Slightly below a whole number is rounding.
    let share = ((confidence / step + 1e-6).floor() * step).min(confidence);
    let text = format!("{:.7}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

fn verdict(row: &ComparedRow) -> String {
    match row.verdict {
        PairedVerdict::Worse if row.is_beyond_threshold => "worse".to_owned(),
        PairedVerdict::Worse => "worse, within the threshold".to_owned(),
        PairedVerdict::Changed => "changed".to_owned(),
        PairedVerdict::Better => "better".to_owned(),
        PairedVerdict::TooFewPairs => "too few pairs to tell".to_owned(),
        PairedVerdict::NotJudged => "not judged".to_owned(),
        PairedVerdict::NoChangeSeen => match row.smallest_visible {
            Some(smallest) => format!("no change ≥ {}", share::size(smallest)),
            None => "no change".to_owned(),
        },
        PairedVerdict::Same => "the same".to_owned(),
    }
}

fn remarks(comparison: &Comparison) -> Block {
    let remark = |what: String, name: &BenchmarkName, rest: String| {
        vec![Span::text(what + " "), Span::code(name), Span::text(rest)]
    };
    let notes = comparison.rows.iter().filter_map(|row| {
        let rest = format!(" {}: {}", row.measure.label(), row.note.as_ref()?);
        Some(remark("note:".to_owned(), &row.benchmark, rest))
    });
    let unmatched = comparison.unmatched.iter().map(|it| {
        let measures = format!(" ({})", it.measures.join(", "));
        remark(format!("only in {}:", it.side.name()), &it.benchmark, measures)
    });
    let failures = comparison.failures.iter().map(|it| {
        let reason = format!(": {}", it.reason);
        remark(format!("failed in {}:", it.side.name()), &it.benchmark, reason)
    });
    let few = comparison.rows.iter().filter(|row| row.pairs < comparison.pairs).map(|row| {
        let (measure, pairs) = (row.measure.label(), plural(row.pairs, "pair"));
        let why = format!(" {measure}: not every run printed it, so it is judged by only {pairs}");
        remark("note:".to_owned(), &row.benchmark, why)
    });
    Block::List(notes.chain(unmatched).chain(failures).chain(few).collect())
}

fn conclusion(comparison: &Comparison) -> String {
    let mut parts = Vec::new();
    let mut tell = |what: &str, is_it: fn(&ComparedRow) -> bool| {
        let count = comparison.rows.iter().filter(|row| is_it(row)).count();
        if count > 0 {
            parts.push(format!("{} {what}", grouped(count)));
        }
    };
    let is_slight =
        |row: &ComparedRow| row.verdict == PairedVerdict::Worse && !row.is_beyond_threshold;
    tell("worse", |row| row.is_beyond_threshold);
    tell("worse within the threshold", is_slight);
    tell("changed", |row| row.verdict == PairedVerdict::Changed);
    tell("better", |row| row.verdict == PairedVerdict::Better);
    tell("undecided", |row| row.verdict == PairedVerdict::TooFewPairs);
    let of = plural(comparison.rows.len(), "result");
    match parts.is_empty() {
        true => format!("no change seen in {of}"),
        false => format!("{} of {of}", parts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
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
            rows: vec![
                row("parse", PairedVerdict::Worse),
                row("print", PairedVerdict::NoChangeSeen),
            ],
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
        let text = serde_json::to_string(&comparison()).expect("JSON");
        let back: Comparison = serde_json::from_str(&text).expect("a comparison");
        assert_eq!(back, comparison());
        assert!(text.contains("\"verdict\":\"no-change-seen\""), "{text}");
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
}
