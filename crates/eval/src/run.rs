//! `cargo xtask peers run`: whether `wingbeat run` keeps what it promises, with real benchmarks on a real
//! and busy machine. What can be simulated is in `crates/track/examples/how_often`.
//!
//! Real benchmarks run beside neighbours that come and go. Each round begins with an empty store, and the
//! same code is measured five times, each time as a new commit: how often does `--err` fail with one to
//! four reports of history? And, so that this cannot be reached by never failing: how often is code that
//! does twice the work found?

mod neighbours;
mod scratch;

use std::{process::ExitCode, time::Instant};

use clap::{Args, Subcommand};
use serde::Serialize;

use self::{
    neighbours::Neighbours,
    scratch::{Said, Scratch},
};
use crate::{
    comparison::{Common, Origin, Stop},
    numbers::Share,
    table::{column, table},
};

/// Which promise is put to the test.
#[derive(Debug, Subcommand)]
pub(crate) enum Run {
    /// Code that did not change, from an empty store to the fourth report of history: how often does
    /// --err fail, and how often is twice the work found?
    Aa(AaArgs),
}

/// Reports of history with which nothing is decided by them.
const HISTORY_MAX: u32 = 4;

/// In every n-th round code that does twice the work is measured, too.
const DOUBLED_EACH: u32 = 4;

/// False failures: one report in 200.
const FALSE_MAX: f64 = 0.005;

/// How much is measured.
#[derive(Debug, Args)]
pub(crate) struct AaArgs {
    /// Rounds of four reports that could fail
    #[arg(long, value_name = "N", default_value_t = 200)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Default, Serialize)]
struct Record {
    origin: Origin,
    rounds: u32,
    took_s: f64,
    reports: Vec<Report>,
}

/// One report.
#[derive(Debug, Clone, Copy, Serialize)]
struct Report {
    /// Reports of history that it had.
    history: u32,
    is_doubled: bool,
    #[serde(flatten)]
    said: Said,
}

pub(crate) fn aa(args: &AaArgs) -> anyhow::Result<ExitCode> {
    let wingbeat = args.common.wingbeat()?;
    let bench = scratch::build()?;
    let stop = Stop::on_signals()?;
    let mut record = Record { origin: Origin::now(), ..Record::default() };
    let begin = Instant::now();
    let neighbours = Neighbours::start();
    for round in 0..args.rounds {
        let found =
            Scratch::new(&wingbeat, &bench).and_then(|scratch| self::round(&scratch, round));
        let Some(found) = stop.unless_asked(found)? else { break };
        record.reports.extend(found);
        record.rounds += 1;
        let (same, doubled) = (failed(&record, false), failed(&record, true));
        eprintln!(
            "round {}, {:.0} s: {} of {} failed with the same code, {} of {} with twice the work",
            round + 1,
            begin.elapsed().as_secs_f64(),
            same.hits,
            same.of,
            doubled.hits,
            doubled.of
        );
    }
    drop(neighbours);
    record.took_s = begin.elapsed().as_secs_f64();
    args.common.finish("run aa", &record, &text(&record), &stop)
}

/// One round: a report without history, four with one to four, and perhaps one that has to be found.
fn round(scratch: &Scratch<'_>, round: u32) -> anyhow::Result<Vec<Report>> {
    let mut reports = Vec::new();
    let doubled_after =
        round.is_multiple_of(DOUBLED_EACH).then_some(round / DOUBLED_EACH % HISTORY_MAX + 1);
    for history in 0..=HISTORY_MAX {
        if doubled_after == Some(history) {
            scratch.commit(2, "Do twice the work")?;
            reports.push(Report { history, is_doubled: true, said: scratch.measure(true)? });
            scratch.forget_commit()?;
        }
        scratch.commit(1, &format!("Change nothing, {history}"))?;
        let said = scratch.measure(false)?;
        if history > 0 {
            reports.push(Report { history, is_doubled: false, said });
        }
    }
    Ok(reports)
}

fn text(record: &Record) -> String {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let (same, doubled) = (failed(record, false), failed(record, true));
    let bounds = same
        .interval()
        .map_or_else(String::new, |(_, high)| format!(" (95 %: at most {})", percent(high)));
    let count = |is_doubled: bool, what: fn(&Said) -> bool| {
        move |&history: &u32| {
            let all = record.reports.iter();
            let all = all.filter(|it| it.history == history && it.is_doubled == is_doubled);
            all.filter(|it| what(&it.said)).count()
        }
    };
    let table = table(
        1..=HISTORY_MAX,
        &[
            column("reports of history", |&history: &u32| history),
            column("same code: reports", count(false, |_| true)),
            column("looked worse by samples", count(false, |said| said.looked_worse)),
            column("left open", count(false, |said| said.is_open)),
            column("failed", count(false, |said| said.failed)),
            column("twice the work: reports", count(true, |_| true)),
            column("found", count(true, |said| said.failed)),
        ],
    );
    format!(
        "{}\n{} rounds in {:.0} minutes. The same code failed {} of {} times{bounds}; the goal is at most \
         {}: {}. Twice the work was found {} of {} times.\n\n{table}",
        record.origin.text(""),
        record.rounds,
        record.took_s / 60.0,
        same.hits,
        same.of,
        percent(FALSE_MAX),
        same.at_most(FALSE_MAX),
        doubled.hits,
        doubled.of,
    )
}

fn failed(record: &Record, is_doubled: bool) -> Share {
    let reports = record.reports.iter().filter(|report| report.is_doubled == is_doubled);
    Share { hits: reports.clone().filter(|report| report.said.failed).count(), of: reports.count() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::cells_of;

    #[test]
    fn the_text_counts_both_kinds() {
        let report = |history, is_doubled, failed| {
            let said = Said { failed, looked_worse: failed, is_open: false };
            Report { history, is_doubled, said }
        };
        let reports = vec![
            report(1, false, false),
            report(1, false, true),
            report(2, false, false),
            report(2, true, true),
        ];
        let text = text(&Record { rounds: 1, reports, ..Record::default() });
        let failed = "The same code failed 1 of 3 times (95 %: at most 79.23 %)";
        assert!(text.contains(failed), "{text}");
        assert!(text.contains("Twice the work was found 1 of 1 times."), "{text}");
        let table = &text[text.find("| reports").expect("a table")..];
        assert_eq!(cells_of(table)[0], ["1", "2", "1", "0", "1", "0", "0"]);
    }
}
