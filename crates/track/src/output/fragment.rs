//! The report as a comment: important parts visible, all metrics collapsed, and a marker at the end.

use wingbeat_text::{glued, plural, unbroken};

use super::{
    Page,
    document::{Block, Heading, Line, Span},
    html::{self as html_text, marker},
    lines::{self, verdict},
    markdown as markdown_text,
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
    shortened(page, id, &markdown_text::write)
}

/// The comment as a self-contained fragment of HTML.
pub fn html(page: &Page<'_>, id: Option<&str>) -> String {
    shortened(page, id, &html_text::write)
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
    let shortest =
        || write(&[Block::Paragraph(vec![Span::text("the report is too long to show")])]);
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
        Block::Paragraph(vec![Span::Strong(glued(verdict))]),
        subject(report),
    ];
    let warnings = warnings(page, rows);
    if !warnings.is_empty() {
        blocks.push(Block::Warning(limited(warnings, limit, "warning")));
    }
    let alerts: Vec<_> = rows.iter().filter(|row| row.alert.is_some()).collect();
    if !alerts.is_empty() {
        let cells = alerts.iter().map(|row| alert(page, row)).collect();
        let head = Heading::row(&["alert", "measure", "=value", "=baseline", "=change", "limit"]);
        blocks.extend(table(head, cells, limit, "alert"));
        // A column of sentences would leave no room for the figures.
        let reasons: Vec<_> =
            alerts.iter().take(limit).filter_map(|row| reason(page, row)).collect();
        if !reasons.is_empty() {
            blocks.push(Block::List(reasons));
        }
        blocks.extend(causes(page.explained, limit));
    }
    if !rows.is_empty() && limit > 0 {
        let cells = rows.iter().map(|row| metric(page, row)).collect();
        let head =
            Heading::row(&["benchmark", "measure", "=value", "=baseline", "=change", "verdict"]);
        let summary = match rows.len() {
            1 => "The metric".to_owned(),
            count => format!("All {}", plural(count, "metric")),
        };
        blocks.push(Block::Details { summary, blocks: table(head, cells, limit, "metric") });
    }
    let environment: Vec<_> = report
        .environment
        .lasting()
        .into_iter()
        .map(|(name, value)| vec![vec![Span::text(name)], vec![Span::code(value)]])
        .collect();
    if !environment.is_empty() {
        let table = Block::Table { head: Heading::row(&["environment", ""]), rows: environment };
        blocks.push(Block::Details { summary: "Environment".to_owned(), blocks: vec![table] });
    }
    blocks
}

/// The functions that explain alerts, for at most `limit` of them.
pub(crate) fn causes(explained: &[Explained], limit: usize) -> Option<Block> {
    let of_one = |it: &Explained| {
        let (benchmark, measure) = (it.benchmark.clone(), it.measure.clone());
        let line = move |(at, sentence): (usize, &String)| {
            let cause = vec![
                Span::Strong("Cause".to_owned()),
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
    let lines: Vec<Line> = explained.iter().take(limit).flat_map(of_one).collect();
    (!lines.is_empty()).then_some(Block::List(lines))
}

/// The project, branch and testbed of the report.
pub(crate) fn subject(report: &Report) -> Block {
    let cell = |branch: &BranchName, hash: &Option<String>| -> Line {
        let at = hash.as_ref().map(|hash| [Span::text(" at "), Span::code(short_hash(hash))]);
        [Span::code(branch)].into_iter().chain(at.into_iter().flatten()).collect()
    };
    let mut head = Heading::row(&["branch", "testbed"]);
    let mut cells = vec![cell(&report.branch, &report.hash), vec![Span::code(&report.testbed)]];
    if let Some(start) = &report.start_point {
        head.push(Heading::new("compared with", false));
        cells.push(cell(&start.branch, &start.hash));
    }
    Block::Table { head, rows: vec![cells] }
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
        warnings.push(vec![Span::text(text)]);
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
    warnings.extend(sentences.map(|text| vec![Span::text(glued(&text))]));
    warnings
}

/// The common cells of each table row, and two more.
fn cells(page: &Page<'_>, row: &ReportRow<'_>, [change, end]: [Line; 2]) -> Vec<Line> {
    vec![
        vec![Span::code(&row.benchmark.name), Span::text(lines::iteration(page, row.iteration))],
        vec![Span::code(row.measure.label())],
        vec![Span::text(unbroken(&row.value_text()))],
        vec![Span::text(unbroken(&row.baseline_text()))],
        change,
        end,
    ]
}

fn alert(page: &Page<'_>, row: &ReportRow<'_>) -> Vec<Line> {
    let change = vec![Span::Strong(unbroken(&row.change_text())), Span::text(interval(row))];
    cells(page, row, [change, vec![Span::text(unbroken(&row.limit_text()))]])
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
        true => Span::Strong(row.verdict_text()),
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
    head: Vec<Heading>,
    mut rows: Vec<Vec<Line>>,
    limit: usize,
    noun: &str,
) -> Vec<Block> {
    let missing = rows.len().saturating_sub(limit);
    rows.truncate(limit);
    let mut blocks = Vec::new();
    if !rows.is_empty() {
        blocks.push(Block::Table { head, rows });
    }
    if missing > 0 {
        blocks.push(Block::Paragraph(vec![Span::text(left_out(missing, noun))]));
    }
    blocks
}

fn limited(mut lines: Vec<Line>, limit: usize, noun: &str) -> Vec<Line> {
    let missing = lines.len().saturating_sub(limit);
    lines.truncate(limit);
    if missing > 0 {
        lines.push(vec![Span::text(left_out(missing, noun))]);
    }
    lines
}

fn left_out(missing: usize, noun: &str) -> String {
    format!(
        "{} left out, since a comment is limited in length.",
        plural(missing, &format!("more {noun}"))
    )
}
