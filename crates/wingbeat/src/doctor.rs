//! `wingbeat doctor`: what this kernel, these privileges and this hardware support, and how to enable the rest.
//!
//! `wingbeat_bpf_loader::probe` detects it; here the findings become text or JSON. docs/doctor.md documents both, and the exit
//! code: 0 if `wingbeat profile` can run, 1 if it cannot.

use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;
use wingbeat_bpf_loader::{
    Finding, FindingStatus, Verb,
    probe::{Expected, Kernel, NextStep, can, findings},
};
use wingbeat_text::{Block, Line, Look, Side, Span, Style, human, list, row};

use crate::{
    shell::{print, print_json},
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
        print(&table(&findings, true))?;
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

/// Wide enough for most texts, and fits most terminals.
const LINE_WIDTH: usize = 100;

const COLUMNS: [(&str, Side); 4] =
    [("status", Side::Left), ("what", Side::Left), ("concerns", Side::Left), ("found", Side::Left)];

/// Writes a table, a legend of its brackets, and a summary sentence.
fn table(findings: &[Finding], has_colours: bool) -> String {
    let mut rows = Vec::new();
    for (index, finding) in findings.iter().enumerate() {
        let (name, concerns) = (finding.name.to_owned(), concerns(finding));
        let mut cells = vec![vec![status(finding.status)]];
        cells.extend(row([name, concerns, finding.detail.clone()]));
        rows.push(cells);
        let earlier =
            findings.iter().take(index).find(|earlier| earlier.next_step == finding.next_step);
        rows.extend(next_step(finding, earlier));
    }
    let blocks =
        [Block::Rows(COLUMNS.to_vec(), rows), list(["In brackets: optional.", &verdict(findings)])];
    human(&blocks, Style { has_colours, width: LINE_WIDTH, is_verbose: false })
}

/// The next step, or a reference to an `earlier` finding with the same one.
fn next_step(finding: &Finding, earlier: Option<&Finding>) -> Option<Vec<Line>> {
    let advice = |text: &str| row(["", "", "", &format!("→ {text}")]);
    Some(match (finding.next_step.as_ref()?, earlier) {
        (_, Some(earlier)) => advice(&format!("as for {}", earlier.name)),
        (NextStep::Advice(text), None) => advice(text),
        // A line of its own has room.
        (NextStep::Command(command), None) => {
            vec![vec![Span::text("         $ "), Span::strong(command)]]
        }
    })
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

fn status(status: FindingStatus) -> Span {
    match status {
        FindingStatus::Works => Span::new(Look::Good, "works"),
        FindingStatus::Limited => Span::new(Look::Warning, "limited"),
        FindingStatus::Missing => Span::new(Look::Bad, "missing"),
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
        assert_eq!(table(findings, false), expected.trim_start_matches('\n'));
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
status   what   concerns         found
works    one    profile (bench)  found this
missing  two    profile (bench)  found this
         $ sudo fix
limited  three  profile (bench)  found this
                                 → as for two
missing  four   profile (bench)  found this
                                 → wait

In brackets: optional.
`wingbeat profile` cannot run here: see two, four.
",
        );
    }
}
