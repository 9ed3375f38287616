//! A human-readable comparison: figures of the object under test, then changes, then a verdict.

use std::cmp::Reverse;

use wingbeat_text::{
    Paint, Style, aligned, broken, decimal, grouped, listed, paragraph, plural, printable, width,
    wrapped,
};

use super::{
    details,
    human::{self, one_line},
    verdict::{is_time, percent, verdict},
    width_of,
};
use crate::result::{CaseComparison, Comparison, MeasureComparison, PairedVerdict};

/// With more cases, unchanged ones are only counted.
const CASES_MAX: usize = 20;

/// Indentation of a measure, and blanks between columns.
const INDENT: usize = 2;
const GAP: usize = 2;

/// Minimum width of verdicts, to avoid one word per line.
const VERDICT_MIN: usize = 20;

const HEADINGS: [&str; 4] = ["measure", "before", "after", "change"];

/// Writes a comparison as tables and notes.
pub fn comparison(found: &Comparison, style: Style) -> String {
    let (paint, width) = (style.paint(), width_of(style));
    let mut sections = vec![human::head(&found.report, paint, width)];
    sections.extend(human::figures(&found.report, style));
    sections.push(changes(found, style.is_verbose, paint, width));
    sections.extend(unmatched(found, width));
    sections.extend(human::troubles(&found.report, style));
    sections.push(conclusion(found, paint, width));
    sections.join("\n")
}

/// A row of the table.
struct ComparisonRow<'a> {
    cells: [String; 4],
    verdict: String,
    measure: &'a MeasureComparison,
}

fn changes(found: &Comparison, is_verbose: bool, paint: Paint, width: usize) -> String {
    let against = printable(&found.against);
    let heading = format!("{} against {against}", printable(&found.report.object));
    let mut text = paint.bold(&paragraph(&heading, INDENT, width)) + "\n";
    let is_brief = !is_verbose && found.cases.len() > CASES_MAX;
    let cases: Vec<&CaseComparison> =
        found.cases.iter().filter(|case| !is_brief || has_changed(case)).collect();
    let rows: Vec<Vec<ComparisonRow>> =
        cases.iter().map(|case| rows(found, case, is_verbose)).collect();
    let widths = widths(rows.iter().flatten());
    if rows.iter().any(|rows| !rows.is_empty()) {
        let headings = HEADINGS.map(str::to_owned);
        let line = format!("{}  verdict", figures(&headings, &widths));
        text += &(paint.bold(&line) + "\n");
    }
    for (case, rows) in cases.iter().zip(rows) {
        for piece in broken(&printable(&case.name), width) {
            text += &format!("{}\n", piece.trim_end());
        }
        for row in rows {
            text += &written(&row, &widths, paint, width);
        }
        if let Some(method) = case.method.filter(|_| is_verbose) {
            let line = format!("times: {}", details::method(method, case.reason.as_deref()));
            text += &format!("{:INDENT$}{}\n", "", paragraph(&line, 2 * INDENT, width - INDENT));
        }
        if !is_verbose {
            text += &same(case, width).unwrap_or_default();
        }
    }
    match found.cases.len() - cases.len() {
        0 if found.cases.is_empty() => text += "no case is in both\n",
        0 => {}
        left_out => text += &format!("no change seen in {}\n", plural(left_out, "other case")),
    }
    text
}

fn has_changed(case: &CaseComparison) -> bool {
    let is_change = |measure: &MeasureComparison| {
        !matches!(measure.verdict, PairedVerdict::Same | PairedVerdict::NoChangeSeen)
    };
    case.measures.iter().any(is_change)
}

/// Unchanged measures share one line, unless all are requested.
fn rows<'a>(
    found: &Comparison,
    case: &'a CaseComparison,
    is_verbose: bool,
) -> Vec<ComparisonRow<'a>> {
    let shown = case.measures.iter().filter(|one| is_verbose || one.verdict != PairedVerdict::Same);
    let row = |measure| {
        let threshold = if is_time(measure) { found.time_threshold } else { found.exact_threshold };
        ComparisonRow { cells: cells(measure), verdict: verdict(measure, threshold), measure }
    };
    shown.map(row).collect()
}

fn cells(measure: &MeasureComparison) -> [String; 4] {
    let (name, unit) = (printable(&measure.measure), printable(&measure.unit));
    let has_unit = name.contains(&unit);
    let name = if has_unit { name } else { format!("{name}, {unit}") };
    let change = match measure.change {
        _ if matches!(
            measure.verdict,
            PairedVerdict::Same
                | PairedVerdict::Changed
                | PairedVerdict::TooFewPairs
                | PairedVerdict::NotJudged
        ) =>
        {
            String::new()
        }
        None => "–".to_owned(),
        Some(change) => percent(change, measure.interval),
    };
    [name, value(measure, measure.before), value(measure, measure.after), change]
}

fn value(measure: &MeasureComparison, number: f64) -> String {
    decimal(number, if is_time(measure) { 1 } else { 0 })
}

