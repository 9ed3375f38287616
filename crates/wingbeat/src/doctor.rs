//! `wingbeat doctor`: what this kernel, these privileges and this hardware support, and how to enable the rest.
//!
//! `wingbeat_bpf_loader::probe` detects it; here the findings become text or JSON. docs/doctor.md documents both, and the exit
//! code: 0 if `wingbeat profile` can run, 1 if it cannot.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use owo_colors::{OwoColorize as _, Style};
use serde::Serialize;
use serde_json::json;
use wingbeat_bpf_loader::{
    Finding, FindingStatus, Verb,
    probe::{Expected, Kernel, NextStep, can, findings},
};
use wingbeat_text::paragraph;

use crate::{
    shell::{print_by, print_json},
    values::{Format, FormatArgs},
};

/// Flags of `wingbeat doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    format: FormatArgs<Format>,
}

/// Probes and prints to stdout; the exit code says whether `wingbeat profile` can run here.
pub(crate) fn run(args: &DoctorArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    let findings = findings();
    if args.format.get() == Format::Json {
        print_json(SCHEMA_VERSION, &Report::of(&findings, &Kernel::running()))?;
    } else if !quiet {
        print_by(|out| write_table(&findings, out))?;
    }
    Ok(if can(Verb::Profile, &findings) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// 2: `mend` became `next_step`.
const SCHEMA_VERSION: u32 = 2;

/// A finding, and the kernel's expected answer.
#[derive(Debug, Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    expected: Option<Expected>,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    wingbeat: &'static str,
    can: serde_json::Value,
    findings: Vec<Row<'a>>,
}

impl<'a> Report<'a> {
    fn of(findings: &'a [Finding], kernel: &Kernel) -> Self {
        let row = |finding: &'a Finding| Row { finding, expected: kernel.expects(finding.id) };
        Self {
            wingbeat: env!("CARGO_PKG_VERSION"),
            can: json!({
                "profile": can(Verb::Profile, findings),
                "heap": can(Verb::Heap, findings),
            }),
            findings: findings.iter().map(row).collect(),
        }
    }
}

/// Widths of the first two columns: `limited`, `kernel types (BTF)`.
const STATUS_WIDTH: usize = 7;
const NAME_WIDTH: usize = 19;

/// Wide enough for most texts, and fits most terminals.
const LINE_WIDTH: usize = 100;

/// Writes a heading, the table, a legend of its brackets, and a summary sentence.
fn write_table(findings: &[Finding], mut out: impl Write) -> io::Result<()> {
    let concerns: Vec<_> = findings.iter().map(concerns).collect();
    let concerns_width = concerns.iter().map(String::len).max().unwrap_or(0);
    let indent = STATUS_WIDTH + NAME_WIDTH + concerns_width + 6;
    let heading = format!(
        "{:STATUS_WIDTH$}  {:NAME_WIDTH$}  {:concerns_width$}  {}",
        "status", "what", "concerns", "found"
    );
    writeln!(out, "{}", heading.bold())?;
    for (index, (finding, concerns)) in findings.iter().zip(&concerns).enumerate() {
        let (status, style) = status(finding.status);
        write!(out, "{:STATUS_WIDTH$}  {:NAME_WIDTH$}  ", status.style(style), finding.name)?;
        writeln!(
            out,
            "{concerns:concerns_width$}  {}",
            paragraph(&finding.detail, indent, LINE_WIDTH)
        )?;
        let earlier =
            findings.iter().take(index).find(|earlier| earlier.next_step == finding.next_step);
        write_next_step(finding, earlier, indent, &mut out)?;
    }
    writeln!(out, "\nIn brackets: optional.")?;
    writeln!(out, "{}", verdict(findings))
}

/// The next step, or a reference to an `earlier` finding with the same one.
fn write_next_step(
    finding: &Finding,
    earlier: Option<&Finding>,
    indent: usize,
    mut out: impl Write,
) -> io::Result<()> {
    // Commands are indented less, to have room.
    let start = STATUS_WIDTH + 2;
    match (&finding.next_step, earlier) {
        (None, _) => Ok(()),
        (Some(_), Some(earlier)) => {
            writeln!(out, "{:indent$}→ as for {}", "", earlier.name)
        }
        (Some(NextStep::Command(command)), None) => {
            writeln!(out, "{:start$}$ {}", "", command.bold())
        }
        (Some(NextStep::Advice(advice)), None) => {
            writeln!(out, "{:indent$}→ {}", "", paragraph(advice, indent + 2, LINE_WIDTH))
        }
    }
}

/// Whether profiling is possible, or what prevents it.
fn verdict(findings: &[Finding]) -> String {
    if can(Verb::Profile, findings) {
        return "`wingbeat profile` can run here.".to_owned();
    }
    let blocking = findings.iter().filter(|finding| finding.blocks(Verb::Profile));
    let names: Vec<_> = blocking.map(|finding| finding.name).collect();
    format!("`wingbeat profile` cannot run here: see {}.", names.join(", "))
}

/// The verbs affected by a finding; those that work without it in brackets.
fn concerns(finding: &Finding) -> String {
    let all = [Verb::Profile, Verb::Heap, Verb::Bench, Verb::Annotate, Verb::Live, Verb::Top];
    if finding.needed_by == all {
        return "all verbs".to_owned();
    }
    let needed = finding.needed_by.iter().map(|&verb| name(verb).to_owned());
    let helped = finding.helps.iter().map(|&verb| format!("({})", name(verb)));
    needed.chain(helped).collect::<Vec<_>>().join(" ")
}

fn name(verb: Verb) -> &'static str {
    match verb {
        Verb::Profile => "profile",
        Verb::Heap => "heap",
        Verb::Bench => "bench",
        Verb::Annotate => "annotate",
        Verb::Live => "live",
        Verb::Top => "top",
        Verb::Build => "build",
    }
}

