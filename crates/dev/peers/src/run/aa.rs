//! Real benchmarks beside neighbours that come and go. Each round begins with an empty store, and the
//! same code is measured five times, each time as a new commit: how often does `--err` fail with one to
//! four reports of history? And, so that this cannot be reached by never failing: how often is code that
//! does twice the work found?

use std::{
    fs,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;

use super::{
    neighbours::Neighbours,
    scratch::{self, Said, Scratch},
};
use crate::{OUT, bench::Origin, measure, numbers::Share, tables::Table};
use wingbeat_steps::{
    command::{cargo, repository},
    marked,
    steps::Steps,
};

/// The marks around the table.
const MARKS: &str = "peers run aa";

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
    /// The wingbeat to test [default: a release build of this tree]
    #[arg(long, value_name = "FILE")]
    wingbeat: Option<PathBuf>,
    /// Also write the table into this file, between its marks
    #[arg(long, value_name = "FILE")]
    markdown: Vec<PathBuf>,
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
    /// Whether its code did twice the work.
    is_doubled: bool,
    failed: bool,
    looked_worse: bool,
    is_open: bool,
}

/// Measures, and tells.
pub(super) fn run(args: &AaArgs) -> anyhow::Result<ExitCode> {
    let wingbeat = match &args.wingbeat {
        Some(program) => fs::canonicalize(program)
            .with_context(|| format!("cannot find {}", program.display()))?,
        None => {
            Steps::default().run(cargo().args(["build", "--release", "-p", "wingbeat"]))?;
            repository().join("target/release/wingbeat")
        }
    };
    let bench = scratch::build()?;
    let stop = measure::stop_on_signals()?;
    let mut record = Record { origin: Origin::now(), ..Record::default() };
    let begin = Instant::now();
    let neighbours = Neighbours::start();
    for round in 0..args.rounds {
        let found =
            Scratch::new(&wingbeat, &bench).and_then(|scratch| self::round(&scratch, round));
        if stop.load(Ordering::Relaxed) {
            break;
        }
        record.reports.extend(found?);
        record.rounds += 1;
        let (same, doubled) = (failed(&record, false), failed(&record, true));
        eprintln!(
            "round {}, {} s: {} of {} failed with the same code, {} of {} with twice the work",
            round + 1,
            seconds(begin.elapsed()),
            same.hits,
            same.of,
            doubled.hits,
            doubled.of
        );
    }
    drop(neighbours);
    record.took_s = begin.elapsed().as_secs_f64();
    finish(&record, args, record.rounds < args.rounds)
}

/// One round: a report without history, four with one to four, and perhaps one that has to be found.
fn round(scratch: &Scratch<'_>, round: u32) -> anyhow::Result<Vec<Report>> {
    let mut reports = Vec::new();
    let report = |history, is_doubled, said: Said| {
        let Said { failed, looked_worse, is_open } = said;
        Report { history, is_doubled, failed, looked_worse, is_open }
    };
    let doubled_after =
        round.is_multiple_of(DOUBLED_EACH).then_some(round / DOUBLED_EACH % HISTORY_MAX + 1);
    for history in 0..=HISTORY_MAX {
        if doubled_after == Some(history) {
            scratch.commit(2, "Do twice the work")?;
            reports.push(report(history, true, scratch.measure(true)?));
            scratch.forget_commit()?;
        }
        scratch.commit(1, &format!("Change nothing, {history}"))?;
        let said = scratch.measure(false)?;
        if history > 0 {
            reports.push(report(history, false, said));
        }
    }
    Ok(reports)
}

fn finish(record: &Record, args: &AaArgs, is_stopped: bool) -> anyhow::Result<ExitCode> {
    let out = repository().join(OUT);
    fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let file = out.join("run-aa.json");
    let json = serde_json::to_string_pretty(record).context("cannot turn the figures into JSON")?;
    fs::write(&file, json).with_context(|| format!("cannot write {}", file.display()))?;
    let text = text(record);
    println!("{text}");
    eprintln!("wrote all figures to {}", file.display());
    if is_stopped {
        eprintln!("stopped early: no other file was written");
        return Ok(ExitCode::FAILURE);
    }
    for file in &args.markdown {
        marked::write(file, MARKS, &text)?;
        eprintln!("wrote the table into {}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn text(record: &Record) -> String {
    let same = failed(record, false);
    let bounds = same
        .interval()
        .map_or_else(String::new, |(_, high)| format!(" (95 %: at most {})", percent(high)));
    format!(
        "{}\n{} rounds in {:.0} minutes. The same code failed {} of {} times{bounds}; the goal is at most \
         {}: {}. Twice the work was found {} of {} times.\n\n{}",
        record.origin.text(),
        record.rounds,
        record.took_s / 60.0,
        same.hits,
        same.of,
        percent(FALSE_MAX),
        goal(same),
        failed(record, true).hits,
        failed(record, true).of,
        table(record).to_markdown()
    )
}

fn table(record: &Record) -> Table {
    let row = |history: u32| {
        let count = |is_doubled: bool, what: fn(&Report) -> bool| {
            let all = record.reports.iter().filter(|it| it.history == history);
            let all = all.filter(|it| it.is_doubled == is_doubled);
            all.filter(|it| what(it)).count().to_string()
        };
        vec![
            history.to_string(),
            count(false, |_| true),
            count(false, |it| it.looked_worse),
            count(false, |it| it.is_open),
            count(false, |it| it.failed),
            count(true, |_| true),
            count(true, |it| it.failed),
        ]
    };
    let head = vec![
        "reports of history",
        "same code: reports",
        "looked worse by samples",
        "left open",
        "failed",
        "twice the work: reports",
        "found",
    ];
    Table::new(head, (1..=HISTORY_MAX).map(row).collect())
}

fn failed(record: &Record, is_doubled: bool) -> Share {
    let reports = record.reports.iter().filter(|report| report.is_doubled == is_doubled);
    Share { hits: reports.clone().filter(|report| report.failed).count(), of: reports.count() }
}

/// A few reports prove nothing: the whole interval has to lie on one side.
fn goal(same: Share) -> &'static str {
    match same.interval() {
        Some((_, high)) if high <= FALSE_MAX => "reached",
        Some((low, _)) if low > FALSE_MAX => "**missed**",
        _ => "open, too few reports",
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

fn seconds(time: Duration) -> String {
    format!("{:.0}", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(history: u32, is_doubled: bool, failed: bool) -> Report {
        Report { history, is_doubled, failed, looked_worse: failed, is_open: false }
    }

    #[test]
    fn goals() {
        let check = |hits, of, expected| assert_eq!(goal(Share { hits, of }), expected);
        check(0, 0, "open, too few reports");
        check(0, 320, "open, too few reports");
        check(0, 800, "reached");
        check(1, 800, "open, too few reports");
        check(9, 320, "**missed**");
    }

    #[test]
    fn the_text_counts_both_kinds() {
        let reports = vec![
            report(1, false, false),
            report(1, false, true),
            report(2, false, false),
            report(2, true, true),
        ];
        let record = Record { rounds: 1, reports, ..Record::default() };
        let text = text(&record);
        assert!(
            text.contains("The same code failed 1 of 3 times (95 %: at most 79.23 %)"),
            "{text}"
        );
        assert!(text.contains("Twice the work was found 1 of 1 times."), "{text}");
        let row = text.lines().find(|line| line.starts_with("| 1 ")).expect("a row");
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[1..8], ["1", "2", "1", "0", "1", "0", "0"]);
    }
}
