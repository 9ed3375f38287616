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
    /// Programs with what the verifier processed; none if it rejects them.
    verified: Vec<(String, Option<u64>)>,
    tests: Vec<(String, String)>,
    /// Where probes and what the kernel should have differ, a sentence for each.
    disagreements: Vec<String>,
}

impl Record {
    /// What a guest, or this machine, said; tests are kept only of a run of all of them.
    pub(super) fn of(console: &Console, is_whole: bool) -> Self {
        let release = console.release.clone().unwrap_or_default();
        let (mut features, mut disagreements) = (Vec::new(), Vec::new());
        if let Some(text) = console.files.get(guest::DOCTOR) {
            let found = findings(text);
            disagreements.extend(found.iter().filter_map(Feature::disagreement));
            if found.is_empty() {
                disagreements.push(
                    "`wingbeat doctor --json` tells of no feature whether this kernel should have \
                     it: is the kernel's configuration beside its image?"
                        .to_owned(),
                );
            }
            features.push(("release".to_owned(), release.clone()));
            features.extend(found.into_iter().map(|it| (it.name.clone(), it.cell())));
        }
        let verified = console.files.iter().filter_map(|(name, text)| {
            let origin = name.strip_prefix(guest::VERIFIED)?;
            Some(
                verified(text).map(move |(program, count)| (format!("{origin}: {program}"), count)),
            )
        });
        let tests = console.runs.iter().map(|run| {
            let cell = match (run.code, run.skipped.len()) {
                (None, _) => "not finished".to_owned(),
                (Some(0), 0) => format!("{} passed", run.passed),
                (Some(0), skipped) => {
                    let ran = run.passed.saturating_sub(skipped as u64);
                    format!("{ran} passed, {skipped} not for this kernel")
                }
                (Some(_), _) => {
                    format!("{} passed, {} failed", run.passed, run.failed.len().max(1))
                }
            };
            (run.name.clone(), cell)
        });
        Self {
            series: series(&release),
            features,
            verified: verified.flatten().collect(),
            tests: tests.filter(|_| is_whole).collect(),
            disagreements,
        }
    }

