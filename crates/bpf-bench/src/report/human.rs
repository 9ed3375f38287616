//! A human-readable result: the table, then how to read it, then warnings.

use wingbeat_text::{Paint, Style, Table, duration, paragraph, plural, printable};

use super::{
    columns::{Row, columns},
    details::details,
    notes,
    ranking::{rankings, shown},
    width_of,
};
use crate::result::{BenchReport, Case};

/// Writes a result as tables and notes.
pub fn human(report: &BenchReport, style: Style) -> String {
    let paint = style.paint();
    let mut sections = vec![head(report, paint, width_of(style))];
    sections.extend(figures(report, style));
    sections.extend(troubles(report, style));
    sections.extend(notes::tally(report).map(|tally| tally + "\n"));
    sections.join("\n")
}

/// What was measured, where, for how long.
pub(super) fn head(report: &BenchReport, paint: Paint, width: usize) -> String {
    let machine = &report.conditions.before;
    let kernel = machine.kernel_release.as_deref().map(|release| format!("Linux {release}"));
    let model = machine.cpu_model.clone();
    let place: Vec<_> = kernel.into_iter().chain(model).collect();
    let place = match place.is_empty() {
        true => String::new(),
        false => format!(" ({})", printable(&place.join(", "))),
    };
    let cases = plural(report.cases.len(), "case");
    let cases = format!("{cases} measured for {}", duration(report.duration_ns));
    let loaded = plural(report.verified.len(), "program");
    let done = match (report.cases.len(), report.verified.len()) {
        (_, 0) => cases,
        (0, _) => format!("{loaded} loaded"),
        (_, _) => format!("{cases}, {loaded} loaded only,"),
    };
    let end = if report.is_interrupted { ", then interrupted" } else { "" };
    let object = printable(&report.object);
    let text = format!("{object}: {done} on CPU {}{end}{place}", report.cpu);
    let text = paragraph(&text, 2, width) + "\n";
    match text.strip_prefix(&object) {
        Some(rest) => paint.bold(&object) + rest,
        None => text,
    }
}

/// Tables, notes about them, and rankings. Empty without cases.
pub(super) fn figures(report: &BenchReport, style: Style) -> Vec<String> {
    if report.cases.is_empty() && report.verified.is_empty() {
        return Vec::new();
    }
    let (paint, width) = (style.paint(), width_of(style));
    let (cases, left_out) = shown(&report.cases, style.is_verbose);
    let mut sections = vec![table(report, &cases, paint, width)];
    let mut notes: Vec<String> = left_out.iter().map(|note| paragraph(note, 2, width)).collect();
    notes.extend(notes::legend(report, paint, width));
    notes.extend(notes::steady(&cases, width));
    notes.extend(notes::own_outputs(&cases, width));
    let all: Vec<&Case> = report.cases.iter().collect();
    notes.extend(notes::unavailable(&rows(report, &all), width));
    if !notes.is_empty() {
        sections.push(notes.join("\n") + "\n");
    }
    if style.is_verbose {
        sections.push(details(&rows(report, &cases), paint, width));
    }
    sections.extend(rankings(&report.cases, style.is_verbose, paint, width));
    sections
}

fn rows<'a>(report: &'a BenchReport, cases: &[&'a Case]) -> Vec<Row<'a>> {
    // Baselines are useless without cases.
    let baselines = report.baselines.iter().filter(|_| !cases.is_empty()).map(Row::Baseline);
    let cases = cases.iter().map(|&case| Row::Case(case));
    baselines.chain(cases).chain(report.verified.iter().map(Row::Verified)).collect()
}

fn table(report: &BenchReport, cases: &[&Case], paint: Paint, width: usize) -> String {
    let rows = rows(report, cases);
    let table = Table {
        names_heading: "case",
        names: rows.iter().map(|row| row.name()).collect(),
        columns: columns(&rows),
    };
    let dim_rows = if cases.is_empty() { 0 } else { report.baselines.len() };
    table.write(width, paint, &|at, line| match at < dim_rows {
        true => paint.dim(line),
        false => line.to_owned(),
    })
}

/// Failures for stderr: programs that were not measured, or that returned an unexpected value.
/// `None` if there are none.
pub fn errors(report: &BenchReport, style: Style) -> Option<String> {
    let (paint, width) = (style.paint(), width_of(style));
    let mut lines = notes::unmet(&report.cases, paint, width);
    lines.extend(notes::failures(report, paint, width));
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Skipped programs, and warnings.
pub(super) fn troubles(report: &BenchReport, style: Style) -> Option<String> {
    let (paint, width) = (style.paint(), width_of(style));
    let mut lines = notes::skipped(report, width);
    lines.extend(notes::warnings(&report.warnings, paint, width));
    (!lines.is_empty()).then(|| lines.join("\n") + "\n")
}
