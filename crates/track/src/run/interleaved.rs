//! Decides about metrics that look worse with a history of fewer than five reports: compares this commit with that of
//! the nearest report, as `wingbeat compare` does. Undecided metrics get a notice with the reason.
//!
//! [`plan`] selects what to compare, or explains why nothing can be.

mod plan;

use std::{
    collections::BTreeSet,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};
use wingbeat_text::{first_few, plural, share};

use super::{Echo, Finding, Interrupt, Request};
use crate::{
    compare::{self, CompareError, ComparedRow, Comparison, End, Event},
    evaluate::Background,
    model::{
        BenchmarkName, Boundary, Change, Interleaved, Notice, NoticeKind, NoticeText, Outcome,
        ReasonNote,
    },
    output::short_hash,
    verdict::Look,
};

/// Total time limit: the builds of both commits, and their runs.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Time limit of the runs, unless the six pairs needed for a verdict take longer.
const RUNS: Duration = Duration::from_secs(2 * 60);

/// Change detected in nine of ten cases when the runs end early. The changes in question are at least twice as large.
const PRECISION: f64 = 0.1;

/// Compares metrics that look worse. Decided ones get verdicts and alerts, the others notices.
pub(super) fn settle(
    finding: &mut Finding,
    request: &Request,
    background: &Background,
    echo: &mut Echo<'_>,
) {
    let (worse, others): (Vec<Look>, Vec<Look>) =
        finding.looks.iter().copied().partition(|look| look.outcome == Outcome::Worse);
    if !worse.is_empty() {
        match measure(finding, &worse, request, background, echo) {
            Ok(comparison) => take_over(finding, &worse, &comparison, background),
            Err(why) => {
                let why = format!("they were not measured again: {why}");
                tell(finding, &worse, &why);
            }
        }
    }
    tell(finding, &others, "they were not measured again, since nothing looks worse");
}

fn measure(
    finding: &Finding,
    worse: &[Look],
    request: &Request,
    background: &Background,
    echo: &mut Echo<'_>,
) -> Result<Comparison, String> {
    if request.confirm == Some(0) {
        return Err("--confirm 0 says so".to_owned());
    }
    let benchmarks = benchmarks(finding, worse);
    let plan = plan::plan(request, &finding.report, &benchmarks, background)?;
    let which = names(finding, worse);
    let looks = if worse.len() == 1 { "looks" } else { "look" };
    let (base, minutes) = (short_hash(&plan.base), LIMIT.as_secs() / 60);
    let line = format!(
        "{which} {looks} worse than a history that is too short to decide; measuring alternately with {base} \
         ({minutes} minutes at most; --confirm 0 never does)\n"
    );
    echo(line.as_bytes());
    compare_in_time(plan, &request.interrupt, echo)
}

/// Converts a comparison to verdicts. Undecided metrics get a notice.
fn take_over(
    finding: &mut Finding,
    worse: &[Look],
    comparison: &Comparison,
    background: &Background,
) {
    let of = |row: Option<&ComparedRow>, is_worse, look: &Look| Interleaved {
        base: short_hash(&comparison.base.commit).to_owned(),
        pairs: comparison.pairs,
        elapsed_s: comparison.elapsed_s,
        is_worse,
        change: row.and_then(|row| row.change),
        interval: row.and_then(|row| row.interval),
        change_from_history: look.change,
    };
    let Some(how) = worse.first().map(|look| of(None, false, look).how()) else { return };
    let mut undecided: Vec<Look> = Vec::new();
    let mut told: Vec<String> = Vec::new();
    for look in worse {
        let Some(verdict) = finding.report.verdicts.get_mut(look.place) else { continue };
        let is_it = |row: &&ComparedRow| {
            row.benchmark == verdict.benchmark && row.measure.slug == verdict.measure
        };
        let row = comparison.rows.iter().find(is_it);
        let Some((row, outcome)) = row.and_then(|row| Some((row, decided(row, look)?))) else {
            undecided.push(*look);
            continue;
        };
        verdict.outcome = outcome;
        verdict.boundary = Some(Boundary { baseline: Some(row.base), ..Boundary::default() });
        verdict.change = row.change.map(|relative| Change { relative, lower: None, upper: None });
        verdict.smallest_visible = row.smallest_visible;
        let comparison = of(Some(row), outcome == Outcome::Worse, look);
        let found = comparison.found();
        verdict.reason.notes.push(ReasonNote::Interleaved(comparison));
        let line = format!("{} {}: {found}", row.benchmark, row.measure.label());
        if !told.contains(&line) {
            told.push(line);
        }
        if outcome == Outcome::Worse {
            verdict.limit = Some(look.limit);
            finding.report.alerts.push(background.alert(verdict));
        }
    }
    if !told.is_empty() {
        finding.remarks.push(format!("{how}: {}", told.join("; ")));
    }
    let open = match comparison.end {
        End::Interrupted => "they were interrupted before anything was decided",
        End::Precise | End::TimeSpent => "they showed too little to decide",
    };
    tell(finding, &undecided, &format!("{how} {open}"));
}