    /// The same of the kernel that runs this, without tests: those have their own command.
    fn of_this_machine(suites: &Suites) -> anyhow::Result<Self> {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut console = Console::default();
        console.release = Some(release);
        for (name, words) in guest::records(suites) {
            let (program, arguments) = words.split_first().context("an empty command")?;
            let mut command = Rights::now().command(program.as_ref());
            let output = command.args(arguments).stderr(Stdio::null()).output();
            let output = output.with_context(|| format!("cannot run {program}"))?;
            // `bench` fails where it can measure nothing; what it loaded it tells all the same.
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
        let mut sentences = self.disagreements.clone();
        for (program, count) in &self.verified {
            let Some(count) = count else {
                sentences.push(format!("the verifier of this kernel rejects {program}"));
                continue;
            };
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
                    "{program} was not loaded; the output tells why; if it is gone, run `cargo \
                     xtask vm --update`"
                ));
            }
        }
        sentences
    }

    /// The text of the file with this kernel's columns replaced.
    fn put_into(&self, text: &str) -> anyhow::Result<String> {
        let cell = |count: &Option<u64>| count.map_or("rejected".to_owned(), |it| it.to_string());
        let verified: Vec<_> =
            self.verified.iter().map(|(name, count)| (name.clone(), cell(count))).collect();
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

/// Writes the columns of these kernels, and that of this machine unless a guest has the same series.
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

/// A finding of `wingbeat doctor --json` about which it also tells what the kernel should have.
#[derive(Debug)]
struct Feature {
    name: String,
    status: String,
    expected: String,
}

impl Feature {
    fn is_missing(&self) -> bool {
        self.status == "missing"
    }

    fn is_expected(&self) -> bool {
        self.is_missing() == (self.expected == "missing")
    }

    /// For the table.
    fn cell(&self) -> String {
        match (self.is_expected(), self.is_missing()) {
            (true, true) => "missing, as expected".to_owned(),
            (true, false) => self.status.clone(),
            (false, _) => format!("**{}**, not expected", self.status),
        }
    }

    /// The sentence, if probe and kernel differ.
    fn disagreement(&self) -> Option<String> {
        let Self { name, status, expected } = self;
        (!self.is_expected()).then(|| {
            format!("{name}: the probe says {status}, and this kernel should say {expected}")
        })
    }
}

fn findings(json: &str) -> Vec<Feature> {
    let report: Value = serde_json::from_str(json).unwrap_or_default();
    let rows = report["findings"].as_array().into_iter().flatten();
    let feature = |row: &Value| {
        let text = |key: &str| row[key].as_str().map(str::to_owned);
        Some(Feature { name: text("name")?, status: text("status")?, expected: text("expected")? })
    };
    rows.filter_map(feature).collect()
}

/// Programs and their counts in CSV with the columns of veristat.
fn verified(csv: &str) -> impl Iterator<Item = (String, Option<u64>)> {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap_or_default();
    let columns = ["prog_name", "verdict", "total_insns"]
        .map(|name| head.iter().position(|column| *column == name));
    lines.filter_map(move |cells| {
        let of = |column: usize| cells.get(columns[column]?).copied();
        let count = match of(1)? {
            "success" => Some(of(2)?.parse().ok()?),
            _ => None,
        };
        Some((of(0)?.to_owned(), count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "# K\n<!-- vm features: begin -->\n<!-- vm features: end -->\n\
        <!-- vm verified instructions: begin -->\n<!-- vm verified instructions: end -->\n\
        <!-- vm tests: begin -->\n<!-- vm tests: end -->\nrest\n";

    fn record(programs: &[(&str, u64)]) -> Record {
        let programs: Vec<_> =
            programs.iter().map(|(name, count)| format!("x,{name},success,{count}")).collect();
        record_of(&programs, "missing")
    }

    fn record_of(programs: &[String], fentry: &str) -> Record {
        let mut console = Console::default();
        let lines = ["@vm boot 6.12.9+deb12-cloud-amd64", "@vm file doctor.json"];
        lines.iter().for_each(|line| drop(console.line(line)));
        console.line(&format!(
            r#"{{"findings":[{{"name":"fentry","status":"missing","expected":"{fentry}"}},
               {{"name":"JIT","status":"works","expected":"works"}},
               {{"name":"open files","status":"works","expected":null}}]}}"#
        ));
        let lines = ["@vm eof", "@vm file verified/profile", "a,prog_name,verdict,total_insns"];
        lines.iter().for_each(|line| drop(console.line(line)));
        programs.iter().for_each(|line| drop(console.line(line)));
        let lines = ["@vm eof", "@vm begin bpf/live", "@vm end 0 bpf/live"];
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
    fn rejected_programs_and_wrong_probes_are_told() {
        let rejected = record_of(&["x,sample,failure,12".to_owned()], "missing");
        assert_eq!(
            rejected.regressions(EMPTY),
            ["the verifier of this kernel rejects profile: sample"]
        );
        let text = rejected.put_into(EMPTY).expect("all marks are there");
        assert!(text.contains("| profile: sample | rejected |"), "{text}");
        let denied = record_of(&[], "works");
        let expected = ["fentry: the probe says missing, and this kernel should say works"];
        assert_eq!(denied.regressions(EMPTY), expected);
        let text = denied.put_into(EMPTY).expect("all marks are there");
        assert!(text.contains("**missing**, not expected"), "{text}");
    }

    #[test]
    fn a_guest_that_said_nothing_has_no_column() {
        let nothing = Record::of(&Console::default(), true);
        assert_eq!(nothing.put_into(EMPTY).expect("all marks are there"), EMPTY);
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
