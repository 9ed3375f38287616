//! Formats a comparison: a table for people, Markdown for comments, complete JSON. Pure. Tables and numbers are those
//! of [`crate::output`].

use wingbeat_text::{
    Column, GivesWay, Scale, Style, Table, glued, grouped, paragraph, plural, share, unbroken,
};

use super::result::{ComparedRow, Comparison, End, PairedVerdict, Revision};
use crate::output::{
    document::{Block, Heading, Line, Span},
    write_markdown,
};

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
    let paint = style.paint();
    let wrapped = |text: &str| paragraph(text, 2, style.width);
    let mut blocks = vec![format!(
        "{}\n{}\n",
        paint.bold(&wrapped(&sides(comparison))),
        wrapped(&course(comparison))
    )];
    if !comparison.rows.is_empty() {
        let rows = &comparison.rows;
        blocks.push(table(comparison).write(style.width, paint, &|at, line| match rows.get(at) {
            Some(row) if row.is_beyond_threshold => paint.bad(line),
            Some(row) => match row.verdict {
                PairedVerdict::Better => paint.good(line),
                PairedVerdict::Worse | PairedVerdict::Changed => line.to_owned(),
                _ => paint.dim(line),
            },
            None => line.to_owned(),
        }));
    }
    let remarks = remarks(comparison);
    if !remarks.is_empty() {
        let line = |(what, name, rest): &Remark| wrapped(&format!("{what} {name}{rest}")) + "\n";
        blocks.push(remarks.iter().map(line).collect());
    }
    let conclusion = wrapped(&conclusion(comparison));
    blocks.push(match comparison.is_worse() {
        true => paint.bad(&conclusion),
        false if comparison.is_undecided() => paint.warning(&conclusion),
        false => paint.good(&conclusion),
    });
    blocks.join("\n") + "\n"
}

/// The comparison in Markdown, the verdict first.
pub fn markdown(comparison: &Comparison) -> String {
    let mut blocks = vec![Block::Paragraph(vec![Span::Strong(conclusion(comparison))])];
    if !comparison.rows.is_empty() {
        let Table { names_heading, columns, .. } = table(comparison);
        let mut head = Heading::row(&[names_heading]);
        head.extend(columns.iter().map(|it| Heading::new(&it.heading, it.is_number)));
        let cells = |(at, row): (usize, &ComparedRow)| {
            let mut cells: Vec<Line> = vec![vec![Span::code(&row.benchmark)]];
            cells.extend(columns.iter().map(|column| {
                let text = column.cells.get(at).map(String::as_str).unwrap_or_default();
                let text = if column.is_number { unbroken(text) } else { glued(text) };
                vec![match row.is_beyond_threshold && column.heading == VERDICT {
                    true => Span::Strong(text),
                    false => Span::text(text),
                }]
            }));
            cells
        };
        let rows = comparison.rows.iter().enumerate().map(cells).collect();
        blocks.push(Block::Table { head, rows });
    }
    let text = format!("{}; {}", sides(comparison), course(comparison));
    blocks.push(Block::Paragraph(vec![Span::text(text)]));
    let remarks = remarks(comparison);
    if !remarks.is_empty() {
        let line = |(what, name, rest): Remark| {
            vec![Span::text(what + " "), Span::code(name), Span::text(rest)]
        };
        blocks.push(Block::List(remarks.into_iter().map(line).collect()));
    }
    write_markdown(&blocks)
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

const VERDICT: &str = "verdict";

fn table(comparison: &Comparison) -> Table {
    let rows = &comparison.rows;
    let confidence = rows.iter().find_map(|row| Some(row.interval?.confidence));
    let interval =
        confidence.map_or_else(String::new, |share| format!("{} interval", rounded_down(share)));
    let scales: Vec<Scale> =
        rows.iter().map(|row| row.measure.scale(row.base, Some(row.head))).collect();
    let values = |of: fn(&ComparedRow) -> f64| {
        rows.iter().zip(&scales).map(|(row, scale)| scale.with_unit(of(row))).collect()
    };
    let cells = |cell: fn(&ComparedRow) -> String| rows.iter().map(cell).collect();
    let columns = vec![
        Column::words("measure", cells(|row| row.measure.label().to_owned())),
        Column::numbers("base", values(|row| row.base)).giving_way(GivesWay::Last),
        Column::numbers("head", values(|row| row.head)),
        Column::numbers("change", cells(|row| row.change.map_or_else(String::new, share::change))),
        Column::numbers(interval, cells(interval_text)).giving_way(GivesWay::First),
        Column::words(VERDICT, cells(verdict)),
    ];
    let names = rows.iter().map(|row| row.benchmark.to_string()).collect();
    Table { names_heading: "benchmark", names, columns }
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

/// The text before a name, the name, and the text after it.
type Remark = (String, String, String);

fn remarks(comparison: &Comparison) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for row in &comparison.rows {
        if let Some(note) = &row.note {
            let name = row.benchmark.to_string();
            remarks.push(("note:".to_owned(), name, format!(" {}: {note}", row.measure.label())));
        }
    }
    for it in &comparison.unmatched {
        let measures = it.measures.join(", ");
        let what = format!("only in {}:", it.side.name());
        remarks.push((what, it.benchmark.to_string(), format!(" ({measures})")));
    }
    for it in &comparison.failures {
        let what = format!("failed in {}:", it.side.name());
        remarks.push((what, it.benchmark.to_string(), format!(": {}", it.reason)));
    }
    for row in comparison.rows.iter().filter(|row| row.pairs < comparison.pairs) {
        let pairs = plural(row.pairs, "pair");
        let why = format!(
            " {}: not every run printed it, so it is judged by only {pairs}",
            row.measure.label()
        );
        remarks.push(("note:".to_owned(), row.benchmark.to_string(), why));
    }
    remarks
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
}
