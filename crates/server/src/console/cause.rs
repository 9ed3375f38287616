//! Why there is an alert: what the profiles before and after say, on the page of the alert.

use maud::{Markup, html};
use uuid::Uuid;
use wingbeat_text::grouped;
use wingbeat_track::{
    explain::{self, NoSources, Pair, Unexplained, written},
    model::{Measure, ProfileInfo, ProfileKind, short_id},
};

use super::{parts::name, visit::Visit};
use crate::ApiError;

/// Functions of the table.
const FUNCTIONS_MAX: usize = 25;

/// Of the metric: what changed less is not in the table.
const SHARE_MIN: f64 = 0.001;

/// The pair of profiles that belongs to an alert, or why there is none.
pub(super) async fn find(
    visit: &Visit,
    report: Uuid,
    alert: Uuid,
) -> Result<Option<Result<Pair, String>>, ApiError> {
    let read = visit.read(move |databases, _| {
        let results = &databases.results;
        let report = results.report(report)?;
        let found = report.as_ref().and_then(|report| {
            let alert = report.alerts.iter().find(|it| it.uuid == alert)?;
            Some(explain::of_alert(results, report, alert, &NoSources))
        });
        match found {
            None | Some(Err(Unexplained::NoProfile | Unexplained::Measure)) => Ok(None),
            Some(Err(Unexplained::Store(error))) => Err(error.into()),
            Some(Err(reason)) => Ok(Some(Err(reason.to_string()))),
            Some(Ok(pair)) => Ok(Some(Ok(pair))),
        }
    });
    read.await
}

pub(super) fn section(visit: &Visit, alert: Uuid, found: &Result<Pair, String>) -> Markup {
    html! {
        h2 id="cause" { "Cause" }
        @match found {
            Err(reason) => p class="quiet" { "Not known: " (reason) "." },
            Ok(pair) => {
                ul class="causes" { @for sentence in pair.sentences() { li { bdi { (sentence) } } } }
                details {
                    summary { "Functions by change" }
                    (functions(pair))
                    p class="quiet" {
                        "Each of your functions with what it calls of others: the differences add up to the change. \
                         ± is twice the standard deviation. The profile of this report has " (samples(&pair.after)) ", the one before it (report "
                        a href={ (visit.at("reports/")) (pair.before.report) } { (short_id(pair.before.report)) }
                        ") has " (samples(&pair.before)) "."
                    }
                    p class="quiet" { "As a picture, on your machine:" }
                    pre { "wingbeat import --host " (visit.app.settings.public_url) " --project " (visit.project.slug) "\n"
                        "wingbeat diff --alert " (alert) " -o cause.svg" }
                }
            }
        }
    }
}

fn samples(profile: &ProfileInfo) -> String {
    match profile.kind {
        ProfileKind::Instructions => "exact counts of instructions".to_owned(),
        kind => format!("{} {kind} samples", grouped(profile.samples)),
    }
}

fn functions(pair: &Pair) -> Markup {
    let Pair { measure, explanation, .. } = pair;
    let least = SHARE_MIN * explanation.metric.after.abs().max(explanation.metric.before.abs());
    let changed = explanation.blame.iter().filter(|(_, change)| change.difference().abs() >= least);
    html! {
        table {
            thead { tr { th { "Function" } th class="number" { "Before" } th class="number" { "After" }
                th class="number" { "Difference" } } }
            tbody { @for (function, change) in changed.take(FUNCTIONS_MAX) {
                tr {
                    td { (name(&wingbeat_text::shortened(function, 80))) }
                    td class="number" { (written(measure, change.before)) }
                    td class="number" { (written(measure, change.after)) }
                    td class="number" { (difference(measure, change.difference(), change.sd)) }
                }
            } }
        }
    }
}

fn difference(measure: &Measure, difference: f64, sd: f64) -> String {
    let sign = if difference < 0.0 { "−" } else { "+" };
    let value = written(measure, difference.abs());
    match sd > 0.0 {
        true => format!("{sign}{value} ± {}", written(measure, 2.0 * sd)),
        false => format!("{sign}{value}"),
    }
}
