//! The server's response, for a terminal, and sentences about it for all outputs.

use wingbeat_text::{self as text, Block, Line, Look, Span, Style, line, plural, unbroken};

use super::{Answer, RemoteAlert};
use crate::{
    model::{AlertStatus, Direction, FailedBenchmark, Measure, MeasureKind, Report},
    output,
};

/// Links to the report and its alerts, for a terminal.
pub fn links(answer: &Answer, style: Style) -> String {
    let mut blocks = vec![address("report", answer.report_url.as_ref())];
    for alert in answer.alerts.iter().filter(|alert| alert.url.is_some()) {
        let name = format!("{} {}", alert.benchmark, alert.measure);
        blocks.push(Block::Labelled(vec![(Span::strong("alert "), line(name))]));
        blocks.push(address("      ", alert.url.as_ref()));
    }
    text::human(&[Block::Section(blocks)], style)
}

/// An address, which is not wrapped, so that it can be clicked.
fn address(label: &str, url: Option<&String>) -> Block {
    let line = |url| vec![Span::strong(label), Span::text(format!("  {url}"))];
    Block::Verbatim(url.into_iter().map(line).collect())
}

/// The server's response for a terminal: alerts, links, and a one-line verdict, without warnings.
pub fn human(answer: &Answer, style: Style) -> String {
    let mut blocks = vec![
        address("report", answer.report_url.as_ref()),
        address("claim this project", answer.claim_url.as_ref()),
    ];
    for (name, url) in answer.plots.iter().filter(|_| style.is_verbose) {
        blocks.push(Block::Labelled(vec![(Span::text("plot"), line(name))]));
        blocks.push(address("    ", Some(url)));
    }
    for alert in &answer.alerts {
        let is_active = alert.status == AlertStatus::Active;
        let label = Span::new(if is_active { Look::Bad } else { Look::Dim }, "alert");
        blocks.push(Block::Labelled(vec![(label, line(sentence(alert)))]));
        blocks.push(address("     ", alert.url.as_ref()));
    }
    let look = if answer.alerts_total == 0 { Look::Good } else { Look::Bad };
    blocks.push(Block::Paragraph(vec![Span::new(look, verdict(answer))]));
    text::human(&[Block::Section(blocks)], style)
}

/// The response in one line.
pub(crate) fn verdict(answer: &Answer) -> String {
    let metrics = plural(answer.metrics, "metric");
    match (answer.alerts_total, answer.alerts_active) {
        (0, _) => format!("the server raised no alert in {metrics}"),
        (total, active) => {
            let still = match active == total {
                true => String::new(),
                false => format!(", {active} of them active"),
            };
            let total = plural(usize::try_from(total).unwrap_or(usize::MAX), "alert");
            format!("the server raised {total} in {metrics}{still}")
        }
    }
}

pub(crate) fn sentence(alert: &RemoteAlert) -> String {
    let figures = Figures::of(alert);
    let usual = figures.baseline.map(|baseline| format!(", usually {baseline}"));
    let status = match alert.status {
        AlertStatus::Active => String::new(),
        settled => format!("; {settled}"),
    };
    format!(
        "{} {}: {} is {}{}{status}",
        alert.benchmark,
        alert.measure,
        figures.value,
        figures.limit,
        usual.unwrap_or_default()
    )
}

/// The numbers of an alert, in readable units.
pub(super) struct Figures {
    pub(super) value: String,
    pub(super) baseline: Option<String>,
    /// `above 1.100 µs`.
    pub(super) limit: String,
}

impl Figures {
    pub(super) fn of(alert: &RemoteAlert) -> Self {
        let measure = Measure::custom(
            alert.measure.clone(),
            alert.units.clone(),
            Direction::Unknown,
            // Only affects the number format.
            if alert.value.fract() == 0.0 { MeasureKind::Exact } else { MeasureKind::Noisy },
        );
        let scale = measure.scale(alert.value, alert.limit_value);
        let word = alert.limit.side();
        Self {
            value: scale.with_unit(alert.value),
            baseline: alert.baseline.map(|baseline| scale.with_unit(baseline)),
            limit: alert.limit_value.map_or_else(
                || format!("{word} its limit"),
                |limit| format!("{word} {}", scale.with_unit(limit)),
            ),
        }
    }
}

