//! The server's response as a comment: the verdict, its alerts, links to its plots, and a marker at the end.

use wingbeat_text::unbroken;

use super::{
    Answer, RemoteAlert,
    human::{self, Figures},
};
use crate::{
    model::{AlertStatus, FailedBenchmark, Report},
    output::{
        self,
        document::{Block, Heading, Line, Span},
    },
};

/// The server's response as Markdown of at most 65,536 bytes with the [`output::marker`] at its end. `id` is the user's
/// name for the comment (`--ci-id`).
pub fn markdown(answer: &Answer, report: &Report, id: Option<&str>) -> String {
    let blocks = |limit| blocks(answer, report, limit);
    output::fitting(&output::marker(report, id), &output::write_markdown, &blocks)
}

/// The comment as a self-contained fragment of HTML.
pub fn html(answer: &Answer, report: &Report, id: Option<&str>) -> String {
    let blocks = |limit| blocks(answer, report, limit);
    output::fitting(&output::marker(report, id), &output::write_html, &blocks)
}

fn blocks(answer: &Answer, report: &Report, limit: usize) -> Vec<Block> {
    let mut blocks = vec![
        Block::Heading(vec![Span::text("wingbeat: "), Span::code(&report.project)]),
        Block::Paragraph(vec![Span::Strong(human::verdict(answer))]),
        output::subject(report),
    ];
    let links: Vec<Line> = [
        ("The report on the server", &answer.report_url),
        ("This project is unclaimed: claim it", &answer.claim_url),
    ]
    .into_iter()
    .filter_map(|(text, url)| Some(vec![link(text, url.as_ref()?)]))
    .collect();
    blocks.extend(links.into_iter().map(Block::Paragraph));
    let failure = |(_, it): (u32, &FailedBenchmark)| {
        vec![Span::code(&it.name), Span::text(format!(" failed: {}", it.reason))]
    };
    let mut warnings: Vec<Line> = report.failures().map(failure).collect();
    warnings.extend(answer.notices.iter().map(|notice| vec![Span::text(notice.text.to_string())]));
    warnings.extend(answer.warnings.iter().map(|text| vec![Span::text(text)]));
    if answer.judged == 0 && answer.metrics > 0 {
        let text = "No threshold of the server judges any metric of this report, so nothing can raise an \
                    alert.";
        warnings.push(vec![Span::text(text)]);
    }
    warnings.truncate(limit);
    if !warnings.is_empty() {
        blocks.push(Block::Warning(warnings));
    }
    if !answer.alerts.is_empty() {
        let head = Heading::row(&["alert", "measure", "=value", "=baseline", "limit"]);
        let rows = answer.alerts.iter().map(alert).collect();
        blocks.extend(output::limited_table(head, rows, limit, "alert"));
    }
    blocks.extend(output::causes(&answer.explained, limit));
    if !answer.plots.is_empty() && limit > 0 {
        let rows = answer.plots.iter().map(|(name, url)| vec![vec![link(name, url)]]).collect();
        let table = output::limited_table(Heading::row(&["plot"]), rows, limit, "plot");
        blocks.push(Block::Details { summary: "All plots".to_owned(), blocks: table });
    }
    blocks
}

fn alert(alert: &RemoteAlert) -> Vec<Line> {
    let figures = Figures::of(alert);
    let name = match &alert.url {
        Some(url) => link(&alert.benchmark, url),
        None => Span::code(&alert.benchmark),
    };
    let status = match alert.status {
        AlertStatus::Active => String::new(),
        settled => format!(" ({settled})"),
    };
    vec![
        vec![name],
        vec![Span::code(&alert.measure)],
        vec![Span::Strong(unbroken(&figures.value))],
        vec![Span::text(unbroken(&figures.baseline.unwrap_or_default()))],
        vec![Span::text(unbroken(&figures.limit) + &status)],
    ]
}

fn link(text: &str, url: &str) -> Span {
    Span::Link { text: text.to_owned(), url: url.to_owned() }
}
