//! Sentences about the server's response, shared by all outputs.

use wingbeat_text::plural;

use super::{Answer, RemoteAlert};
use crate::model::{AlertStatus, Direction, Limit, Measure, MeasureKind};

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

pub(crate) fn alert(alert: &RemoteAlert) -> String {
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
