//! Results of a kernel: probes, verifier statistics of our programs, and tests.

use std::process::Stdio;

use anyhow::Context as _;
use serde_json::Value;

use super::{console::Console, guest, suites::Suites};
use xtask::command::Rights;

/// A kernel's run, as in docs/kernels.md.
#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    /// Major and minor version, unique per column.
    pub(super) series: String,
    /// Features with the probes' results.
    pub(super) features: Vec<(String, String)>,
    /// Programs with their verified instructions; none if rejected.
    pub(super) verified: Vec<(String, Option<u64>)>,
    /// Test programs with their numbers of passed tests; empty unless all ran.
    pub(super) tests: Vec<(String, String)>,
    /// Differences between probes and the kernel's expected features, one sentence each.
    pub(super) disagreements: Vec<String>,
    /// Features with unknown expectations: the kernel's configuration cannot be read.
    pub(super) unknown: Vec<String>,
}

impl Record {
    /// From the output of a guest or this machine; keeps tests only of a complete run.
    pub(super) fn of(console: &Console, is_whole: bool) -> Self {
        let release = console.release.clone().unwrap_or_default();
        let (mut features, mut disagreements, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(text) = console.files.get(guest::DOCTOR) {
            let found = findings(text);
            if found.is_empty() {
                disagreements.push("`wingbeat doctor --json` lists no feature".to_owned());
            }
            features.push(("release".to_owned(), release.clone()));
            for (name, cell, judged) in found {
                match judged {
                    Judged::Agrees => {}
                    Judged::Differs(sentence) => disagreements.push(sentence),
                    Judged::Unknown => unknown.push(name.clone()),
                }
                features.push((name, cell));
            }
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
            unknown,
        }
    }

    /// The same for the running kernel, without tests: those have a separate command.
    pub(super) fn of_this_machine(suites: &Suites) -> anyhow::Result<Self> {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut console = Console::default();
        console.release = Some(release);
        for (name, words) in guest::records(suites) {
            let (program, arguments) = words.split_first().context("an empty command")?;
            let mut command = Rights::now().command(program.as_ref());
            let output = command.args(arguments).stderr(Stdio::null()).output();
            let output = output.with_context(|| format!("cannot run {program}"))?;
            // `bench` fails if it can measure nothing, but still reports what it loaded.
            console.files.insert(name, String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Ok(Self::of(&console, false))
    }
}

/// `6.12` of `6.12.9+deb12-cloud-amd64`.
fn series(release: &str) -> String {
    let mut parts = release.split(['.', '-', '+']);
    let numbers: Vec<_> = parts.by_ref().take(2).collect();
    numbers.join(".")
}

/// Comparison of a feature's probe with its expectation.
enum Judged {
    Agrees,
    /// A sentence.
    Differs(String),
    Unknown,
}

/// Features that `wingbeat doctor --json` finds and has expectations for: the name, and the table cell.
fn findings(json: &str) -> Vec<(String, String, Judged)> {
    let report: Value = serde_json::from_str(json).unwrap_or_default();
    let rows = report["findings"].as_array().into_iter().flatten();
    let feature = |row: &Value| {
        let [name, status, expected] = ["name", "status", "expected"].map(|key| row[key].as_str());
        let (name, status, expected) = (name?, status?, expected?);
        let is_missing = status == "missing";
        if expected == "unknown" {
            return Some((name.to_owned(), format!("{status}, unknown"), Judged::Unknown));
        }
        if is_missing != (expected == "missing") {
            let differs = format!("the probe says {status}, and this kernel should say {expected}");
            let cell = format!("**{status}**, not expected");
            return Some((name.to_owned(), cell, Judged::Differs(format!("{name}: {differs}"))));
        }
        let cell = if is_missing { "missing, as expected" } else { status };
        Some((name.to_owned(), cell.to_owned(), Judged::Agrees))
    };
    rows.filter_map(feature).collect()
}

/// Programs and their counts in veristat's CSV.
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
pub(super) mod tests {
    use super::*;

    /// A kernel whose verifier accepts these programs after this many instructions.
    pub(in crate::vm) fn record(programs: &[(&str, u64)]) -> Record {
        let programs: Vec<_> =
            programs.iter().map(|(name, count)| format!("x,{name},success,{count}")).collect();
        record_of(&programs, "missing")
    }

    /// A kernel with these program lines, without fentry, and with this expectation.
    pub(in crate::vm) fn record_of(programs: &[String], fentry: &str) -> Record {
        let mut console = Console::default();
        let said = format!(
            r#"@vm boot 6.12.9+deb12-cloud-amd64
@vm file doctor.json
{{"findings":[{{"name":"fentry","status":"missing","expected":"{fentry}"}},
  {{"name":"JIT","status":"works","expected":"works"}},
  {{"name":"open files","status":"works","expected":null}}]}}
@vm eof
@vm file verified/profile
a,prog_name,verdict,total_insns
{}
@vm eof
@vm begin bpf-loader/loader
@vm end 0 bpf-loader/loader"#,
            programs.join("\n")
        );
        said.lines().for_each(|line| drop(console.line(line)));
        Record::of(&console, true)
    }

    #[test]
    fn what_nobody_knows_is_no_disagreement() {
        let check = |fentry, unknown: &[&str], disagreements: usize| {
            let found = record_of(&[], fentry);
            assert_eq!(found.unknown, unknown, "{found:?}");
            assert_eq!(found.disagreements.len(), disagreements, "{found:?}");
        };
        check("missing", &[], 0);
        check("works", &[], 1);
        check("unknown", &["fentry"], 0);
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
