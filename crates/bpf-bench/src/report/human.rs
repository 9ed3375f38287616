//! A human-readable result: the table, then how to read it, then warnings.

use wingbeat_text::{
    Paint, Style, Table, decimal, duration, grouped, listed, paragraph, plural, printable,
};

use super::{
    by_key,
    columns::{Row, columns, returned},
    details::details,
    ranking::{rankings, shown},
    width_of,
};
use crate::{
    Warning,
    result::{BenchReport, Case, Failure},
};

/// Writes a result as tables and notes.
pub fn human(report: &BenchReport, style: Style) -> String {
    let paint = style.paint();
    let mut sections = vec![head(report, paint, width_of(style))];
    sections.extend(figures(report, style));
    sections.extend(troubles(report, style));
    sections.extend(tally(report).map(|tally| tally + "\n"));
    sections.join("\n")
}

/// What was measured, where, for how long.
pub(super) fn head(report: &BenchReport, paint: Paint, width: usize) -> String {
    let machine = &report.conditions.before;
    let kernel = machine.kernel_release.as_deref().map(|release| format!("Linux {release}"));
    let model = machine.cpu_model.clone();
    let place: Vec<_> = kernel.into_iter().chain(model).collect();
    let place = match place.is_empty() {
        true => String::new(),
        false => format!(" ({})", printable(&place.join(", "))),
    };
    let cases = plural(report.cases.len(), "case");
    let cases = format!("{cases} measured for {}", duration(report.duration_ns));
    let loaded = plural(report.verified.len(), "program");
    let done = match (report.cases.len(), report.verified.len()) {
        (_, 0) => cases,
        (0, _) => format!("{loaded} loaded"),
        (_, _) => format!("{cases}, {loaded} loaded only,"),
    };
    let end = if report.is_interrupted { ", then interrupted" } else { "" };
    let object = printable(&report.object);
    let text = format!("{object}: {done} on CPU {}{end}{place}", report.cpu);
    let text = paragraph(&text, 2, width) + "\n";
    match text.strip_prefix(&object) {
        Some(rest) => paint.bold(&object) + rest,
        None => text,
    }
}

/// Tables, notes about them, and rankings. Empty without cases.
pub(super) fn figures(report: &BenchReport, style: Style) -> Vec<String> {
    if report.cases.is_empty() && report.verified.is_empty() {
        return Vec::new();
    }
    let (paint, width) = (style.paint(), width_of(style));
    let (cases, left_out) = shown(&report.cases, style.is_verbose);
    let mut sections = vec![table(report, &cases, paint, width)];
    let mut notes: Vec<String> = left_out.iter().map(|note| paragraph(note, 2, width)).collect();
    notes.extend(legend(report, paint, width));
    notes.extend(steady(&cases, width));
    notes.extend(own_outputs(&cases, width));
    let all: Vec<&Case> = report.cases.iter().collect();
    notes.extend(unavailable(&rows(report, &all), width));
    if !notes.is_empty() {
        sections.push(notes.join("\n") + "\n");
    }
    if style.is_verbose {
        sections.push(details(&rows(report, &cases), paint, width));
    }
    sections.extend(rankings(&report.cases, style.is_verbose, paint, width));
    sections
}

