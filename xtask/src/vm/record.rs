//! What docs/kernels.md keeps of each kernel: what its probes say, what the verifier made of our
//! programs, which tests ran. A run is judged by it, and `--update` writes it anew.

use std::{fs, path::PathBuf, process::Stdio};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::{console::Console, guest, suites::Suites, tables::Table};
use crate::{
    command::{Rights, repository},
    marked,
};

/// The tables: the text in their marks, and the heading of their first column.
const FEATURES: (&str, &str) = ("vm features", "feature");
const VERIFIED: (&str, &str) = ("vm verified instructions", "program");
const TESTS: (&str, &str) = ("vm tests", "test program");

/// By how much the verifier may need more instructions than are written down.
const GROWTH_MAX: f64 = 1.10;

/// A kernel's columns.
#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    series: String,
    features: Vec<(String, String)>,
    verified: Vec<(String, u64)>,
    tests: Vec<(String, String)>,
}

impl Record {
    /// What a guest, or this machine, said; tests are kept only of a run of all of them.
    pub(super) fn of(console: &Console, is_whole: bool) -> Self {
        let release = console.release.clone().unwrap_or_default();
        let mut features = vec![("release".to_owned(), release.clone())];
        if let Some(text) = console.files.get(guest::DOCTOR) {
            features.extend(findings(text));
        }
        let verified = console.files.iter().filter_map(|(name, text)| {
            let origin = name.strip_prefix(guest::VERIFIED)?;
            Some(
                verified(text).map(move |(program, count)| (format!("{origin}: {program}"), count)),
            )
        });
        let tests = console.runs.iter().map(|run| {
            let cell = match (run.code, run.failed.len()) {
                (None, _) => "not finished".to_owned(),
                (Some(_), 0) => format!("{} passed", run.passed),
                (Some(_), failed) => format!("{} passed, {failed} failed", run.passed),
            };
            (run.name.clone(), cell)
        });
        Self {
            series: series(&release),
            features,
            verified: verified.flatten().collect(),
            tests: tests.filter(|_| is_whole).collect(),
        }
    }

