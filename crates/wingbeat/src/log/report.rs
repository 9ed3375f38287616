//! A whole report, as text.

use owo_colors::OwoColorize as _;
use wingbeat_text::{Column, GivesWay, Paint, Table, bytes, cut, grouped, paragraph};
use wingbeat_track::{
    explain::Explained,
    model::{Alert, AlertStatus, Outcome, ProfileInfo, Report},
    output::{ReportRow, outcome_word},
};

use crate::store::{id::short, minute};

/// The report, with tables limited to `width`.
pub(super) fn text(
    report: &Report,
    profiles: &[ProfileInfo],
    explained: &[Explained],
    width: usize,
) -> String {
    let paint = Paint { has_colours: true };
    let rows = ReportRow::all(report, &[]);
    let mut blocks = vec![head(report, width), metrics(report, &rows, width)];
    if !report.alerts.is_empty() {
        blocks.push(alerts(report, width));
    }
    let labelled = |label: String, length: usize, text: &str| {
        format!("{label}  {}\n", paragraph(text, length + 2, width))
    };
    let mut told = String::new();
    for (_, failure) in report.failures() {
        let text = format!("{}: {}", failure.name, failure.reason);
        told += &labelled(paint.bad("failed"), 6, &text);
    }
    for row in rows.iter().filter(|row| is_loud(row.outcome())) {
        let iteration = match report.iterations.len() {
            0 | 1 => String::new(),
            _ => format!(" (iteration {})", row.iteration + 1),
        };
        let (benchmark, measure) = (&row.benchmark.name, &row.measure.slug);
        let text = format!("{benchmark} {measure}{iteration}: {}", row.reason_text());
        let word = outcome_word(row.outcome());
        told += &labelled(paint.bold(word), word.len(), &text);
    }
    for found in explained {
        let Explained { benchmark, measure, sentences, .. } = found;
        for (at, sentence) in sentences.iter().enumerate() {
            let text = format!("{benchmark} {measure}: {sentence}");
            told += &labelled(paint.bold("cause"), 5, &text);
            for (what, text) in found.source_of(at) {
                let line = cut(&format!("{what}: {text}"), width.saturating_sub(7));
                told += &format!("{:7}{}\n", "", paint.dim(&line));
            }
        }
    }
    if !told.is_empty() {
        blocks.push(told);
    }
    if !profiles.is_empty() {
        blocks.push(self::profiles(profiles, width));
    }
    blocks.join("\n")
}

/// Whether a verdict has details to show.
fn is_loud(outcome: Outcome) -> bool {
    !matches!(outcome, Outcome::NoChange | Outcome::TooLittleHistory | Outcome::NotJudged)
}

fn head(report: &Report, width: usize) -> String {
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
    let widest = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): (&str, String)| {
        let fill = " ".repeat(widest - name.len());
        let value = paragraph(&value, widest + 2, width);
        format!("{}{fill}  {value}\n", name.dimmed())
    };
    rows.into_iter().map(line).collect()
}

fn metrics(report: &Report, rows: &[ReportRow<'_>], width: usize) -> String {
    if rows.is_empty() {
        return "no metrics\n".to_owned();
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
    let names = cells(&|row| row.benchmark.name.to_string());
    let paint = Paint { has_colours: true };
    Table { names_heading: "benchmark", names, columns }.write(width, paint, &|at, line| match rows
        [at]
        .outcome()
    {
        Outcome::Worse => paint.bad(line),
        Outcome::Better => paint.good(line),
        Outcome::Changed => paint.warning(line),
        _ => line.to_owned(),
    })
}

fn profiles(all: &[ProfileInfo], width: usize) -> String {
    let cells = |cell: fn(&ProfileInfo) -> String| all.iter().map(cell).collect();
    let columns = vec![
        Column::words("kind", cells(|profile| profile.kind.to_string())),
        Column::numbers("samples", cells(|profile| grouped(profile.samples))),
        Column::numbers("size", cells(|profile| bytes(profile.bytes))),
    ];
    let names = cells(|profile| {
        profile
            .benchmark
            .as_ref()
            .map_or_else(|| "the whole command".to_owned(), ToString::to_string)
    });
    let paint = Paint { has_colours: true };
    let table = Table { names_heading: "profile of", names, columns };
    table.write(width, paint, &|_, line| line.to_owned())
}

fn alerts(report: &Report, width: usize) -> String {
    let all = &report.alerts;
    let cells = |cell: fn(&Alert) -> String| all.iter().map(cell).collect();
    let columns = vec![
        Column::words("measure", cells(|alert| alert.measure.to_string())),
        Column::words("limit", cells(|alert| crate::alerts::side(alert.limit).to_owned())),
        Column::words("alert", cells(|alert| short(alert.uuid))),
        Column::words("status", cells(crate::alerts::status)),
    ];
    let names = cells(|alert| alert.benchmark.to_string());
    let paint = Paint { has_colours: true };
    Table { names_heading: "alert of", names, columns }.write(width, paint, &|at, line| match all
        [at]
        .status
    {
        AlertStatus::Active => paint.bad(line),
        _ => paint.dim(line),
    })
}