/// The server's response as Markdown of at most 65,536 bytes with the [`output::marker`] at its end. `id` is the user's
/// name for the comment (`--ci-id`).
pub fn markdown(answer: &Answer, report: &Report, id: Option<&str>) -> String {
    let blocks = |limit| blocks(answer, report, limit);
    output::fitting(&output::marker(report, id), &text::markdown, &blocks)
}

/// The comment as a self-contained fragment of HTML.
pub fn html(answer: &Answer, report: &Report, id: Option<&str>) -> String {
    let blocks = |limit| blocks(answer, report, limit);
    output::fitting(&output::marker(report, id), &text::html, &blocks)
}

fn blocks(answer: &Answer, report: &Report, limit: usize) -> Vec<Block> {
    let mut blocks = vec![
        Block::Heading(vec![Span::text("wingbeat: "), Span::code(&report.project)]),
        Block::Paragraph(vec![Span::strong(verdict(answer))]),
        output::subject(report),
    ];
    let links: Vec<Line> = [
        ("The report on the server", &answer.report_url),
        ("This project is unclaimed: claim it", &answer.claim_url),
    ]
    .into_iter()
    .filter_map(|(text, url)| Some(vec![Span::link(text, url.as_ref()?)]))
    .collect();
    blocks.extend(links.into_iter().map(Block::Paragraph));
    let failure = |(_, it): (u32, &FailedBenchmark)| {
        vec![Span::code(&it.name), Span::text(format!(" failed: {}", it.reason))]
    };
    let mut warnings: Vec<Line> = report.failures().map(failure).collect();
    warnings.extend(answer.notices.iter().map(|notice| line(&notice.text)));
    warnings.extend(answer.warnings.iter().map(line));
    warnings.extend(unjudged(answer).map(line));
    warnings.truncate(limit);
    blocks.push(Block::Warning(warnings));
    let head = ["alert", "measure", "=value", "=baseline", "limit"];
    let rows = answer.alerts.iter().map(alert_row).collect();
    blocks.extend(output::limited_table(&head, rows, limit, "alert"));
    blocks.push(output::causes(&answer.explained, limit));
    if limit > 0 {
        let rows =
            answer.plots.iter().map(|(name, url)| vec![vec![Span::link(name, url)]]).collect();
        let table = output::limited_table(&["plot"], rows, limit, "plot");
        blocks.push(Block::Details { summary: "All plots".to_owned(), blocks: table });
    }
    blocks
}

/// Why no metric could raise an alert, if so.
fn unjudged(answer: &Answer) -> Option<&'static str> {
    match (answer.metrics, answer.judged, answer.compared) {
        (0, ..) => None,
        (_, 0, _) => Some(
            "No threshold of the server judges any metric of this report, so nothing can raise an alert.",
        ),
        (_, _, 0) if answer.alerts.is_empty() => Some(
            "The server has too few earlier reports of this branch and testbed to judge this one, so it raises no \
             alert yet.",
        ),
        _ => None,
    }
}

fn alert_row(alert: &RemoteAlert) -> Vec<Line> {
    let figures = Figures::of(alert);
    let name = match &alert.url {
        Some(url) => Span::link(&alert.benchmark, url),
        None => Span::code(&alert.benchmark),
    };
    let status = match alert.status {
        AlertStatus::Active => String::new(),
        settled => format!(" ({settled})"),
    };
    vec![
        vec![name],
        vec![Span::code(&alert.measure)],
        vec![Span::strong(unbroken(&figures.value))],
        line(unbroken(&figures.baseline.unwrap_or_default())),
        line(unbroken(&figures.limit) + &status),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_why_nothing_is_judged() {
        let check = |metrics, judged, compared, expected: Option<&str>| {
            let answer = Answer { metrics, judged, compared, ..Answer::default() };
            let why = unjudged(&answer);
            assert_eq!(why.is_some(), expected.is_some(), "{why:?}");
            assert!(why.unwrap_or_default().contains(expected.unwrap_or_default()), "{why:?}");
        };
        check(0, 0, 0, None);
        check(2, 0, 0, Some("No threshold"));
        check(2, 2, 0, Some("too few earlier reports"));
        check(2, 2, 1, None);
    }
}