    /// The same of the kernel that runs this, without tests: those have their own command.
    pub(super) fn of_this_machine(suites: &Suites) -> anyhow::Result<Self> {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut console = Console::default();
        console.release = Some(release);
        for (name, words) in guest::records(suites) {
            let (program, arguments) = words.split_first().context("an empty command")?;
            let mut command = Rights::now().command(program.as_ref());
            let output = command.args(arguments).stderr(Stdio::null()).output();
            let output = output.with_context(|| format!("cannot run {program}"))?;
            console.files.insert(name, String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Ok(Self::of(&console, false))
    }

    /// What differs from the file for the worse, a sentence for each.
    pub(super) fn regressions(&self, text: &str) -> Vec<String> {
        let table = Table::parse(marked::between(text, VERIFIED.0).unwrap_or_default());
        let recorded = |program: &str| {
            table.cell(program, &self.series).and_then(|cell| cell.parse::<u64>().ok())
        };
        let mut sentences = Vec::new();
        for (program, count) in &self.verified {
            if let Some(before) = recorded(program)
                && *count as f64 > before as f64 * GROWTH_MAX
            {
                sentences.push(format!(
                    "{program} takes the verifier {count} instructions, {before} are written down \
                     in docs/kernels.md; if that is meant, run `cargo xtask vm --update`"
                ));
            }
        }
        for program in table.row_names() {
            let is_gone = self.verified.iter().all(|(name, _)| name != program);
            if is_gone && recorded(program).is_some() {
                sentences.push(format!(
                    "{program} was not loaded; if it is gone, run `cargo xtask vm --update`"
                ));
            }
        }
        sentences
    }

    /// The text of the file with this kernel's columns replaced.
    fn put_into(&self, text: &str) -> anyhow::Result<String> {
        let verified: Vec<_> =
            self.verified.iter().map(|(name, count)| (name.clone(), count.to_string())).collect();
        let columns = [(FEATURES, &self.features), (VERIFIED, &verified), (TESTS, &self.tests)];
        let mut text = text.to_owned();
        // What this run did not look at stays as it is.
        for ((name, heading), cells) in columns.into_iter().filter(|(_, cells)| !cells.is_empty()) {
            let Some(old) = marked::between(&text, name) else {
                bail!("docs/kernels.md has no lines {}", marked::marks(name).join(" and "));
            };
            let mut table = Table::parse(old);
            if table == Table::default() {
                table = Table::new(heading);
            }
            table.set_column(&self.series, cells);
            text = marked::replace(&text, name, &table.to_markdown()).unwrap_or(text);
        }
        Ok(text)
    }
}

/// The file with the tables.
fn path() -> PathBuf {
    repository().join("docs/kernels.md")
}

/// The text of the file.
pub(super) fn read() -> anyhow::Result<String> {
    fs::read_to_string(path()).with_context(|| format!("cannot read {}", path().display()))
}

/// Writes the columns of these kernels.
pub(super) fn update(records: &[Record]) -> anyhow::Result<()> {
    let mut text = read()?;
    for record in records {
        text = record.put_into(&text)?;
    }
    fs::write(path(), text).with_context(|| format!("cannot write {}", path().display()))?;
    eprintln!("wrote       {}", path().display());
    Ok(())
}

/// `6.12` of `6.12.9+deb12-cloud-amd64`.
fn series(release: &str) -> String {
    let mut parts = release.split(['.', '-', '+']);
    let numbers: Vec<_> = parts.by_ref().take(2).collect();
    numbers.join(".")
}

/// Findings of `wingbeat doctor --json` that are about the kernel: name and status.
fn findings(json: &str) -> Vec<(String, String)> {
    let report: Value = serde_json::from_str(json).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = report["findings"].as_array().into_iter().flatten();
    rows.filter(|row| row["expected"].is_string())
        .map(|row| {
            let status = text(&row["status"]);
            let cell = match (status.as_str(), row["expected"].as_str()) {
                ("missing", Some("missing")) => "missing, as expected".to_owned(),
                ("missing", _) => "**missing**".to_owned(),
                (_, Some("missing")) => format!("**{status}**, not expected"),
                _ => status,
            };
            (text(&row["name"]), cell)
        })
        .collect()
}

/// Programs and their counts in CSV with the columns of veristat.
fn verified(csv: &str) -> impl Iterator<Item = (String, u64)> {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap_or_default();
    let at = |name: &str| head.iter().position(|column| *column == name);
    let columns = at("prog_name").zip(at("total_insns"));
    lines.filter_map(move |cells| {
        let (name, count) = columns?;
        Some(((*cells.get(name)?).to_owned(), cells.get(count)?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "# K\n<!-- vm features: begin -->\n<!-- vm features: end -->\n\
        <!-- vm verified instructions: begin -->\n<!-- vm verified instructions: end -->\n\
        <!-- vm tests: begin -->\n<!-- vm tests: end -->\nrest\n";

    fn record(programs: &[(&str, u64)]) -> Record {
        let mut console = Console::default();
        let lines = ["@vm boot 6.12.9+deb12-cloud-amd64", "@vm file doctor.json"];
        lines.iter().for_each(|line| drop(console.line(line)));
        console.line(
            r#"{"findings":[{"name":"fentry","status":"missing","expected":"missing"},
               {"name":"JIT","status":"works","expected":"works"},
               {"name":"open files","status":"works","expected":null}]}"#,
        );
        let lines = ["@vm eof", "@vm file verified/profile", "a,prog_name,total_insns"];
        lines.iter().for_each(|line| drop(console.line(line)));
        for (name, count) in programs {
            console.line(&format!("x,{name},{count}"));
        }
        let lines = ["x,unverified,", "@vm eof", "@vm begin bpf/live", "@vm end 0 bpf/live"];
        lines.iter().for_each(|line| drop(console.line(line)));
        Record::of(&console, true)
    }

    #[test]
    fn a_kernel_becomes_columns() {
        let text = record(&[("sample", 100)]).put_into(EMPTY).expect("all marks are there");
        for line in [
            "| feature | 6.12                     |",
            "| release | 6.12.9+deb12-cloud-amd64 |",
            "| fentry  | missing, as expected     |",
            "| profile: sample | 100  |",
            "| bpf/live     | 0 passed |",
            "rest",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(!text.contains("open files"), "{text}");
        let again = record(&[("sample", 100)]).put_into(&text).expect("all marks are there");
        assert_eq!(again, text);
        assert!(record(&[]).put_into("no marks").is_err());
    }

    #[test]
    fn growth_beyond_a_tenth_is_told() {
        let text = record(&[("sample", 100), ("gone", 5)]).put_into(EMPTY).expect("marks");
        let check = |programs: &[(&str, u64)], expected: &[&str]| {
            let found = record(programs).regressions(&text);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(found.iter().zip(expected).all(|(a, b)| a.starts_with(b)), "{found:?}");
        };
        check(&[("sample", 110), ("gone", 1)], &[]);
        check(&[("sample", 111), ("gone", 5)], &["profile: sample takes the verifier 111"]);
        check(&[("sample", 90), ("new", 900)], &["profile: gone was not loaded"]);
        assert_eq!(record(&[("sample", 900)]).regressions(EMPTY), [""; 0]);
    }

    #[test]
    fn series_of_releases() {
        let check = |release, expected| assert_eq!(series(release), expected);
        check("6.1.0-56-cloud-amd64", "6.1");
        check("6.12.117+deb12-cloud-amd64", "6.12");
        check("7.0-rc1", "7.0");
        check("", "");
    }
}
