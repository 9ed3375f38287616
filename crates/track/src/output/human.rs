//! The report for a terminal: a table, the notable metrics, and a summary line.

use wingbeat_text::{Column, GivesWay, Paint, Style, Table, cut, grouped, paragraph};

use super::{
    Page,
    lines::{self, Sentence, verdict},
    row::{NOISY_MAX, ReportRow},
    short_hash, short_id,
};
use crate::model::{AlertStatus, Outcome, Report, Results};

/// Rows to show before unchanged ones are only counted.
const ROWS_MAX: usize = 20;

/// An optional column that narrow terminals drop. Alerts state their interval anyway.
const INTERVAL: &str = "95 % interval";

const LABEL: usize = 6;

/// Minimum number of unchanged rows shown.
const QUIET_MIN: usize = 3;

pub fn human(page: &Page<'_>, style: Style) -> String {
    let paint = style.paint();
    let rows = ReportRow::by_weight(page.report, page.thresholds);
    let mut blocks = vec![heading(page, paint, style.width)];
    if !rows.is_empty() {
        blocks.push(table(page, &rows, style));
    }
    let labelled = |label: String, text: &str| {
        format!("{label}  {}\n", paragraph(text, LABEL + 2, style.width))
    };
    let mut told: Vec<(u8, String)> = Vec::new();
    for sentence in lines::sentences(page) {
        told.push(match sentence {
            Sentence::Failure(text) => (0, labelled(paint.bad("failed"), &text)),
            Sentence::Notice(text) => (1, labelled(paint.warning("notice"), &text)),
            Sentence::Alert(AlertStatus::Active, text) => (2, labelled(paint.bad("alert "), &text)),
            Sentence::Cause(text) => (2, labelled(paint.bold("cause "), &text)),
            Sentence::Source(what, text) => {
                let line = cut(&format!("{what}: {text}"), style.width.saturating_sub(LABEL + 2));
                (2, format!("{:indent$}{}\n", "", paint.dim(&line), indent = LABEL + 2))
            }
            Sentence::Doubt(outcome, text) => {
                let label = if outcome.is_suspect() { "spike?" } else { "noisy " };
                (3, labelled(paint.warning(label), &text))
            }
            Sentence::Alert(_, text) => (4, labelled(paint.dim("alert "), &text)),
        });
    }
    told.sort_by_key(|(order, _)| *order);
    let mut told: String = told.into_iter().map(|(_, line)| line).collect();
    for remark in page.remarks {
        told += &labelled(paint.bold("note  "), remark);
    }
    if !told.is_empty() {
        blocks.push(told);
    }
    blocks.push(last_lines(page, &rows, paint, style.width));
    blocks.join("\n")
}

/// `report of main at 1a2b3c4d5e on ci-runner`.
fn heading(page: &Page<'_>, paint: Paint, width: usize) -> String {
    let report = page.report;
    let mut text = format!("{} on {}", subject(report), report.testbed);
    if let Some(start) = &report.start_point {
        let at = start.hash.as_deref().map(|hash| format!(" at {}", short_hash(hash)));
        text += &format!(", from {}{}", start.branch, at.unwrap_or_default());
    }
    if report.environment.is_dirty == Some(true) {
        text += ", with changes that are not committed";
    }
    // The detected tool is a guess, so it is shown.
    if let Some(adapter) = report.iterations.iter().find_map(Results::chosen) {
        text += &format!(", read as {adapter}");
    }
    paint.bold(&paragraph(&text, 2, width)) + "\n"
}

/// `project simple-profiler, branch main at 1a2b3c4d5e`.
pub(super) fn subject(report: &Report) -> String {
    let at =
        report.hash.as_deref().map(|hash| format!(" at {}", short_hash(hash))).unwrap_or_default();
    format!("{}: {}{at}", report.project, report.branch)
}

fn table(page: &Page<'_>, rows: &[ReportRow<'_>], style: Style) -> String {
    let paint = style.paint();
    let noisy = rows.iter().filter(|row| row.is_noisy()).count().saturating_sub(NOISY_MAX);
    let loud = rows.iter().filter(|row| row.is_loud()).count() - noisy;
    let shown = match style.is_verbose {
        true => rows.len(),
        false => rows.len().min(ROWS_MAX.max(loud + QUIET_MIN)),
    };
    let (shown, hidden) = rows.split_at(shown);
    let cells = |cell: fn(&ReportRow<'_>) -> String| shown.iter().map(cell).collect();
    let mut columns = vec![
        Column::words("measure", cells(|row| row.measure.label().to_owned())),
        Column::numbers("value", cells(|row| row.bare_value_text())),
        Column::numbers("spread", cells(|row| row.spread_text())).giving_way(GivesWay::First),
        Column::numbers("baseline", cells(|row| row.baseline_text())).giving_way(GivesWay::Last),
        Column::numbers("change", cells(|row| row.change_text())),
        Column::numbers(INTERVAL, cells(|row| row.interval_text())).giving_way(GivesWay::Second),
        Column::words("verdict", cells(|row| row.verdict_text())),
    ];
    if page.report.iterations.len() > 1 {
        let number = cells(|row| (u64::from(row.iteration) + 1).to_string());
        columns.insert(1, Column::numbers("iteration", number));
    }
    if style.is_verbose {
        columns.iter_mut().for_each(|column| column.gives_way = GivesWay::Never);
    }
    let names = shown.iter().map(|row| row.benchmark.name.to_string()).collect();
    let table = Table { names_heading: "benchmark", names, columns };
    let mut text = table.write(style.width, paint, &|at, line| match shown.get(at) {
        Some(row) if row.is_active() => paint.bad(line),
        Some(row) if row.outcome() == Outcome::Better => paint.good(line),
        Some(row) if !row.is_loud() => paint.dim(line),
        _ => line.to_owned(),
    });
    if !hidden.is_empty() {
        let line = paragraph(&hidden_line(hidden), 0, style.width);
        text += &format!("{}\n", paint.dim(&line));
    }
    text
}

/// `and 40 more: 38 no change, 2 too little history; --verbose shows them`.
fn hidden_line(hidden: &[ReportRow<'_>]) -> String {
    let outcomes =
        [Outcome::TooNoisy, Outcome::NoChange, Outcome::TooLittleHistory, Outcome::NotJudged];
    let counted = |outcome: &Outcome| {
        let count = hidden.iter().filter(|row| row.outcome() == *outcome).count();
        let word = super::outcome_word(*outcome);
        (count > 0).then(|| format!("{} {word}", grouped(count)))
    };
    let parts: Vec<_> = outcomes.iter().filter_map(counted).collect();
    format!("and {} more: {}; --verbose shows them", grouped(hidden.len()), parts.join(", "))
}

fn last_lines(page: &Page<'_>, rows: &[ReportRow<'_>], paint: Paint, width: usize) -> String {
    let mut text = String::new();
    if let Some(store) = page.store {
        let version = page.version_number.map(|number| format!(", version {number}"));
        let line = format!(
            "stored in {} as {}{}",
            store.display(),
            short_id(page.report.uuid),
            version.unwrap_or_default()
        );
        text += &format!("{}\n", paint.dim(&paragraph(&line, 2, width)));
    }
    let verdict = paragraph(&verdict(page), 2, width);
    let has_failures = page.report.failures().next().is_some();
    text += &match rows.iter().any(ReportRow::is_active) {
        true => paint.bad(&verdict),
        false if rows.is_empty() || has_failures => paint.warning(&verdict),
        false => paint.good(&verdict),
    };
    text + "\n"
}
