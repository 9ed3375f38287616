//! A human-readable result: the table, then how to read it, then warnings.

use wingbeat_text::{
    Block, Line, Look, Span, Style, Table, decimal, duration, grouped, line, list, listed, plural,
    printable,
};

use super::{
    by_key,
    columns::{Row, columns, returned},
    details::details,
    ranking::{rankings, shown},
    wide_enough,
};
use crate::result::{BenchReport, Case, Failure};

/// Writes a result as tables and notes.
pub fn human(report: &BenchReport, style: Style) -> String {
    let style = wide_enough(style);
    let mut blocks = vec![head(report)];
    blocks.extend(figures(report, style));
    blocks.push(troubles(report));
    blocks.extend(tally(report).map(|tally| Block::Paragraph(line(tally))));
    wingbeat_text::human(&blocks, style)
}

/// What was measured, where, for how long.
pub(super) fn head(report: &BenchReport) -> Block {
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
    let text = format!(": {done} on CPU {}{end}{place}", report.cpu);
    Block::Paragraph(vec![Span::strong(printable(&report.object)), Span::text(text)])
}

/// Tables, notes about them, and rankings. Empty without cases.
pub(super) fn figures(report: &BenchReport, style: Style) -> Vec<Block> {
    if report.cases.is_empty() && report.verified.is_empty() {
        return Vec::new();
    }
    let (cases, left_out) = shown(&report.cases, style.is_verbose);
    let mut notes: Vec<Line> = left_out.iter().map(line).collect();
    notes.extend(legend(report));
    notes.extend(steady(&cases).map(line));
    notes.extend(cases.iter().filter_map(|case| own_output(case)).map(line));
    let all: Vec<&Case> = report.cases.iter().collect();
    notes.extend(unavailable(&rows(report, &all)).iter().map(line));
    let mut blocks = vec![table(report, &cases), Block::List(notes)];
    if style.is_verbose {
        blocks.push(details(&rows(report, &cases)));
    }
    blocks.extend(rankings(&report.cases, style));
    blocks
}

fn rows<'a>(report: &'a BenchReport, cases: &[&'a Case]) -> Vec<Row<'a>> {
    // Baselines are useless without cases.
    let baselines = report.baselines.iter().filter(|_| !cases.is_empty()).map(Row::Baseline);
    let cases = cases.iter().map(|&case| Row::Case(case));
    baselines.chain(cases).chain(report.verified.iter().map(Row::Verified)).collect()
}

fn table(report: &BenchReport, cases: &[&Case]) -> Block {
    let rows = rows(report, cases);
    let dim_rows = if cases.is_empty() { 0 } else { report.baselines.len() };
    let table = Table::new("case", rows.iter().map(|row| row.name()), columns(&rows));
    Block::Table(table.with_looks(vec![Look::Dim; dim_rows]))
}

/// Failures for stderr: programs that were not measured, or that returned an unexpected value.
/// `None` if there are none.
pub fn errors(report: &BenchReport, style: Style) -> Option<String> {
    let unmet = report.cases.iter().filter_map(unmet).map(|text| Block::Paragraph(error(&text)));
    let errors = unmet.chain(report.failures.iter().map(|it| failure(report, it))).collect();
    let text = wingbeat_text::human(&[Block::Section(errors)], wide_enough(style));
    (!text.is_empty()).then(|| text.trim_end().to_owned())
}

/// Skipped programs, and warnings.
pub(super) fn troubles(report: &BenchReport) -> Block {
    let warnings = report.warnings.iter().map(|it| line(one_line(&it.to_string())));
    Block::Section(vec![list(skipped(report)), Block::Warning(warnings.collect())])
}

/// Maximum width of names in a note.
const NAMES_WIDTH: usize = 50;

/// One line on how to read the table.
fn legend(report: &BenchReport) -> Option<Line> {
    let has_times = report.cases.iter().any(|case| case.latency.measured().is_some());
    let has_singles = report.cases.iter().any(|case| case.distribution.measured().is_some());
    let net =
        has_times.then_some("floor: an undisturbed run; net: minus the time of an empty program");
    let single = has_singles.then_some("single runs: clock reads included");
    let parts: Vec<_> = net.into_iter().chain(single).collect();
    (!parts.is_empty()).then(|| vec![Span::new(Look::Dim, parts.join("; "))])
}

/// Cases whose runs influence each other, so that the counted run differs from the timed ones.
fn steady(cases: &[&Case]) -> Option<String> {
    let later = |case: &&Case| {
        let instructions = case.counts.measured()?.steady_instructions?;
        Some(format!("{} ({})", grouped(instructions), printable(&case.name)))
    };
    let later: Vec<_> = cases.iter().filter_map(later).collect();
    let text = format!(
        "* in the first run; after thousands of runs, in which the times were taken: {}",
        listed(&later, NAMES_WIDTH)
    );
    (!later.is_empty()).then_some(text)
}

/// Results of a program on its own output packet, if they differ from those on the requested packet.
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
fn unavailable(rows: &[Row]) -> Vec<String> {
    let found = by_key(rows.iter().flat_map(|row| {
        missing(*row).into_iter().map(|(reason, parts)| ((parts.join(", "), reason), row.name()))
    }));
    let note = |((parts, reason), names): ((String, &str), Vec<String>)| {
        let of = match names.len() == rows.len() && rows.len() > 1 {
            true => "all".to_owned(),
            false => listed(&names, NAMES_WIDTH),
        };
        format!("no {parts} of {of}: {}", one_line(reason))
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

fn error(text: &str) -> Line {
    vec![Span::new(Look::Bad, "error"), Span::text(format!(": {text}"))]
}

/// How a program did not meet `--expect`.
fn unmet(case: &Case) -> Option<String> {
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
    Some(format!("{} returned {answer}, but {expected} was expected", printable(&case.name)))
}

/// A failure. Its reason keeps its line breaks: some contain verifier logs.
fn failure(report: &BenchReport, failure: &Failure) -> Block {
    let mut lines = failure.reason.lines();
    let first = printable(lines.next().unwrap_or("the reason is unknown"));
    // A case that failed in the middle has earlier figures.
    let what = match report.cases.iter().any(|case| case.name == failure.name) {
        true => "was not measured to the end",
        false => "was not measured",
    };
    let first = match failure.is_rejected {
        // The reason already begins with the name.
        true => first,
        false => format!("{} {what}: {first}", printable(&failure.name)),
    };
    let rest = lines.map(|text| line(printable(&text.replace('\t', "    ")))).collect();
    let rest = Block::Indented(vec![Block::Verbatim(rest)]);
    Block::Section(vec![Block::Paragraph(error(&first)), rest])
}

/// Programs that were not run, grouped by reason.
fn skipped(report: &BenchReport) -> Vec<String> {
    let reasons = by_key(report.skipped.iter().map(|it| (&it.reason, printable(&it.name))));
    let note = |(reason, names): &(&String, Vec<String>)| {
        format!("not run: {}: {}", listed(names, NAMES_WIDTH), one_line(reason))
    };
    reasons.iter().map(note).collect()
}

/// Number of programs that could not be measured, and of those that were.
fn tally(report: &BenchReport) -> Option<String> {
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

/// Foreign text as part of a sentence.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    printable(&words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_lines_become_one() {
        assert_eq!(one_line("a\n\tb \u{1b}[31m"), "a b ?[31m");
    }
}
