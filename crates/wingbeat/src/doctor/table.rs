//! The findings as text: one line each, followed by the next step.
//!
//! Commands are on separate, unwrapped lines, so that they can be copied.

use std::io::{self, Write};

use owo_colors::{OwoColorize as _, Style};
use wingbeat_bpf_loader::{
    Finding, FindingStatus, Verb,
    probe::{NextStep, can},
};
use wingbeat_text::paragraph;

/// Widths of the first two columns: `limited`, `kernel types (BTF)`.
const STATUS_WIDTH: usize = 7;
const NAME_WIDTH: usize = 19;

/// Wide enough for most texts, and fits most terminals.
const LINE_WIDTH: usize = 100;

/// Writes a heading, the table, a legend of its brackets, and a summary sentence.
pub(super) fn write(findings: &[Finding], mut out: impl Write) -> io::Result<()> {
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
    use super::*;

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
        write(findings, anstream::StripStream::new(&mut bytes)).unwrap();
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
