//! Sentences about a report: its verdict in one line, and failures, notices, alerts and remarks around the table.

use std::collections::HashSet;

use wingbeat_text::{first_few, grouped, plural, share};

use super::{Page, row::ReportRow};
use crate::{
    explain::Explained,
    model::{AlertStatus, Outcome, Reason, Report},
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

/// The report in one line: `2 of 14 metrics are worse: …`.
pub fn verdict(page: &Page<'_>) -> String {
    let rows = ReportRow::by_weight(page.report, page.thresholds);
    verdict_of(page.report, &rows, &|row| format!("{} {}", row.benchmark.name, row.measure.label()))
}

/// Like [`verdict`], from the rows by weight, with metrics named by `name`.
pub fn verdict_of(
    report: &Report,
    rows: &[ReportRow<'_>],
    name: &dyn Fn(&ReportRow<'_>) -> String,
) -> String {
    // A benchmark that failed in several iterations counts once.
    let failures = report.failures().map(|(_, it)| &it.name).collect::<HashSet<_>>().len();
    let failed = match failures {
        0 => String::new(),
        _ => format!("; {} failed", plural(failures, "benchmark")),
    };
    if rows.is_empty() {
        return match failures {
            0 => "no benchmark was found".to_owned(),
            _ => format!("no metric{failed}"),
        };
    }
    let active: Vec<&ReportRow<'_>> = rows.iter().filter(|row| row.is_active()).collect();
    match active.is_empty() {
        true => format!("{}{failed}", quiet(rows)),
        false => format!("{}{failed}", alarm(&active, rows.len(), name)),
    }
}

/// `2 of 14 metrics are worse and 1 changed: a latency +12.0 %, …`.
fn alarm(
    active: &[&ReportRow<'_>],
    metrics: usize,
    name: &dyn Fn(&ReportRow<'_>) -> String,
) -> String {
    let counted = |outcome| active.iter().filter(|row| row.outcome() == outcome).count();
    let (worse, better) = (counted(Outcome::Worse), counted(Outcome::Better));
    let changed = active.len() - worse - better;
    let mut parts = Vec::new();
    for (number, singular, several) in [
        (worse, "is worse", "are worse"),
        (changed, "changed", "changed"),
        (better, "is better", "are better"),
    ] {
        let words = if number == 1 { singular } else { several };
        match (number, parts.is_empty()) {
            (0, _) => {}
            (_, true) => {
                let of = plural(metrics, "metric");
                parts.push(format!("{} of {of} {words}", grouped(number)));
            }
            (_, false) => parts.push(format!("{} {words}", grouped(number))),
        }
    }
    let named = |row: &&ReportRow<'_>| {
        let change = match row.change_text() {
            change if change.is_empty() => change,
            change => format!(" {change}"),
        };
        format!("{}{change}", name(row))
    };
    format!("{}: {}", parts.join(" and "), first_few(active.iter().map(named)))
}

/// `no alert in 14 metrics; a change of 1.3 % would have been seen`.
fn quiet(rows: &[ReportRow<'_>]) -> String {
    let counted = |outcome| rows.iter().filter(|row| row.outcome() == outcome).count();
    let settled = rows.iter().filter(|row| row.alert.is_some()).count();
    let active = if settled > 0 { "active alert" } else { "alert" };
    let mut text = format!("no {active} in {}", plural(rows.len(), "metric"));
    let judged = rows.len() - counted(Outcome::TooLittleHistory) - counted(Outcome::NotJudged);
    if judged == 0 {
        text += match counted(Outcome::TooLittleHistory) {
            0 => {
                "; none of them was judged: no threshold with a boundary names them, or they are ignored"
            }
            _ => "; there is too little history yet",
        };
        return text;
    }
    let suspects = rows.iter().filter(|row| row.outcome().is_suspect()).count();
    // Count, and the phrases for one and for several.
    for (count, [one, several]) in [
        (settled, ["is dismissed or silenced", "are dismissed or silenced"]),
        (suspects, ["may be a spike", "may be spikes"]),
        (counted(Outcome::TooNoisy), ["too noisy to judge"; 2]),
        (counted(Outcome::Better), ["is better", "are better"]),
        (counted(Outcome::MovedTogether), ["moved together"; 2]),
        (counted(Outcome::TooLittleHistory), ["had too little history"; 2]),
        (counted(Outcome::NotJudged), ["not judged"; 2]),
    ] {
        if count > 0 {
            text += &format!(", {} {}", grouped(count), if count == 1 { one } else { several });
        }
    }
    match visible(rows) {
        Some(visible) => format!("{text}; {visible}"),
        None => text,
    }
}

/// The smallest detectable change. Exact measures show every change, so they do not count.
fn visible(rows: &[ReportRow<'_>]) -> Option<String> {
    let of = |row: &ReportRow<'_>| row.verdict.and_then(|verdict| verdict.smallest_visible);
    let seen: Vec<f64> = rows.iter().filter_map(of).collect();
    if seen.is_empty() {
        return None;
    }
    let mut noisy: Vec<f64> = seen.into_iter().filter(|share| *share > 0.0).collect();
    noisy.sort_unstable_by(f64::total_cmp);
    let judged = rows.iter().filter(|row| row.outcome() != Outcome::TooLittleHistory).count();
    let (Some(most), Some(middle)) = (noisy.last(), noisy.get(noisy.len() / 2)) else {
        let whose = if judged < rows.len() { " in the others" } else { "" };
        return Some(format!("any change{whose} would have been seen"));
    };
    let (middle, most) = (share::size(*middle), share::size(*most));
    Some(match middle == most {
        true => format!("a change of {most} would have been seen"),
        false => format!(
            "a change of {middle} would have been seen in half of them, one of {most} in all"
        ),
    })
}
