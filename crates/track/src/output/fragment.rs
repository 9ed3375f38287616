//! The report as a comment: important parts visible, all metrics collapsed, and a marker at the end.

use std::iter;

use wingbeat_text::{self as text, Block, Line, Span, Table, escaped, glued, plural, unbroken};

use super::{
    Page,
    lines::{self, verdict},
    row::ReportRow,
    short_hash,
};
use crate::{
    explain::Explained,
    model::{BranchName, Report},
};

/// GitHub's maximum length of a check run's summary, in characters. That of a comment is one more. This counts bytes,
/// of which there are at least as many.
const LENGTH_MAX: usize = 65_535;

/// Maximum rows of each table, tried in order until the comment is short enough.
const ROWS: &[usize] = &[usize::MAX, 500, 200, 100, 50, 20, 10, 5, 1, 0];

/// The report as GitHub's and GitLab's Markdown, at most 65,536 bytes, with the [`marker`] at its end. `id` is the
/// user's name for the comment (`--ci-id`).
pub fn markdown(page: &Page<'_>, id: Option<&str>) -> String {
    shortened(page, id, &text::markdown)
}

/// The comment as a self-contained fragment of HTML.
pub fn html(page: &Page<'_>, id: Option<&str>) -> String {
    shortened(page, id, &text::html)
}

fn shortened(page: &Page<'_>, id: Option<&str>, write: &dyn Fn(&[Block]) -> String) -> String {
    let rows = ReportRow::by_weight(page.report, page.thresholds);
    let verdict = verdict(page);
    fitting(&marker(page.report, id), write, &|limit| blocks(page, &verdict, &rows, limit))
}

/// The longest form that GitHub accepts, with the marker. `blocks` gets the maximum rows of a table.
pub(crate) fn fitting(
    marker: &str,
    write: &dyn Fn(&[Block]) -> String,
    blocks: &dyn Fn(usize) -> Vec<Block>,
) -> String {
    let forms = ROWS.iter().map(|limit| write(&blocks(*limit)));
    // The shortest form exceeds the limit only with names of about a kilobyte.
    let shortest = || write(&[Block::Paragraph(text::line("the report is too long to show"))]);
    let text = forms
        .into_iter()
        .find(|text| text.len() + marker.len() + 2 <= LENGTH_MAX)
        .unwrap_or_else(shortest);
    format!("{text}\n{marker}\n")
}

fn blocks(page: &Page<'_>, verdict: &str, rows: &[ReportRow<'_>], limit: usize) -> Vec<Block> {
    let report = page.report;
    let mut blocks = vec![
        Block::Heading(vec![Span::text("wingbeat: "), Span::code(&report.project)]),
        Block::Paragraph(vec![Span::strong(glued(verdict))]),
        subject(report),
    ];
    blocks.push(Block::Warning(limited(warnings(page, rows), limit, "warning")));
    let alerts: Vec<_> = rows.iter().filter(|row| row.alert.is_some()).collect();
    let cells = alerts.iter().map(|row| alert(page, row)).collect();
    let head = ["alert", "measure", "=value", "=baseline", "=change", "limit"];
    blocks.extend(table(&head, cells, limit, "alert"));
    // A column of sentences would leave no room for the figures.
    let reasons = alerts.iter().take(limit).filter_map(|row| reason(page, row));
    blocks.push(Block::List(reasons.collect()));
    blocks.push(causes(page.explained, limit));
    if limit > 0 {
        let cells = rows.iter().map(|row| metric(page, row)).collect();
        let head = ["benchmark", "measure", "=value", "=baseline", "=change", "verdict"];
        let summary = match rows.len() {
            1 => "The metric".to_owned(),
            count => format!("All {}", plural(count, "metric")),
        };
        blocks.push(Block::Details { summary, blocks: table(&head, cells, limit, "metric") });
    }
    let environment: Vec<_> = report
        .environment
        .lasting()
        .into_iter()
        .map(|(name, value)| vec![text::line(name), vec![Span::code(value)]])
        .collect();
    let table = Block::Table(Table::of_rows(&["environment", ""], &environment));
    blocks.push(Block::Details { summary: "Environment".to_owned(), blocks: vec![table] });
    blocks
}

/// The functions that explain alerts, for at most `limit` of them.
pub(crate) fn causes(explained: &[Explained], limit: usize) -> Block {
    let of_one = |it: &Explained| {
        let (benchmark, measure) = (it.benchmark.clone(), it.measure.clone());
        let line = move |(at, sentence): (usize, &String)| {
            let cause = vec![
                Span::strong("Cause"),
                Span::text(" of "),
                Span::code(&benchmark),
                Span::text(" "),
                Span::code(&measure),
                Span::text(format!(": {}", glued(sentence))),
            ];
            let source = it.source_of(at);
            let source =
                source.map(|(what, text)| vec![Span::text(format!("{what}: ")), Span::code(text)]);
            [cause].into_iter().chain(source).collect::<Vec<Line>>()
        };
        it.sentences.iter().enumerate().flat_map(line).collect::<Vec<Line>>()
    };
    Block::List(explained.iter().take(limit).flat_map(of_one).collect())
}

/// The project, branch and testbed of the report.
pub(crate) fn subject(report: &Report) -> Block {
    let cell = |branch: &BranchName, hash: &Option<String>| -> Line {
        let at = hash.as_ref().map(|hash| [Span::text(" at "), Span::code(short_hash(hash))]);
        [Span::code(branch)].into_iter().chain(at.into_iter().flatten()).collect()
    };
    let mut head = vec!["branch", "testbed"];
    let mut cells = vec![cell(&report.branch, &report.hash), vec![Span::code(&report.testbed)]];
    if let Some(start) = &report.start_point {
        head.push("compared with");
        cells.push(cell(&start.branch, &start.hash));
    }
    Block::Table(Table::of_rows(&head, &[cells]))
}

