//! A whole report, as text.

use wingbeat_text::{Block, Column, GivesWay, Line, Look, Span, Table, bytes, grouped, line};
use wingbeat_track::{
    explain::Explained,
    model::{Alert, Outcome, ProfileInfo, Report},
    output::{ReportRow, outcome_word, source},
};

use crate::store::{id::short, minute};

/// The report, with sources cut to `width`.
pub(super) fn blocks(
    report: &Report,
    profiles: &[ProfileInfo],
    explained: &[Explained],
    width: usize,
) -> Vec<Block> {
    let rows = ReportRow::all(report, &[]);
    let mut told: Vec<(Span, Line)> = Vec::new();
    for (_, failure) in report.failures() {
        let text = format!("{}: {}", failure.name, failure.reason);
        told.push((Span::new(Look::Bad, "failed"), line(text)));
    }
    for row in rows.iter().filter(|row| is_loud(row.outcome())) {
        let iteration = match report.iterations.len() {
            0 | 1 => String::new(),
            _ => format!(" (iteration {})", row.iteration + 1),
        };
        let (benchmark, measure) = (&row.benchmark.name, &row.measure.slug);
        let text = format!("{benchmark} {measure}{iteration}: {}", row.reason_text());
        told.push((Span::strong(outcome_word(row.outcome())), line(text)));
    }
    let indent = told.iter().map(|(label, _)| wingbeat_text::width(&label.text)).max();
    let indent = indent.unwrap_or(0).max("cause".len());
    for found in explained {
        let Explained { benchmark, measure, sentences, .. } = found;
        for (at, sentence) in sentences.iter().enumerate() {
            let text = format!("{benchmark} {measure}: {sentence}");
            told.push((Span::strong("cause"), line(text)));
            told.extend(
                found.source_of(at).map(|(what, text)| source(&what, &text, indent, width)),
            );
        }
    }
    vec![
        head(report),
        metrics(report, &rows),
        alerts(&report.alerts),
        Block::Labelled(told),
        self::profiles(profiles),
    ]
}

/// Whether a verdict has details to show.
fn is_loud(outcome: Outcome) -> bool {
    !matches!(outcome, Outcome::NoChange | Outcome::TooLittleHistory | Outcome::NotJudged)
}

fn head(report: &Report) -> Block {
    let environment = &report.environment;
    let mut rows = vec![
        ("report", report.uuid.to_string()),
        ("project", report.project.to_string()),
        ("branch", report.branch.to_string()),
    ];
    if report.epoch > 0 {
        rows.push(("epoch", report.epoch.to_string()));
    }
    if let Some(start) = &report.start_point {
        let at = start.hash.as_ref().map_or_else(String::new, |hash| format!(" at {hash}"));
        let until =
            start.until.map_or_else(String::new, |time| format!(", up to {}", minute(time)));
        rows.push((
            "from",
            format!("{}{at}{until}, at most {} versions", start.branch, start.max_versions),
        ));
    }
    if let Some(hash) = &report.hash {
        let dirty = if environment.is_dirty == Some(true) { ", with local changes" } else { "" };
        rows.push(("hash", format!("{hash}{dirty}")));
    }
    let took = (report.end_time - report.start_time).as_seconds_f64();
    rows.push(("testbed", report.testbed.to_string()));
    rows.push(("time", format!("{} UTC, {took:.1} s", minute(report.start_time))));
    rows.push(("adapter", report.adapter.to_string()));
    rows.extend(environment.lasting());
    if let Some(load) = environment.load {
        rows.push(("load", format!("{load:.2}")));
    }
    if let Some(steal) = environment.steal {
        rows.push(("steal", format!("{:.1} %", 100.0 * steal)));
    }
    if let Some(other) = report.confirms {
        rows.push(("confirms", other.to_string()));
    }
    let label = |name| Span::new(Look::Dim, name);
    Block::Labelled(rows.into_iter().map(|(name, value)| (label(name), line(value))).collect())
}

fn metrics(report: &Report, rows: &[ReportRow<'_>]) -> Block {
    if rows.is_empty() {
        return Block::Paragraph(line("no metrics"));
    }
    let has_several = report.iterations.len() > 1;
    let cells = |cell: &dyn Fn(&ReportRow<'_>) -> String| rows.iter().map(cell).collect();
    let iteration = |row: &ReportRow<'_>| match has_several {
        true => (row.iteration + 1).to_string(),
        false => String::new(),
    };
    let verdict = |row: &ReportRow<'_>| match row.verdict {
        Some(verdict) => outcome_word(verdict.outcome).to_owned(),
        None => String::new(),
    };
    let columns = vec![
        Column::words("measure", cells(&|row| row.measure.label().to_owned())),
        Column::numbers("iteration", cells(&iteration)),
        Column::numbers("value", cells(&|row| row.bare_value_text())),
        Column::numbers("spread", cells(&|row| row.spread_text())).giving_way(GivesWay::First),
        Column::numbers("baseline", cells(&|row| row.baseline_text())).giving_way(GivesWay::Last),
        Column::numbers("change", cells(&|row| row.change_text())),
        Column::words("verdict", cells(&verdict)),
    ];
    let look = |row: &ReportRow<'_>| match row.outcome() {
        Outcome::Worse => Look::Bad,
        Outcome::Better => Look::Good,
        Outcome::Changed => Look::Warning,
        _ => Look::Plain,
    };
    let table = Table::new("benchmark", rows.iter().map(|row| &row.benchmark.name), columns);
    Block::Table(table.with_looks(rows.iter().map(look).collect()))
}

fn profiles(all: &[ProfileInfo]) -> Block {
    let cells = |cell: fn(&ProfileInfo) -> String| all.iter().map(cell).collect();
    let columns = vec![
        Column::words("kind", cells(|profile| profile.kind.to_string())),
        Column::numbers("samples", cells(|profile| grouped(profile.samples))),
        Column::numbers("size", cells(|profile| bytes(profile.bytes))),
    ];
    let name = |profile: &ProfileInfo| {
        profile.benchmark.as_ref().map_or("the whole command".to_owned(), ToString::to_string)
    };
    Block::Table(Table::new("profile of", all.iter().map(name), columns))
}

fn alerts(all: &[Alert]) -> Block {
    let cells = |cell: fn(&Alert) -> String| all.iter().map(cell).collect();
    let columns = vec![
        Column::words("measure", cells(|alert| alert.measure.to_string())),
        Column::words("limit", cells(|alert| alert.limit.side().to_owned())),
        Column::words("alert", cells(|alert| short(alert.uuid))),
        Column::words("status", cells(crate::alerts::status)),
    ];
    let table = Table::new("alert of", all.iter().map(|alert| &alert.benchmark), columns);
    Block::Table(table.with_looks(all.iter().map(crate::alerts::look).collect()))
}
