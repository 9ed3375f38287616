//! The report for a terminal: a table, the notable metrics, and a summary line.

use wingbeat_text::{
    Block, Column, GivesWay, Line, Look, Span, Style, Table, cut, grouped, line, unbroken,
};

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
    let rows = ReportRow::by_weight(page.report, page.thresholds);
    let mut blocks = vec![heading(page), table(page, &rows, style.is_verbose)];
    let mut told: Vec<(u8, (Span, Line))> = Vec::new();
    for sentence in lines::sentences(page) {
        let (order, look, label, text) = match sentence {
            Sentence::Failure(text) => (0, Look::Bad, "failed", text),
            Sentence::Notice(text) => (1, Look::Warning, "notice", text),
            Sentence::Alert(AlertStatus::Active, text) => (2, Look::Bad, "alert ", text),
            Sentence::Cause(text) => (2, Look::Strong, "cause ", text),
            Sentence::Source(what, text) => {
                told.push((2, source(&what, &text, LABEL, style.width)));
                continue;
            }
            Sentence::Doubt(outcome, text) => {
                (3, Look::Warning, if outcome.is_suspect() { "spike?" } else { "noisy " }, text)
            }
            Sentence::Alert(_, text) => (4, Look::Dim, "alert ", text),
        };
        told.push((order, (Span::new(look, label), line(text))));
    }
    told.sort_by_key(|(order, _)| *order);
    let remarks = page.remarks.iter().map(|text| (Span::new(Look::Bad, "note  "), line(text)));
    blocks.push(Block::Labelled(told.into_iter().map(|(_, line)| line).chain(remarks).collect()));
    blocks.push(last_lines(page, &rows));
    wingbeat_text::human(&blocks, style)
}

/// A line of source below its cause, cut to the width of the terminal rather than wrapped.
pub fn source(what: &str, text: &str, label: usize, width: usize) -> (Span, Line) {
    let text = cut(&format!("{what}: {text}"), width.saturating_sub(label + 2));
    (Span::text(""), vec![Span::new(Look::Dim, unbroken(&text))])
}

/// `report of main at 1a2b3c4d5e on ci-runner`.
fn heading(page: &Page<'_>) -> Block {
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
    Block::Heading(line(text))
}

/// `project simple-profiler, branch main at 1a2b3c4d5e`.
pub(super) fn subject(report: &Report) -> String {
    let at =
        report.hash.as_deref().map(|hash| format!(" at {}", short_hash(hash))).unwrap_or_default();
    format!("{}: {}{at}", report.project, report.branch)
}

fn table(page: &Page<'_>, rows: &[ReportRow<'_>], is_verbose: bool) -> Block {
    let noisy = rows.iter().filter(|row| row.is_noisy()).count().saturating_sub(NOISY_MAX);
    let loud = rows.iter().filter(|row| row.is_loud()).count() - noisy;
    let shown = match is_verbose {
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
    if is_verbose {
        columns = columns.into_iter().map(|it| it.giving_way(GivesWay::Never)).collect();
    }
    let look = |row: &ReportRow<'_>| match row.outcome() {
        _ if row.is_active() => Look::Bad,
        Outcome::Better => Look::Good,
        _ if !row.is_loud() => Look::Dim,
        _ => Look::Plain,
    };
    let names = shown.iter().map(|row| &row.benchmark.name);
    let table = Table::new("benchmark", names, columns);
    let mut section = vec![Block::Table(table.with_looks(shown.iter().map(look).collect()))];
    if !hidden.is_empty() {
        section.push(Block::Paragraph(vec![Span::new(Look::Dim, hidden_line(hidden))]));
    }
    Block::Section(section)
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

fn last_lines(page: &Page<'_>, rows: &[ReportRow<'_>]) -> Block {
    let stored = page.store.map(|store| {
        let version = page.version_number.map(|number| format!(", version {number}"));
        let (id, version) = (short_id(page.report.uuid), version.unwrap_or_default());
        Span::new(Look::Dim, format!("stored in {} as {id}{version}", store.display()))
    });
    let has_failures = page.report.failures().next().is_some();
    let look = match rows.iter().any(ReportRow::is_active) {
        true => Look::Bad,
        false if rows.is_empty() || has_failures => Look::Warning,
        false => Look::Good,
    };
    let verdict = Span::new(look, verdict(page));
    Block::List(stored.into_iter().chain([verdict]).map(|span| vec![span]).collect())
}
