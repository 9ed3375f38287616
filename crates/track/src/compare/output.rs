//! A comparison as text: a table for people, Markdown for comments, JSON with everything. Pure.

mod figure;
mod table;

use std::fmt::Write as _;

use self::{
    figure::{percent, signed_percent},
    table::{Align, Table},
};
use super::result::{Comparison, End, Revision, Row, Verdict};
use crate::output::number::Scale;

/// Characters of a hash that tell it from others.
const HASH: usize = 12;

/// Everything, as JSON with a line break at its end.
///
/// # Errors
///
/// Those of the writer, which have no cause here.
pub fn json(comparison: &Comparison) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(comparison)?;
    text.push('\n');
    Ok(text)
}

/// A table for people, with what else there is to say around it.
#[must_use]
pub fn human(comparison: &Comparison, has_colours: bool) -> String {
    let mut text = heading(comparison);
    text.push('\n');
    text.push_str(&rows(comparison).plain(has_colours));
    let remarks = remarks(comparison);
    if !remarks.is_empty() {
        text.push('\n');
        for remark in remarks {
            let _ = writeln!(text, "{remark}");
        }
    }
    let _ = writeln!(text, "\n{}", conclusion(comparison));
    text
}

/// The same in Markdown, the verdict first.
#[must_use]
pub fn markdown(comparison: &Comparison) -> String {
    let mut text = format!("**{}**\n\n", conclusion(comparison));
    text.push_str(&rows(comparison).markdown());
    let _ = write!(text, "\n{}", heading(comparison));
    for remark in remarks(comparison) {
        let _ = writeln!(text, "- {remark}");
    }
    text
}

fn heading(comparison: &Comparison) -> String {
    let Comparison { pairs, elapsed_s, end, precision, .. } = comparison;
    let end = match end {
        End::Precise if comparison.rows.iter().all(|row| row.interval.is_none()) => {
            "which is enough for exact measures".to_owned()
        }
        End::Precise => format!("until a change of {} would have been seen", percent(*precision)),
        End::TimeSpent => "until time was up".to_owned(),
        End::Interrupted => "until it was stopped".to_owned(),
    };
    let (base, head) = (named(&comparison.base), named(&comparison.head));
    let pairs = counted(*pairs, "pair");
    format!("{head} against {base}\n{pairs} of runs by turns in {elapsed_s:.0} s, {end}\n")
}

fn named(revision: &Revision) -> String {
    let Revision { asked, commit, has_uncommitted_changes } = revision;
    let commit = commit.get(..HASH).unwrap_or(commit);
    let changes = if *has_uncommitted_changes { " with uncommitted changes" } else { "" };
    match commit.starts_with(asked.as_str()) {
        true => format!("{commit}{changes}"),
        false => format!("{asked} ({commit}{changes})"),
    }
}

fn rows(comparison: &Comparison) -> Table {
    let confidence = comparison.rows.iter().find_map(|row| Some(row.interval?.confidence));
    let interval = confidence.map_or_else(
        || "interval".to_owned(),
        |confidence| format!("{} interval", percent(rounded_down(confidence))),
    );
    let head = ["benchmark", "measure", "base", "head", "change", &interval, "verdict"];
    use Align::{Left, Right};
    let mut table = Table::new(&head, &[Left, Left, Right, Right, Right, Right, Left]);
    for row in &comparison.rows {
        let scale = Scale::of(&row.measure, row.base, Some(row.head));
        let cells = [
            row.benchmark.to_string(),
            row.measure.slug.to_string(),
            scale.with_unit(row.base),
            scale.with_unit(row.head),
            row.change.map_or_else(|| "–".to_owned(), signed_percent),
            row.interval.map_or_else(String::new, |interval| {
                format!("{} … {}", signed_percent(interval.lower), signed_percent(interval.upper))
            }),
            verdict(row),
        ];
        table.row(cells.to_vec(), row.is_beyond_threshold);
    }
    table
}

/// So that what is not certain does not become 100 %.
fn rounded_down(confidence: f64) -> f64 {
    let nines = (1.0 - confidence).log10().floor();
    let step = 10_f64.powf(nines.clamp(-9.0, -1.0));
    // A hair below a whole number is rounding.
    ((confidence / step + 1e-6).floor() * step).min(confidence)
}

fn verdict(row: &Row) -> String {
    let smallest = |text: &str| match row.smallest_visible {
        Some(smallest) => format!("{text}; {} would have been", percent(smallest)),
        None => text.to_owned(),
    };
    let mut text = match row.verdict {
        Verdict::Worse if row.is_beyond_threshold => "worse".to_owned(),
        Verdict::Worse => "worse, within the threshold".to_owned(),
        Verdict::Changed => "changed".to_owned(),
        Verdict::Better => "better".to_owned(),
        Verdict::TooFewPairs => "too few pairs to tell".to_owned(),
        Verdict::NotJudged => "not judged".to_owned(),
        Verdict::NoChangeSeen => smallest("no change seen"),
        Verdict::Same => "the same".to_owned(),
    };
    if let Some(note) = &row.note {
        let _ = write!(text, " ({note})");
    }
    text
}

fn remarks(comparison: &Comparison) -> Vec<String> {
    let mut remarks = Vec::new();
    for it in &comparison.unmatched {
        let measures = it.measures.join(", ");
        remarks.push(format!("only in {}: {} ({measures})", it.side.name(), it.benchmark));
    }
    for it in &comparison.failures {
        remarks.push(format!("failed in {}: {}: {}", it.side.name(), it.benchmark, it.reason));
    }
    let few = comparison.rows.iter().filter(|row| row.pairs < comparison.pairs).count();
    if few > 0 {
        let rows = counted(few, "row");
        remarks.push(format!("{rows} rest on fewer pairs, because not every run printed them"));
    }
    remarks
}

fn conclusion(comparison: &Comparison) -> String {
    let count = |is_it: fn(&Row) -> bool| comparison.rows.iter().filter(|row| is_it(row)).count();
    let worse = count(|row| row.is_beyond_threshold);
    let slightly = count(|row| row.verdict == Verdict::Worse && !row.is_beyond_threshold);
    let better = count(|row| row.verdict == Verdict::Better);
    let changed = count(|row| row.verdict == Verdict::Changed);
    let undecided = count(|row| row.verdict == Verdict::TooFewPairs);
    let mut parts = Vec::new();
    let mut tell = |count: usize, what: &str| {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    };
    tell(worse, "worse");
    tell(slightly, "worse within the threshold");
    tell(changed, "changed");
    tell(better, "better");
    tell(undecided, "undecided");
    let of = counted(comparison.rows.len(), "result");
    match parts.is_empty() {
        true => format!("no change seen in {of}"),
        false => format!("{} of {of}", parts.join(", ")),
    }
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests;
