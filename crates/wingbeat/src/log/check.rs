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

/// One line per damaged part.
fn list(damaged: &[Damaged]) -> String {
    let line = |Damaged { report, what }: &Damaged| match report {
        Some(report) => format!("report {report}: {what}\n"),
        None => format!("{what}\n"),
    };
    damaged.iter().map(line).collect()
}

fn summary(check: &Check, path: &str) -> String {
    let Check { reports, whole_reports, metrics, alert_changes, withdrawals, profiles, damaged } =
        check;
    if damaged.is_empty() {
        return format!(
            "{path} is whole: {reports} reports with {metrics} metrics, {alert_changes} changes of alerts, \
             {withdrawals} withdrawals and {profiles} profiles"
        );
    }
    format!(
        "{path} is damaged. {whole_reports} of the {reports} reports that were found are undamaged: \
         `wingbeat export DIR` saves them and names the others. Then move the store away and create a new \
         one with `wingbeat import DIR`; lost reports may be in an earlier export or a backup"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_each() {
        let whole = |what: &str| Damaged { report: None, what: what.to_owned() };
        let of_report = Damaged { report: Some(uuid::Uuid::nil()), ..whole("it differs") };
        assert_eq!(
            list(&[whole("an index is broken"), of_report]),
            "an index is broken\nreport 00000000-0000-0000-0000-000000000000: it differs\n"
        );
    }
}
