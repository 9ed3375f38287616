//! The server's response, for a terminal, and sentences about it for all outputs.

use wingbeat_text::{Style, paragraph, plural};

use super::{Answer, RemoteAlert};
use crate::model::{AlertStatus, Direction, Limit, Measure, MeasureKind};

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
