//! What the server said, for a terminal.

use super::Answer;
use crate::{
    model::{Direction, Kind, Limit, Measure, Status},
    output::{
        Style,
        number::Scale,
        plural,
        text::{Paint, paragraph},
    },
};

/// What the server said, for a terminal: alerts, links, one line of verdict. Warnings are
/// not part of it.
#[must_use]
pub fn human(answer: &Answer, style: Style) -> String {
    let paint = Paint { has_colours: style.has_colours };
    let mut text = String::new();
    // Addresses are not broken, so that they can be clicked.
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
        let measure = Measure::custom(
            &alert.measure,
            &alert.units,
            Direction::Unknown,
            // How the number is written, and nothing else.
            if alert.value.fract() == 0.0 { Kind::Exact } else { Kind::Noisy },
        );
        let scale = Scale::of(&measure, alert.value, alert.limit_value);
        let word = match alert.limit {
            Limit::Lower => "below",
            Limit::Upper => "above",
        };
        let limit = alert.limit_value.map_or_else(
            || format!("{word} its limit"),
            |limit| format!("{word} {}", scale.with_unit(limit)),
        );
        let usual =
            alert.baseline.map(|baseline| format!(", usually {}", scale.with_unit(baseline)));
        let status = match alert.status {
            Status::Active => String::new(),
            settled => format!("; {settled}"),
        };
        let line = format!(
            "{} {}: {} is {limit}{}{status}",
            alert.benchmark,
            alert.measure,
            scale.with_unit(alert.value),
            usual.unwrap_or_default()
        );
        let label = match alert.status {
            Status::Active => paint.bad("alert"),
            _ => paint.dim("alert"),
        };
        text += &format!("{label}  {}\n", paragraph(&line, 7, style.width));
        if let Some(url) = &alert.url {
            text += &format!("       {url}\n");
        }
    }
    let metrics = plural(answer.metrics, "metric");
    let verdict = match (answer.alerts_total, answer.alerts_active) {
        (0, _) => paint.good(&format!("the server raised no alert in {metrics}")),
        (total, active) => {
            let total = plural(usize::try_from(total).unwrap_or(usize::MAX), "alert");
            let still = if active == answer.alerts_total {
                String::new()
            } else {
                format!(", {active} of them active")
            };
            paint.bad(&format!("the server raised {total} in {metrics}{still}"))
        }
    };
    text + &verdict + "\n"
}
