//! The report: all tables with where they come from, and their places in files that have more.

use std::{fs, io::ErrorKind, path::Path};

use anyhow::{Context as _, bail};

use super::{goals, record::Record, stats::Figures, tables, tools::WINGBEAT, workload};
use wingbeat_steps::marked::{marks, replace};

/// The marks around all tables.
const FULL: &str = "peers profile";

/// The marks around the summary.
const SUMMARY: &str = "peers summary";

/// The workload that the summary shows.
const SUMMARY_WORKLOAD: &str = "deep";

/// Greater gaps between wingbeat's own account of its CPU time and the kernel's are told.
const TOLD_GAP_MAX: f64 = 0.1;

/// Everything.
pub(super) fn full(record: &Record) -> String {
    let mut parts = vec![origin(record), tables::tools(record).to_markdown()];
    parts.extend(notes(record));
    parts.push("### Goals\n".to_owned());
    parts.push(tables::goals(record).to_markdown());
    let growth = tables::growth(record).to_markdown();
    if let Some((low, high)) = goals::growth_pair(record).filter(|_| !growth.is_empty()) {
        parts.push(format!("### Own CPU time, from {low} and {high} Hz\n"));
        parts.push(growth);
    }
    for name in goals::workloads(record) {
        parts.push(format!("### {name}: {}\n", workload::about(name)));
        parts.push(tables::figures(record, name).to_markdown());
        parts.push(tables::ratios(record, name).to_markdown());
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// One table, for the README.
fn summary(record: &Record) -> String {
    let mut parts = vec![origin(record)];
    if let Some((low, high)) = goals::growth_pair(record) {
        parts.push(format!(
            "On {}; samples at {low} Hz, own CPU time from {low} and {high} Hz, the rest at {high} \
             Hz:\n",
            workload::about(SUMMARY_WORKLOAD)
        ));
        parts.push(tables::summary(record, SUMMARY_WORKLOAD).to_markdown());
    }
    parts.join("\n")
}

fn origin(record: &Record) -> String {
    let rounds = match record.rounds {
        1 => "one round".to_owned(),
        rounds => format!("{rounds} rounds, median (least to greatest)"),
    };
    format!(
        "Measured on {} with `{}`: {}; {rounds}.\n",
        record.date, record.command, record.machine
    )
}

fn notes(record: &Record) -> Option<String> {
    let mut notes = record.notes.clone();
    let gap = Figures::new(record).told_gap(WINGBEAT).filter(|gap| *gap > TOLD_GAP_MAX);
    notes.extend(gap.map(|gap| {
        format!(
            "wingbeat's own account of its CPU time and the kernel's differ by up to {:.0} %.",
            gap * 100.0
        )
    }));
    notes.extend(record.failures.iter().map(|failure| format!("Failed: {failure}")));
    let lines: Vec<String> = notes.iter().map(|note| format!("- {}\n", note.trim_end())).collect();
    (!lines.is_empty()).then(|| lines.concat())
}

/// Writes the tables between the marks of a file, or as a new file.
pub(super) fn write(file: &Path, record: &Record) -> anyhow::Result<()> {
    let [full_marks, summary_marks] = [FULL, SUMMARY].map(|name| marks(name).join("\n"));
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => format!("{full_marks}\n"),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", file.display()));
        }
    };
    let with_tables = replace(&text, FULL, &full(record));
    let with_summary = replace(with_tables.as_deref().unwrap_or(&text), SUMMARY, &summary(record));
    let Some(text) = with_summary.or(with_tables) else {
        bail!(
            "{} has no place for the tables: add the lines\n{full_marks}\nor the lines\n{summary_marks}",
            file.display()
        );
    };
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_marks_is_left_alone() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (marked, plain) = (dir.path().join("new.md"), dir.path().join("plain.md"));
        write(&marked, &Record::default()).expect("a new file");
        assert!(fs::read_to_string(&marked).expect("text").contains("### Goals"));
        fs::write(&plain, "text\n").expect("a file");
        assert!(write(&plain, &Record::default()).is_err());
        assert_eq!(fs::read_to_string(&plain).expect("text"), "text\n");
    }
}
