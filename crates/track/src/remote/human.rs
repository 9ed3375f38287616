//! The server's response, for a terminal.

use wingbeat_text::{Style, paragraph};

use super::{Answer, words};
use crate::model::AlertStatus;

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
        text += &format!("{label}  {}\n", paragraph(&words::alert(alert), 7, style.width));
        if let Some(url) = &alert.url {
            text += &format!("       {url}\n");
        }
    }
    let verdict = words::verdict(answer);
    let verdict = match answer.alerts_total {
        0 => paint.good(&verdict),
        _ => paint.bad(&verdict),
    };
    text + &verdict + "\n"
}