/// The outcome of a row about a metric that looks worse. `None` if such a change might be missed.
fn decided(row: &ComparedRow, look: &Look) -> Option<Outcome> {
    let is_large = row.change.is_none_or(|change| change.abs() > look.change_min);
    match row.verdict {
        compare::PairedVerdict::Worse if is_large => Some(Outcome::Worse),
        compare::PairedVerdict::Worse
        | compare::PairedVerdict::Better
        | compare::PairedVerdict::Same => Some(Outcome::NoChange),
        compare::PairedVerdict::NoChangeSeen => {
            let is_seen = |visible: f64| visible <= look.change.abs();
            row.smallest_visible.is_none_or(is_seen).then_some(Outcome::NoChange)
        }
        compare::PairedVerdict::Changed
        | compare::PairedVerdict::TooFewPairs
        | compare::PairedVerdict::NotJudged => None,
    }
}

/// Adds a notice about metrics with the same reason.
fn tell(finding: &mut Finding, looks: &[Look], why: &str) {
    for outcome in [Outcome::Worse, Outcome::Better, Outcome::Changed] {
        let alike: Vec<Look> =
            looks.iter().copied().filter(|look| look.outcome == outcome).collect();
        let Some(most) = alike.iter().map(|look| look.reports).max() else { continue };
        let word = crate::output::outcome_word(outcome);
        let looks = if alike.len() == 1 { "looks" } else { "look" };
        let text = NoticeText {
            cause: format!("{} {looks} {word}", names(finding, &alike)),
            effect: format!(
                "{} of history cannot show how much runs differ",
                plural(most, "report")
            ),
            next_step: why.to_owned(),
        };
        let kind = NoticeKind::LooksChanged { outcome, metrics: alike.len() };
        finding.notices.push(Notice { kind, text });
    }
}

/// `a latency +31.0 %, b latency +28.0 %`.
fn names(finding: &Finding, looks: &[Look]) -> String {
    first_few(looks.iter().filter_map(|look| {
        let verdict = finding.report.verdicts.get(look.place)?;
        let change = share::change(look.change);
        Some(format!("{} {} {change}", verdict.benchmark, verdict.measure))
    }))
}

fn benchmarks(finding: &Finding, looks: &[Look]) -> Vec<BenchmarkName> {
    let verdicts = looks.iter().filter_map(|look| finding.report.verdicts.get(look.place));
    let names: BTreeSet<_> = verdicts.map(|verdict| verdict.benchmark.clone()).collect();
    names.into_iter().collect()
}

const NOTICE: Duration = Duration::from_millis(50);

fn compare_in_time(
    plan: compare::Plan,
    interrupt: &Interrupt,
    echo: &mut Echo<'_>,
) -> Result<Comparison, String> {
    // Earlier measurements are to be stored in any case.
    interrupt.keep_results();
    let stop = AtomicBool::new(interrupt.is_raised());
    let (end, ended) = mpsc::channel::<()>();
    let compared = thread::scope(|scope| {
        let (stop, until) = (&stop, plan.until);
        scope.spawn(move || {
            while ended.recv_timeout(NOTICE) == Err(RecvTimeoutError::Timeout) {
                let is_late = until.is_some_and(|until| Instant::now() >= until);
                if is_late || interrupt.is_raised() {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        });
        let compared = compare::compare(&plan, stop, &mut |event| match event {
            Event::Building(side, line) => {
                echo(format!("building {}: {line}\n", side.name()).as_bytes());
            }
            Event::Notice(text) => echo(format!("{text}\n").as_bytes()),
            Event::Output(..) | Event::Pairs(..) => {}
        });
        drop(end);
        compared
    });
    compared.map_err(|error| match error {
        CompareError::Interrupted if interrupt.is_raised() => "it was interrupted".to_owned(),
        CompareError::Interrupted => {
            format!("it would take more than {} minutes", LIMIT.as_secs() / 60)
        }
        error => in_a_line(&error.to_string()),
    })
}

/// Only the last line of a command's output: more is too much for a notice.
fn in_a_line(error: &str) -> String {
    let mut lines = error.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default().trim_end_matches(['.', ':']);
    match (first.strip_suffix("; its last lines were"), lines.next_back()) {
        (Some(what), Some(last)) => format!("{what}; its last line was \"{last}\""),
        (what, _) => what.unwrap_or(first).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_in_a_line() {
        let check = |error, expected: &str| assert_eq!(in_a_line(error), expected);
        check("it failed: why.", "it failed: why");
        check(
            "it failed in head; its last lines were\n  a\n  no x\n",
            "it failed in head; its last line was \"no x\"",
        );
        check("it failed in head; its last lines were:\n", "it failed in head");
        check("", "");
    }
}
