//! The server's response, for a terminal, and sentences about it for all outputs.

use wingbeat_text::{Style, paragraph, plural, unbroken};

use super::{Answer, RemoteAlert};
use crate::{
    model::{AlertStatus, Direction, FailedBenchmark, Limit, Measure, MeasureKind, Report},
    output::{
        self,
        document::{Block, Heading, Line, Span},
    },
};

/// Links to the report and its alerts, for a terminal.
pub fn links(answer: &Answer, style: Style) -> String {
    let paint = style.paint();
    let mut text = String::new();
    if let Some(url) = &answer.report_url {
        text += &format!("{}  {url}\n", paint.bold("report"));
    }
    for alert in &answer.alerts {
        if let Some(url) = &alert.url {
            let name = format!("{} {}", alert.benchmark, alert.measure);
            text += &format!(
                "{}   {}\n        {url}\n",
                paint.bold("alert"),
                paragraph(&name, 8, style.width)
            );
        }
    }
    text
}

/// The server's response for a terminal: alerts, links, and a one-line verdict, without warnings.
pub fn human(answer: &Answer, style: Style) -> String {
    let paint = style.paint();
    let mut text = String::new();
    // Addresses are not wrapped, so that they can be clicked.
    for (label, url) in [("report", &answer.report_url), ("claim this project", &answer.claim_url)]
    {
        if let Some(url) = url {
            text += &format!("{}  {url}\n", paint.bold(label));
        }
    }
    if style.is_verbose {
        for (name, url) in &answer.plots {
            text += &format!("plot  {}\n      {url}\n", paragraph(name, 6, style.width));
        }
    }
    for alert in &answer.alerts {
        let label = match alert.status {
            AlertStatus::Active => paint.bad("alert"),
            _ => paint.dim("alert"),
        };
        text += &format!("{label}  {}\n", paragraph(&sentence(alert), 7, style.width));
        if let Some(url) = &alert.url {
            text += &format!("       {url}\n");
        }
    }
    let verdict = verdict(answer);
    let verdict = match answer.alerts_total {
        0 => paint.good(&verdict),
        _ => paint.bad(&verdict),
    };
    text + &verdict + "\n"
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
        let word = match alert.limit {
            Limit::Lower => "below",
            Limit::Upper => "above",
        };
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
        Block::Paragraph(vec![Span::Strong(verdict(answer))]),
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
        let rows = answer.alerts.iter().map(alert_row).collect();
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

fn alert_row(alert: &RemoteAlert) -> Vec<Line> {
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