fn rows<'a>(report: &'a BenchReport, cases: &[&'a Case]) -> Vec<Row<'a>> {
    // Baselines are useless without cases.
    let baselines = report.baselines.iter().filter(|_| !cases.is_empty()).map(Row::Baseline);
    let cases = cases.iter().map(|&case| Row::Case(case));
    baselines.chain(cases).chain(report.verified.iter().map(Row::Verified)).collect()
}

fn table(report: &BenchReport, cases: &[&Case], paint: Paint, width: usize) -> String {
    let rows = rows(report, cases);
    let table = Table {
        names_heading: "case",
        names: rows.iter().map(|row| row.name()).collect(),
        columns: columns(&rows),
    };
    let dim_rows = if cases.is_empty() { 0 } else { report.baselines.len() };
    table.write(width, paint, &|at, line| match at < dim_rows {
        true => paint.dim(line),
        false => line.to_owned(),
    })
}

/// Failures for stderr: programs that were not measured, or that returned an unexpected value.
/// `None` if there are none.
pub fn errors(report: &BenchReport, style: Style) -> Option<String> {
    let (paint, width) = (style.paint(), width_of(style));
    let mut lines = unmet(&report.cases, paint, width);
    lines.extend(failures(report, paint, width));
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Skipped programs, and warnings.
pub(super) fn troubles(report: &BenchReport, style: Style) -> Option<String> {
    let (paint, width) = (style.paint(), width_of(style));
    let mut lines = skipped(report, width);
    lines.extend(warnings(&report.warnings, paint, width));
    (!lines.is_empty()).then(|| lines.join("\n") + "\n")
}

/// Indentation of continuation lines in a note.
const INDENT: usize = 2;

/// Maximum width of names in a note.
const NAMES_WIDTH: usize = 50;

/// One line on how to read the table.
pub(super) fn legend(report: &BenchReport, paint: Paint, width: usize) -> Option<String> {
    let has_times = report.cases.iter().any(|case| case.latency.measured().is_some());
    let has_singles = report.cases.iter().any(|case| case.distribution.measured().is_some());
    let net =
        has_times.then_some("floor: an undisturbed run; net: minus the time of an empty program");
    let single = has_singles.then_some("single runs: clock reads included");
    let parts: Vec<_> = net.into_iter().chain(single).collect();
    (!parts.is_empty()).then(|| paint.dim(&paragraph(&parts.join("; "), INDENT, width)))
}

/// Cases whose runs influence each other, so that the counted run differs from the timed ones.
pub(super) fn steady(cases: &[&Case], width: usize) -> Option<String> {
    let later = |case: &&Case| {
        let instructions = case.counts.measured()?.steady_instructions?;
        Some(format!("{} ({})", grouped(instructions), printable(&case.name)))
    };
    let later: Vec<_> = cases.iter().filter_map(later).collect();
    let text = format!(
        "* in the first run; after thousands of runs, in which the times were taken: {}",
        listed(&later, NAMES_WIDTH)
    );
    (!later.is_empty()).then(|| paragraph(&text, INDENT, width))
}

/// Results of programs on their own output packet, if they differ from those on the requested packet.
pub(super) fn own_outputs(cases: &[&Case], width: usize) -> Vec<String> {
    cases.iter().filter_map(|case| Some(paragraph(&own_output(case)?, INDENT, width))).collect()
}

fn own_output(case: &Case) -> Option<String> {
    let (own, latency) = (case.own_output.as_ref()?, case.latency.measured()?);
    let name = printable(&case.name);
    if latency.is_on_own_output() {
        return Some(format!(
            "* {name} changes its packet, and its times are of runs on its own output, not on the packet \
             that was asked for"
        ));
    }
    let counts = case.counts.measured();
    let executed = counts.map(|it| it.steady_instructions.unwrap_or(it.instructions));
    let is_same = own.instructions.zip(executed).is_none_or(|(own, fresh)| own == fresh)
        && own.return_value.is_none_or(|value| value == case.outcome.return_value);
    if is_same {
        return None;
    }
    let instructions = own.instructions.map(|count| plural(count as usize, "instruction"));
    let number = own.return_value.map(|value| value.to_string());
    let returned = own.return_name.as_deref().map(printable).or(number);
    let details: Vec<_> =
        instructions.into_iter().chain(returned.map(|it| format!("returns {it}"))).collect();
    // Only without what is around them are bursts and the kernel's batches alike.
    let times = match latency.net_ns.zip(own.net_ns) {
        Some((fresh, own)) => format!(
            "net {} ns on a fresh packet, {} ns on its own output",
            decimal(fresh, 1),
            decimal(own, 1)
        ),
        None => format!(
            "{} ns on a fresh packet, {} ns on its own output",
            decimal(latency.median_ns, 1),
            own.median_ns.map_or_else(|| "–".to_owned(), |ns| decimal(ns, 1))
        ),
    };
    Some(format!("{name} changes its packet: {times} ({})", details.join(", ")))
}

/// Reasons for missing figures, once per reason.
pub(super) fn unavailable(rows: &[Row], width: usize) -> Vec<String> {
    let found = by_key(rows.iter().flat_map(|row| {
        missing(*row).into_iter().map(|(reason, parts)| ((parts.join(", "), reason), row.name()))
    }));
    let note = |((parts, reason), names): ((String, &str), Vec<String>)| {
        let of = match names.len() == rows.len() && rows.len() > 1 {
            true => "all".to_owned(),
            false => listed(&names, NAMES_WIDTH),
        };
        paragraph(&format!("no {parts} of {of}: {}", one_line(reason)), INDENT, width)
    };
    found.into_iter().map(note).collect()
}

/// Missing figures of a row, by reason, in column order.
fn missing(row: Row<'_>) -> Vec<(&str, Vec<&'static str>)> {
    let unreported = "the kernel did not report it";
    let no_baseline = "no empty program of its type could be measured";
    let parts = match row {
        Row::Baseline(baseline) => {
            vec![
                (baseline.latency.reason(), "time"),
                (baseline.distribution.reason(), "single runs"),
            ]
        }
        Row::Case(case) => {
            let verifier = &case.verifier;
            let figures = [verifier.processed_instructions, verifier.total_states];
            let others = [verifier.peak_states, verifier.duration_us];
            let has_no_net = row.latency().is_some() && row.net().is_none();
            let is_reported = figures.iter().chain(&others).all(Option::is_some);
            vec![
                (case.latency.reason(), "time"),
                (has_no_net.then_some(no_baseline), "net time"),
                (case.distribution.reason(), "single runs"),
                (case.counts.reason(), "executed instructions"),
                ((!is_reported).then_some(unreported), "verifier figures"),
                (case.size.map_memory_bytes.is_none().then_some(unreported), "map memory"),
            ]
        }
        // Its dashes are explained by the cases; `skipped` covers missing cells.
        Row::Verified(_) => Vec::new(),
    };
    by_key(parts.into_iter().filter_map(|(reason, part)| Some((reason?, part))))
}

/// Programs that did not meet `--expect`.
pub(super) fn unmet(cases: &[Case], paint: Paint, width: usize) -> Vec<String> {
    let note = |case: &Case| {
        let expected = case.outcome.unmet_expectation?;
        let expected = match &case.outcome.unmet_name {
            Some(name) => format!("{name} ({expected})"),
            None => expected.to_string(),
        };
        let number = case.outcome.return_value;
        let answer = match &case.outcome.return_name {
            Some(_) => format!("{} ({number})", returned(case)),
            None => number.to_string(),
        };
        let text =
            format!("{} returned {answer}, but {expected} was expected", printable(&case.name));
        Some(headed("error", &paint.bad("error"), &text, width))
    };
    cases.iter().filter_map(note).collect()
}

/// Failures. Reasons keep their line breaks: some contain verifier logs.
pub(super) fn failures(report: &BenchReport, paint: Paint, width: usize) -> Vec<String> {
    let note = |failure: &Failure| {
        let mut lines = failure.reason.lines();
        let first = lines.next().unwrap_or("the reason is unknown");
        // A case that failed in the middle has earlier figures.
        let what = match report.cases.iter().any(|case| case.name == failure.name) {
            true => "was not measured to the end",
            false => "was not measured",
        };
        let first = match failure.is_rejected {
            // The reason already begins with the name.
            true => printable(first),
            false => format!("{} {what}: {}", printable(&failure.name), printable(first)),
        };
        let mut text = headed("error", &paint.bad("error"), &first, width);
        for line in lines {
            text += &format!("\n{:INDENT$}{}", "", printable(&line.replace('\t', "    ")));
        }
        text
    };
    report.failures.iter().map(note).collect()
}

/// Programs that were not run, grouped by reason.
pub(super) fn skipped(report: &BenchReport, width: usize) -> Vec<String> {
    let reasons = by_key(report.skipped.iter().map(|it| (&it.reason, printable(&it.name))));
    let note = |(reason, names): &(&String, Vec<String>)| {
        let text = format!("not run: {}: {}", listed(names, NAMES_WIDTH), one_line(reason));
        paragraph(&text, INDENT, width)
    };
    reasons.iter().map(note).collect()
}

pub(super) fn warnings(warnings: &[Warning], paint: Paint, width: usize) -> Vec<String> {
    let note = |warning: &Warning| {
        let text = one_line(&warning.to_string());
        headed("warning", &paint.warning("warning"), &text, width)
    };
    warnings.iter().map(note).collect()
}

/// Number of programs that could not be measured, and of those that were.
pub(super) fn tally(report: &BenchReport) -> Option<String> {
    match (report.cases.len(), report.failures.len()) {
        (0, 0) if !report.verified.is_empty() => {
            Some("nothing was run: programs were only loaded".to_owned())
        }
        (0, 0) if !report.skipped.is_empty() => Some("nothing was measured".to_owned()),
        (0, 0) => Some("nothing was measured: there was no program to measure".to_owned()),
        (0, failures) => Some(format!("nothing was measured: {}", plural(failures, "failure"))),
        _ => None,
    }
}

/// A paragraph after a head such as `error: `.
fn headed(plain: &str, head: &str, text: &str, width: usize) -> String {
    // The head may contain escape sequences, so the layout uses the plain one.
    let paragraph = paragraph(&format!("{plain}: {text}"), INDENT, width);
    paragraph.strip_prefix(plain).map_or_else(|| text.to_owned(), |rest| format!("{head}{rest}"))
}

/// Foreign text as part of a sentence.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    printable(&words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_laid_out_by_its_looks() {
        let paint = Paint { has_colours: true };
        let text = headed("error", &paint.bad("error"), "one two three", 14);
        assert_eq!(text, format!("{}: one\n  two three", paint.bad("error")));
    }

    #[test]
    fn foreign_lines_become_one() {
        assert_eq!(one_line("a\n\tb \u{1b}[31m"), "a b ?[31m");
    }
}