fn warnings(page: &Page<'_>, rows: &[ReportRow<'_>]) -> Vec<Line> {
    let mut warnings = Vec::new();
    for (iteration, failure) in page.report.failures() {
        let iteration = lines::iteration(page, iteration);
        let reason = format!(" failed{iteration}: {}", failure.reason);
        warnings.push(vec![Span::code(&failure.name), Span::text(reason)]);
    }
    if !rows.is_empty() && rows.iter().all(|row| row.threshold.is_none()) {
        let text = "No threshold judges any metric of this report, so nothing can raise an alert.";
        warnings.push(text::line(text));
    }
    let (doubtful, more) = ReportRow::doubtful(rows);
    for row in doubtful {
        let iteration = lines::iteration(page, row.iteration);
        let text = format!("{iteration}: {}", glued(&lines::doubt(row)));
        warnings.push(vec![
            Span::code(&row.benchmark.name),
            Span::text(" "),
            Span::code(row.measure.label()),
            Span::text(text),
        ]);
    }
    let notices = page.notices.iter().map(|it| it.text.to_string());
    let sentences =
        lines::more_noisy(more).into_iter().chain(notices).chain(page.remarks.iter().cloned());
    warnings.extend(sentences.map(|text| text::line(glued(&text))));
    warnings
}

/// The common cells of each table row, and two more.
fn cells(page: &Page<'_>, row: &ReportRow<'_>, [change, end]: [Line; 2]) -> Vec<Line> {
    vec![
        vec![Span::code(&row.benchmark.name), Span::text(lines::iteration(page, row.iteration))],
        vec![Span::code(row.measure.label())],
        text::line(unbroken(&row.value_text())),
        text::line(unbroken(&row.baseline_text())),
        change,
        end,
    ]
}

fn alert(page: &Page<'_>, row: &ReportRow<'_>) -> Vec<Line> {
    let change = vec![Span::strong(unbroken(&row.change_text())), Span::text(interval(row))];
    cells(page, row, [change, text::line(unbroken(&row.limit_text()))])
}

/// Why there is an alert, and its status. `None` if there is nothing to add.
fn reason(page: &Page<'_>, row: &ReportRow<'_>) -> Option<Line> {
    let why = row.reason_text();
    let status = row.alert.filter(|_| !row.is_active()).map(|alert| {
        let reason = alert.reason.as_ref().map(|reason| format!(": {reason}"));
        format!("{}{}", alert.status, reason.unwrap_or_default())
    });
    let parts = match (why.is_empty(), status) {
        (_, None) => why,
        (true, Some(status)) => status,
        (false, Some(status)) => format!("{why} ({status})"),
    };
    (!parts.is_empty()).then(|| {
        let iteration = lines::iteration(page, row.iteration);
        vec![
            Span::code(&row.benchmark.name),
            Span::text(format!("{iteration} ")),
            Span::code(row.measure.label()),
            Span::text(format!(": {}", glued(&parts))),
        ]
    })
}

fn metric(page: &Page<'_>, row: &ReportRow<'_>) -> Vec<Line> {
    let verdict = match row.is_active() {
        true => Span::strong(row.verdict_text()),
        false => Span::text(glued(&row.verdict_text())),
    };
    let change = Span::text(unbroken(&row.change_text()) + &interval(row));
    cells(page, row, [vec![change], vec![verdict]])
}

fn interval(row: &ReportRow<'_>) -> String {
    match row.interval_text() {
        interval if interval.is_empty() => interval,
        interval => format!(" ({})", unbroken(&interval)),
    }
}

/// A table with at most `limit` rows, and a line about the omitted ones.
pub(crate) fn table(
    head: &[&str],
    mut rows: Vec<Vec<Line>>,
    limit: usize,
    noun: &str,
) -> Vec<Block> {
    let missing = rows.len().saturating_sub(limit);
    rows.truncate(limit);
    let left_out = left_out(missing, noun).into_iter().map(Block::Paragraph);
    iter::once(Block::Table(Table::of_rows(head, &rows))).chain(left_out).collect()
}

fn limited(mut lines: Vec<Line>, limit: usize, noun: &str) -> Vec<Line> {
    let missing = lines.len().saturating_sub(limit);
    lines.truncate(limit);
    lines.extend(left_out(missing, noun));
    lines
}

fn left_out(missing: usize, noun: &str) -> Option<Line> {
    let what = plural(missing, &format!("more {noun}"));
    let text = format!("{what} left out, since a comment is limited in length.");
    (missing > 0).then(|| text::line(text))
}

/// The hidden element that identifies a comment. `id` replaces branch, testbed and adapter if given (`--ci-id`).
pub fn marker(report: &Report, id: Option<&str>) -> String {
    let project = whole(report.project.as_str());
    let rest = match id {
        Some(id) => format!("id/{}", whole(id)),
        None => {
            let testbed = whole(report.testbed.as_str());
            format!("{}/{testbed}/{}", report.branch, report.adapter)
        }
    };
    format!("<div id=\"{}\"></div>", escaped(&format!("wingbeat/{project}/{rest}")))
}

/// Percent-encodes slashes, so that different names never give the same path. Branches keep theirs: they are between
/// parts without any.
fn whole(part: &str) -> String {
    part.replace('%', "%25").replace('/', "%2F")
}