fn status(status: FindingStatus) -> (&'static str, Style) {
    match status {
        FindingStatus::Works => ("works", Style::new().green()),
        FindingStatus::Limited => ("limited", Style::new().yellow()),
        FindingStatus::Missing => ("missing", Style::new().red()),
    }
}

#[cfg(test)]
mod tests {

    use serde_json::Value;
    use wingbeat_bpf_loader::{FindingStatus, probe::NextStep};

    use super::*;

    #[test]
    fn has_the_documented_form() {
        let finding = Finding {
            id: "open_files",
            name: "open files",
            status: FindingStatus::Limited,
            detail: "off".to_owned(),
            needed_by: &[],
            helps: &[Verb::Profile],
            next_step: Some(NextStep::Command("sudo sysctl x=1".to_owned())),
        };
        let findings = [finding];
        let report = Report::of(&findings, &Kernel::running());
        let text = crate::shell::json_text(SCHEMA_VERSION, &report).unwrap();
        let found: Value = serde_json::from_str(&text).unwrap();
        let expected = json!({
            "schema_version": 2,
            "wingbeat": env!("CARGO_PKG_VERSION"),
            "can": { "profile": true, "heap": true },
            "findings": [{
                "id": "open_files",
                "name": "open files",
                "status": "limited",
                "detail": "off",
                "needed_by": [],
                "helps": ["profile"],
                "next_step": { "command": "sudo sysctl x=1" },
                "expected": null,
            }],
        });
        assert_eq!(found, expected);
    }

    fn finding(name: &'static str, status: FindingStatus, next_step: Option<NextStep>) -> Finding {
        Finding {
            id: name,
            name,
            status,
            detail: "found this".to_owned(),
            needed_by: &[Verb::Profile],
            helps: &[Verb::Bench],
            next_step,
        }
    }

    fn check(findings: &[Finding], expected: &str) {
        let mut bytes = Vec::new();
        write_table(findings, anstream::StripStream::new(&mut bytes)).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text, expected.trim_start_matches('\n'));
    }

    #[test]
    fn a_command_is_given_once() {
        let next_step = || Some(NextStep::Command("sudo fix".to_owned()));
        check(
            &[
                finding("one", FindingStatus::Works, None),
                finding("two", FindingStatus::Missing, next_step()),
                finding("three", FindingStatus::Limited, next_step()),
                finding("four", FindingStatus::Missing, Some(NextStep::Advice("wait".to_owned()))),
            ],
            "
status   what                 concerns         found
works    one                  profile (bench)  found this
missing  two                  profile (bench)  found this
         $ sudo fix
limited  three                profile (bench)  found this
                                               → as for two
missing  four                 profile (bench)  found this
                                               → wait

In brackets: optional.
`wingbeat profile` cannot run here: see two, four.
",
        );
    }
}
