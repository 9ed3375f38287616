//! docs/kernels.md: tables written by runs, one column per kernel.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, bail};

use super::{record::Record, sources, suites::Suites, tables::Table};
use xtask::{
    command::{Rights, repository},
    marked,
};

/// The tables: the name of their marks, and the heading of their first column.
const FEATURES: (&str, &str) = ("vm features", "feature");
const VERIFIED: (&str, &str) = ("vm verified instructions", "program");
const TESTS: (&str, &str) = ("vm tests", "test program");

/// Path of the file.
fn path() -> PathBuf {
    repository().join("docs/kernels.md")
}

/// Contents of the file.
pub(super) fn read() -> anyhow::Result<String> {
    fs::read_to_string(path()).with_context(|| format!("cannot read {}", path().display()))
}

/// Writes the columns of these kernels, and this machine's unless a guest has the same series.
pub(super) fn update(mut records: Vec<Record>, suites: &Suites) -> anyhow::Result<()> {
    match Rights::now() {
        Rights::None => {
            eprintln!("note        the column of this machine stays as it is: it takes root");
        }
        Rights::Root | Rights::Sudo => {
            let here = Record::of_this_machine(suites)?;
            if records.iter().all(|guest| guest.series != here.series) {
                records.push(here);
            }
        }
    }
    let mut text = read()?;
    for record in &records {
        text = put(record, &text)?;
    }
    if records.iter().any(|record| !record.tests.is_empty()) {
        text = marked::replace(&text, sources::MARKS, &sources::sentence()?).unwrap_or(text);
    }
    fs::write(path(), text).with_context(|| format!("cannot write {}", path().display()))?;
    eprintln!("wrote       {}", path().display());
    Ok(())
}

/// The table of verified instructions.
pub(super) fn verified(text: &str) -> Table {
    Table::parse(marked::between(text, VERIFIED.0).unwrap_or_default())
}

/// The text of the file with this kernel's columns replaced.
fn put(record: &Record, text: &str) -> anyhow::Result<String> {
    let cell = |count: &Option<u64>| count.map_or("rejected".to_owned(), |it| it.to_string());
    let verified: Vec<_> =
        record.verified.iter().map(|(name, count)| (name.clone(), cell(count))).collect();
    let columns = [(FEATURES, &record.features), (VERIFIED, &verified), (TESTS, &record.tests)];
    let mut text = text.to_owned();
    // Data missing in this run stays unchanged.
    for ((name, heading), cells) in columns.into_iter().filter(|(_, cells)| !cells.is_empty()) {
        let Some(old) = marked::between(&text, name) else {
            bail!("docs/kernels.md has no lines {}", marked::marks(name).join(" and "));
        };
        let mut table = Table::parse(old);
        if table == Table::default() {
            table = Table::new(heading);
        }
        table.set_column(&record.series, cells);
        text = marked::replace(&text, name, &table.to_markdown()).unwrap_or(text);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::{
        console::Console,
        record::tests::{record, record_of},
    };

    const EMPTY: &str = "# K\n<!-- vm features: begin -->\n<!-- vm features: end -->\n\
        <!-- vm verified instructions: begin -->\n<!-- vm verified instructions: end -->\n\
        <!-- vm tests: begin -->\n<!-- vm tests: end -->\nrest\n";

    #[test]
    fn a_kernel_becomes_columns() {
        let text = put(&record(&[("sample", 100)]), EMPTY).expect("all marks are there");
        for line in [
            "| feature | 6.12                     |",
            "| release | 6.12.9+deb12-cloud-amd64 |",
            "| fentry  | missing, as expected     |",
            "| profile: sample | 100  |",
            "| bpf-loader/loader | 0 passed |",
            "rest",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(!text.contains("open files"), "{text}");
        let again = put(&record(&[("sample", 100)]), &text).expect("all marks are there");
        assert_eq!(again, text);
        assert!(put(&record(&[]), "no marks").is_err());
    }

    #[test]
    fn what_should_not_be_is_marked() {
        let check = |programs: &[String], fentry, expected| {
            let text = put(&record_of(programs, fentry), EMPTY).expect("all marks are there");
            assert!(text.contains(expected), "{text}");
        };
        let rejected = ["x,sample,failure,12".to_owned()];
        check(&rejected, "missing", "| profile: sample | rejected |");
        check(&[], "works", "**missing**, not expected");
    }

    #[test]
    fn a_guest_that_said_nothing_has_no_column() {
        let nothing = Record::of(&Console::default(), true);
        assert_eq!(put(&nothing, EMPTY).expect("all marks are there"), EMPTY);
    }
}
