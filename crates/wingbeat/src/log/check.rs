//! `wingbeat log --check`: finds damage in a store, and what can be recovered.

use std::process::ExitCode;

use wingbeat_track::store::{Check, Damaged, Store};

use super::json::SCHEMA_VERSION;
use crate::{
    shell::{message, print, print_json},
    values::Format,
};

/// Verifies a store. The exit code is 1 if something is damaged.
pub(super) fn run(store: &Store, format: Format, quiet: bool) -> anyhow::Result<ExitCode> {
    let check = store.check()?;
    let is_whole = check.damaged.is_empty();
    match format {
        Format::Json => print_json(SCHEMA_VERSION, &check)?,
        Format::Human => print(&list(&check.damaged))?,
    }
    if !quiet || !is_whole {
        message!("{}", summary(&check, &store.path().display().to_string()));
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One line per damaged entry.
fn list(damaged: &[Damaged]) -> String {
    let mut text = String::new();
    for Damaged { report, benchmark, measure, what } in damaged {
        let parts = [
            report.map(|report| format!("report {report}")),
            benchmark.as_ref().map(|benchmark| format!("benchmark {benchmark}")),
            measure.as_ref().map(|measure| format!("measure {measure}")),
        ];
        let place: Vec<_> = parts.into_iter().flatten().collect();
        match place.is_empty() {
            true => text += &format!("{what}\n"),
            false => text += &format!("{}: {what}\n", place.join(", ")),
        }
    }
    text
}

fn summary(check: &Check, path: &str) -> String {
    let Check { reports, whole_reports, metrics, alert_changes, withdrawals, profiles, damaged } =
        check;
    if damaged.is_empty() {
        return format!(
            "{path} is whole: {reports} reports with {metrics} metrics, {alert_changes} changes of alerts, \
             {withdrawals} withdrawals and {profiles} profiles match their checksums"
        );
    }
    format!(
        "{path} is damaged. {whole_reports} of the {reports} reports that were found are whole: \
         `wingbeat export DIR` saves them and names the others. Then move the store away and make a new \
         one with `wingbeat import DIR`; what is lost may be in an earlier export or a saved copy"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let damaged = [
            Damaged { what: "2 reports are missing".to_owned(), ..Damaged::default() },
            Damaged {
                report: Some(uuid::Uuid::nil()),
                benchmark: Some("parse".to_owned()),
                measure: Some("latency".to_owned()),
                what: "it differs from what was written".to_owned(),
            },
        ];
        assert_eq!(
            list(&damaged),
            "2 reports are missing\n\
             report 00000000-0000-0000-0000-000000000000, benchmark parse, measure latency: it differs \
             from what was written\n"
        );
    }
}