/// Unchanged measures: `same: jited-size 312 bytes, …`.
fn same(case: &CaseComparison, width: usize) -> Option<String> {
    let same = case.measures.iter().filter(|measure| measure.verdict == PairedVerdict::Same);
    let item = |measure: &MeasureComparison| {
        format!("{} {}", printable(&measure.measure), value(measure, measure.after))
    };
    let items: Vec<_> = same.map(item).collect();
    let line = format!("{:INDENT$}same: {}", "", paragraph(&items.join(", "), 8, width));
    (!items.is_empty()).then(|| line + "\n")
}

fn widths<'a>(rows: impl Iterator<Item = &'a ComparisonRow<'a>>) -> [usize; 4] {
    rows.fold(HEADINGS.map(str::len), |widths, row| {
        let mut cells = row.cells.iter();
        widths.map(|width| cells.next().map_or(0, |cell| self::width(cell)).max(width))
    })
}

fn figures(cells: &[String; 4], widths: &[usize; 4]) -> String {
    let [measure, before, after, change] = cells;
    let [measure_width, numbers @ ..] = widths;
    let mut line = format!("{:INDENT$}{}", "", aligned(measure, *measure_width, false));
    for (cell, width) in [before, after, change].into_iter().zip(numbers) {
        line += &format!("{:GAP$}{}", "", aligned(cell, *width, true));
    }
    line
}

/// The figures with the verdict on the same line, or below if it does not fit.
fn written(row: &ComparisonRow, widths: &[usize; 4], paint: Paint, width: usize) -> String {
    let figures = figures(&row.cells, widths);
    let above = figures.trim_end();
    let paint = |line: &String| match row.measure.verdict {
        PairedVerdict::Worse if row.measure.is_beyond_threshold => paint.bad(line),
        PairedVerdict::Worse => paint.warning(line),
        PairedVerdict::Better => paint.good(line),
        _ => line.clone(),
    };
    let room = width.saturating_sub(self::width(&figures) + GAP);
    let indent = if room < VERDICT_MIN { 2 * INDENT } else { self::width(&figures) + GAP };
    let verdict = wrapped(&row.verdict, width.saturating_sub(indent));
    let verdict: Vec<_> = verdict.iter().map(paint).collect();
    let gap = format!("\n{:indent$}", "");
    match room < VERDICT_MIN {
        true => format!("{above}{gap}{}\n", verdict.join(&gap)),
        false => format!("{figures}{:GAP$}{}\n", "", verdict.join(&gap)),
    }
}

fn unmatched(found: &Comparison, width: usize) -> Option<String> {
    let line = |failure: &crate::result::Failure| {
        let text = format!("{}: {}", printable(&failure.name), one_line(&failure.reason));
        format!("  {}", paragraph(&text, 2 * INDENT, width.saturating_sub(INDENT)))
    };
    let lines: Vec<_> = found.unmatched.iter().map(line).collect();
    (!lines.is_empty()).then(|| format!("not compared\n{}\n", lines.join("\n")))
}

/// The overall result.
fn conclusion(found: &Comparison, paint: Paint, width: usize) -> String {
    let limits = format!(
        "(by more than {} % of time, {} % of instructions or calls)",
        decimal(found.time_threshold * 100.0, places(found.time_threshold)),
        decimal(found.exact_threshold * 100.0, places(found.exact_threshold)),
    );
    let mut worse: Vec<(&str, usize)> = Vec::new();
    for case in &found.cases {
        let beyond = case.measures.iter().filter(|measure| measure.is_beyond_threshold).count();
        if beyond > 0 {
            worse.push((&case.name, beyond));
        }
    }
    worse.sort_by_key(|(_, beyond)| Reverse(*beyond));
    let names: Vec<_> = worse.iter().map(|(name, _)| printable(name)).collect();
    let measures: usize = found.cases.iter().map(|case| case.measures.len()).sum();
    let beyond: usize = worse.iter().map(|(_, beyond)| beyond).sum();
    let text = match beyond {
        _ if measures == 0 => "nothing was compared".to_owned(),
        0 => format!("nothing is worse {limits}"),
        _ => format!(
            "worse {limits}: {} of {}, of {}",
            grouped(beyond),
            plural(measures, "measure"),
            listed(&names, width)
        ),
    };
    let text = paragraph(&text, INDENT, width);
    if beyond > 0 { paint.bad(&text) + "\n" } else { text + "\n" }
}

/// Decimals that a threshold needs, at most two.
fn places(threshold: f64) -> usize {
    let hundredths = threshold * 10_000.0;
    let is_whole = |step: f64| (hundredths / step - (hundredths / step).round()).abs() < 1e-6;
    if is_whole(100.0) {
        0
    } else if is_whole(10.0) {
        1
    } else {
        2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_have_the_decimals_they_need() {
        let check = |threshold, expected| assert_eq!(places(threshold), expected, "{threshold}");
        check(0.0, 0);
        check(0.01, 0);
        check(0.07, 0);
        check(0.005, 1);
        check(0.0025, 2);
        check(0.00125, 2);
    }
}
