//! The report in one line.

use std::collections::HashSet;

use wingbeat_text::{first_few, grouped, plural, share};

use super::{Page, row::ReportRow};
use crate::model::{Outcome, Report};

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
