//! Sentences around the table: failures, notices, alerts and remarks.

use wingbeat_text::plural;

use super::{Page, row::ReportRow};
use crate::{
    explain::Explained,
    model::{AlertStatus, Outcome, Reason},
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
    let rows = ReportRow::by_weight(page.report, page.thresholds);
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

/// `1,210 ns is above the upper limit of 1,050 ns`, or the value, why it stands out, and the status of the alert.
pub(super) fn alert(row: &ReportRow<'_>) -> String {
    let reason = row.verdict.map(|verdict| &verdict.reason);
    let limit = row.limit();
    let is_named = reason.zip(limit).is_some_and(|(it, (_, limit))| it.names_limit(limit));
    let mut why = row.reason_text();
    let value = match limit {
        _ if reason.is_some_and(Reason::continues_value) => {
            format!("{} is {}", row.value_text(), std::mem::take(&mut why))
        }
        Some(_) if !is_named => format!("{} is {}", row.value_text(), row.limit_text()),
        _ => row.value_text(),
    };
    let change = match row.interval_text().is_empty() {
        true => String::new(),
        false => row.change_and_interval(),
    };
    let status = row.alert.filter(|_| !row.is_active()).map(|alert| {
        let reason = alert.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        format!("{}{reason}", alert.status)
    });
    joined([value, change, why, status.unwrap_or_default()])
}

fn joined(parts: impl IntoIterator<Item = String>) -> String {
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("; ")
}

/// A summary of the noisy metrics not listed one by one.
pub(super) fn more_noisy(more: usize) -> Option<String> {
    (more > 0).then(|| format!("{} could not be judged either", plural(more, "more metric")))
}

pub(super) fn doubt(row: &ReportRow<'_>) -> String {
    match row.outcome().is_suspect() {
        true => joined([row.value_text(), row.change_and_interval(), row.reason_text()]),
        false => row.reason_text(),
    }
}

/// The iteration, if there are several: ` (iteration 2)`.
pub(super) fn iteration(page: &Page<'_>, iteration: u32) -> String {
    match page.report.iterations.len() {
        0 | 1 => String::new(),
        _ => format!(" (iteration {})", u64::from(iteration) + 1),
    }
}
