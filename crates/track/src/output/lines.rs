//! Sentences around the table: failures, notices, alerts and remarks.

use wingbeat_text::plural;

use super::{Page, row::ReportRow};
use crate::{
    explain::Explained,
    model::{AlertStatus, Outcome},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sentence {
    Alert(AlertStatus, String),
    Failure(String),
    /// A metric that may be a spike, or whose history is too noisy for a verdict.
    Doubt(Outcome, String),
    Notice(String),
    /// A function that explains an alert.
    Cause(String),
    /// The source line of the preceding cause: a label, and the text.
    Source(String, String),
}

/// All sentences besides the figures, alerts first.
pub fn sentences(page: &Page<'_>) -> Vec<Sentence> {
    let rows = ReportRow::by_weight(page);
    let name = |row: &ReportRow<'_>| {
        let iteration = iteration(page, row.iteration);
        format!("{} {}{iteration}", row.benchmark.name, row.measure.label())
    };
    let alerts = rows.iter().filter_map(|row| {
        Some(Sentence::Alert(row.alert?.status, format!("{}: {}", name(row), alert(row))))
    });
    let (doubtful, more) = ReportRow::doubtful(&rows);
    let doubts = doubtful
        .into_iter()
        .map(|row| Sentence::Doubt(row.outcome(), format!("{}: {}", name(row), doubt(row))))
        .chain(more_noisy(more).map(|text| Sentence::Doubt(Outcome::TooNoisy, text)));
    let failures = page.report.failures().map(|(at, failure)| {
        let iteration = iteration(page, at);
        Sentence::Failure(format!("{}{iteration}: {}", failure.name, failure.reason))
    });
    let notices = page.notices.iter().map(|it| Sentence::Notice(it.text.to_string()));
    let causes = page.explained.iter().flat_map(explanations);
    alerts.chain(causes).chain(doubts).chain(failures).chain(notices).collect()
}

/// `parse latency: scan (parser/scan.rs:12) adds 3 µs of 4 µs`, each with its source.
pub(crate) fn explanations(explained: &Explained) -> impl Iterator<Item = Sentence> {
    let Explained { benchmark, measure, sentences, .. } = explained;
    sentences.iter().enumerate().flat_map(move |(at, sentence)| {
        let source = |(what, text)| Sentence::Source(what, text);
        let cause = Sentence::Cause(format!("{benchmark} {measure}: {sentence}"));
        [cause].into_iter().chain(explained.source_of(at).map(source))
    })
}

/// Whether a reason contains a number, other than as a part of another one.
fn names(reason: &str, number: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | ',' | '−');
    reason.match_indices(number).any(|(at, _)| {
        let (before, after) = (&reason[..at], &reason[at + number.len()..]);
        // A following point or comma ends a sentence, unless a digit follows.
        let behind = after.trim_start_matches(['.', ',']);
        !before.ends_with(is_part)
            && !behind.starts_with(|c: char| c.is_ascii_digit())
            && !after.starts_with(char::is_alphanumeric)
    })
}

/// Beginnings of reasons that continue the sentence about the value.
const BEYOND: [&str; 2] = ["above ", "below "];

pub(super) fn alert(row: &ReportRow<'_>) -> String {
    let mut parts = Vec::new();
    let limit = row.limit_text();
    let reason = row.verdict.map_or("", |verdict| &verdict.reason);
    // A reason that contains the limit needs no repetition of it.
    let is_told = limit.split_once(' ').is_some_and(|(_, number)| names(reason, number));
    match (is_told, limit.is_empty()) {
        (true, _) if BEYOND.iter().any(|word| reason.starts_with(word)) => {
            parts.push(format!("{} is {reason}", row.value_text()));
        }
        (false, false) => parts.push(format!("{} is {limit}", row.value_text())),
        _ => parts.push(row.value_text()),
    }
    if !row.interval_text().is_empty() {
        parts.push(row.change_and_interval());
    }
    if !reason.is_empty() && !parts[0].ends_with(reason) {
        parts.push(reason.to_owned());
    }
    if let Some(alert) = row.alert.filter(|_| !row.is_active()) {
        let reason = alert.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        parts.push(format!("{}{reason}", alert.status));
    }
    parts.join("; ")
}

/// A summary of the noisy metrics not listed one by one.
pub(super) fn more_noisy(more: usize) -> Option<String> {
    (more > 0).then(|| format!("{} could not be judged either", plural(more, "more metric")))
}

pub(super) fn doubt(row: &ReportRow<'_>) -> String {
    let reason = row.verdict.map(|verdict| verdict.reason.clone()).unwrap_or_default();
    match row.outcome().is_suspect() {
        true => {
            let parts = [row.value_text(), row.change_and_interval(), reason.clone()];
            parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
        }
        false => reason,
    }
}

/// The iteration, if there are several: ` (iteration 2)`.
pub(super) fn iteration(page: &Page<'_>, iteration: u32) -> String {
    match page.report.iterations.len() {
        0 | 1 => String::new(),
        _ => format!(" (iteration {})", u64::from(iteration) + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_reasons() {
        let check = |reason, expected| assert_eq!(names(reason, "21 ns"), expected, "{reason}");
        check("above the upper limit of 21 ns", true);
        check("it was 21 ns, and is not", true);
        check("it was 121 ns", false);
        check("it was 0.21 ns", false);
        check("it was 21 nsa", false);
        check("it was 22 ns", false);
    }
}
