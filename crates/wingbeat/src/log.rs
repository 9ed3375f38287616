//! `wingbeat log`: lists a store's reports, newest first, or prints a whole report.

mod json;
mod report;

use std::{collections::HashMap, process::ExitCode};

use wingbeat_text::{Block, Line, Look, Side, Span, line, row};
use wingbeat_track::{
    explain,
    model::{BranchName, ProjectName, StartPoint},
    store::{Check, Damaged, ReportFilter, ReportSummary, Store},
};

use crate::{
    shell::{message, print, print_blocks, print_json, row_width},
    store::{
        FilterArgs, StoreArgs,
        id::{Part, short},
        minute, report as report_of, sources,
    },
    values::{Format, FormatArgs},
};

/// Flags of `wingbeat log`.
#[derive(Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// Report to show in full: its UUID, or digits that it begins or ends with
    #[arg(value_name = "UUID", conflicts_with_all = ["project", "branch", "testbed", "since", "number"])]
    report: Option<Part>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Verify the whole store, and list damaged parts: each report by its digest, each profile by its hash; the
    /// file, its indexes and references by SQLite. Not found: a deleted report, and a change of an alert's later
    /// status, of a withdrawal, or of the description of a profile
    #[arg(long, conflicts_with_all = ["report", "project", "branch", "testbed", "since", "number"])]
    check: bool,
    /// Maximum number of reports to list
    #[arg(short, long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    number: u32,
    #[command(flatten)]
    format: FormatArgs<Format>,
    #[command(flatten)]
    store: StoreArgs,
}

/// A report in the list.
struct Entry {
    summary: ReportSummary,
    start_point: Option<StartPoint>,
    /// Environment changes since the previous report on the same testbed.
    news: Vec<String>,
}

/// Lists, or prints one.
pub(crate) fn run(args: &LogArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    if args.check {
        return check(&args.store.open()?, args.format.get(), quiet);
    }
    let store = args.store.open()?;
    match &args.report {
        Some(part) => show(&store, part, args.format.get(), quiet)?,
        None => list(&store, args, quiet)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show(store: &Store, part: &Part, format: Format, quiet: bool) -> anyhow::Result<()> {
    let report = report_of(store, part)?;
    if quiet && format == Format::Human {
        return Ok(());
    }
    let profiles = store.profiles(report.uuid)?;
    let explained = explain::of_report(store, &report, &sources()?)?;
    match format {
        Format::Human => print_blocks(&report::blocks(&report, &profiles, &explained, row_width())),
        Format::Json => {
            print_json(json::SCHEMA_VERSION, &json::Whole { report: &report, profiles, explained })
        }
    }
}

fn list(store: &Store, args: &LogArgs, quiet: bool) -> anyhow::Result<()> {
    let filter = args.filter.filter(store)?;
    let most = usize::try_from(args.number).unwrap_or(usize::MAX);
    let entries = entries(store, store.reports(&filter, most.saturating_add(1))?, most)?;
    if args.format.get() == Format::Json {
        return json::print(entries.iter().take(most));
    }
    if quiet {
        return Ok(());
    }
    if entries.is_empty() {
        message!("no reports in {}", store.path().display());
        return Ok(());
    }
    let is_cut = entries.len() > most;
    print_blocks(&[table(&entries[..entries.len().min(most)], row_width())])?;
    if is_cut {
        message!("older reports are not shown; -n {} shows more", most.saturating_mul(5));
    }
    Ok(())
}

/// The reports with data beyond their summaries. The extra one beyond `most` only serves for comparison.
fn entries(
    store: &Store,
    summaries: Vec<ReportSummary>,
    most: usize,
) -> anyhow::Result<Vec<Entry>> {
    let mut start_points: HashMap<(ProjectName, BranchName), Option<(u32, StartPoint)>> =
        HashMap::new();
    let mut entries = Vec::with_capacity(summaries.len());
    for (index, summary) in summaries.iter().enumerate() {
        let key = (summary.project.clone(), summary.branch.clone());
        if !start_points.contains_key(&key) {
            let head = store.branch_head(&key.0, &key.1)?;
            let start = head.and_then(|head| Some((head.epoch, head.start_point?)));
            start_points.insert(key.clone(), start);
        }
        // For an earlier epoch, the report itself has the branch's start point.
        let start = start_points[&key].as_ref().filter(|(epoch, _)| *epoch == summary.epoch);
        let is_same = |other: &&ReportSummary| {
            other.testbed == summary.testbed && other.project == summary.project
        };
        let news = match summaries[index + 1..].iter().find(is_same) {
            Some(before) => summary.environment.changes_since(&before.environment),
            None if index < most => news_since_unlisted(store, summary)?,
            None => Vec::new(),
        };
        let start_point = start.map(|(_, start)| start.clone());
        entries.push(Entry { summary: summary.clone(), start_point, news });
    }
    Ok(entries)
}

/// Changes since the previous report of the same testbed, which is not listed.
fn news_since_unlisted(store: &Store, summary: &ReportSummary) -> anyhow::Result<Vec<String>> {
    let filter = ReportFilter {
        testbed: Some(summary.testbed.clone()),
        until: Some(summary.start_time),
        ..ReportFilter::of(&summary.project)
    };
    let two = store.reports(&filter, 2)?;
    let before = two.iter().find(|one| one.uuid != summary.uuid);
    Ok(before
        .map_or_else(Vec::new, |before| summary.environment.changes_since(&before.environment)))
}

/// Digits of a commit to show.
const HASH_LENGTH: usize = 10;

/// Terminal width from which the start point fits next to the branch.
const WIDE: usize = 120;

/// The reports, with start points beside branches if `width` permits.
fn table(entries: &[Entry], width: usize) -> Block {
    let is_wide = width >= WIDE;
    let head = [
        ("time, UTC", Side::Left),
        ("report", Side::Left),
        ("project", Side::Name),
        ("branch", Side::Name),
        ("hash", Side::Left),
        ("testbed", Side::Name),
        ("metrics", Side::Right),
        ("alerts", Side::Right),
        ("notes", Side::Left),
    ];
    let is_one_project =
        entries.iter().all(|one| one.summary.project == entries[0].summary.project);
    let of_entry = |Entry { summary, start_point, news }: &Entry| {
        let project = if is_one_project { "" } else { summary.project.as_str() };
        let hash: String =
            summary.hash.iter().flat_map(|hash| hash.chars()).take(HASH_LENGTH).collect();
        let start = start_point.as_ref().map(|start| format!("from {}", start.branch));
        let mut notes = notes(summary, news);
        let mut branch = summary.branch.to_string();
        match start {
            Some(start) if is_wide => branch += &format!(" ({start})"),
            // The branch needs the room; notes are below.
            Some(start) => notes.insert(0, start),
            None => {}
        }
        let mut cells = row([
            minute(summary.start_time),
            short(summary.uuid),
            project.to_owned(),
            branch,
            hash,
            summary.testbed.to_string(),
            summary.metrics.to_string(),
        ]);
        cells.extend([alerts(summary), line(notes.join("; "))]);
        cells
    };
    Block::Rows(head.to_vec(), entries.iter().map(of_entry).collect())
}

/// Active alerts, of all raised.
fn alerts(summary: &ReportSummary) -> Line {
    let active = Span::new(Look::Bad, summary.active_alerts);
    match (summary.active_alerts, summary.alerts) {
        (0, 0) => line("–"),
        (0, all) => line(format!("0 of {all}")),
        (active_alerts, all) if active_alerts == all => vec![active],
        (_, all) => vec![active, Span::text(format!(" of {all}"))],
    }
}

fn notes(summary: &ReportSummary, news: &[String]) -> Vec<String> {
    let mut notes = Vec::new();
    match summary.failures {
        0 => {}
        1 => notes.push("1 benchmark failed".to_owned()),
        failures => notes.push(format!("{failures} benchmarks failed")),
    }
    if let Some(other) = summary.confirms {
        notes.push(format!("confirms {}", short(other)));
    }
    if summary.iterations > 1 {
        notes.push(format!("{} iterations", summary.iterations));
    }
    notes.extend(news.iter().cloned());
    notes
}

/// Verifies a store. The exit code is 1 if something is damaged.
fn check(store: &Store, format: Format, quiet: bool) -> anyhow::Result<ExitCode> {
    let found = store.check()?;
    let is_whole = found.damaged.is_empty();
    match format {
        Format::Json => print_json(json::SCHEMA_VERSION, &found)?,
        Format::Human => print(&damage_list(&found.damaged))?,
    }
    if !quiet || !is_whole {
        message!("{}", check_summary(&found, &store.path().display().to_string()));
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One line per damaged part.
fn damage_list(damaged: &[Damaged]) -> String {
    let line = |Damaged { report, what }: &Damaged| match report {
        Some(report) => format!("report {report}: {what}\n"),
        None => format!("{what}\n"),
    };
    damaged.iter().map(line).collect()
}

fn check_summary(check: &Check, path: &str) -> String {
    let Check { reports, whole_reports, metrics, alert_changes, withdrawals, profiles, damaged } =
        check;
    if damaged.is_empty() {
        return format!(
            "{path} is whole: {reports} reports with {metrics} metrics, {alert_changes} changes of alerts, \
             {withdrawals} withdrawals and {profiles} profiles"
        );
    }
    format!(
        "{path} is damaged. {whole_reports} of the {reports} reports that were found are undamaged: \
         `wingbeat export DIR` saves them and names the others. Then move the store away and create a new \
         one with `wingbeat import DIR`; lost reports may be in an earlier export or a backup"
    )
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use unicode_width::UnicodeWidthStr as _;
    use uuid::Uuid;
    use wingbeat_text::{Style, human};
    use wingbeat_track::{adapter::Adapter, model::Environment};

    use super::*;

    fn entry(branch: &str, testbed: &str, start: Option<&str>) -> Entry {
        let summary = ReportSummary {
            uuid: Uuid::nil(),
            project: "p".parse().expect("a name"),
            branch: branch.parse().expect("a name"),
            hash: Some("0123456789abcdef".to_owned()),
            epoch: 0,
            testbed: testbed.parse().expect("a name"),
            start_time: OffsetDateTime::UNIX_EPOCH,
            end_time: OffsetDateTime::UNIX_EPOCH,
            adapter: Adapter::Json,
            environment: Environment::default(),
            iterations: 1,
            metrics: 12,
            failures: 0,
            alerts: 2,
            active_alerts: 1,
            confirms: None,
        };
        let start_point = start.map(|branch| StartPoint {
            branch: branch.parse().expect("a name"),
            hash: None,
            until: None,
            max_versions: 255,
        });
        Entry { summary, start_point, news: vec!["kernel Linux 6.12 → Linux 6.18".to_owned()] }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let branch = "feature/a-name-that-goes-on-for-long";
        let entries = [
            entry(branch, "ci-runner-with-a-long-name", Some("release/2026-11")),
            entry("main", "ci-runner-with-a-long-name", None),
        ];
        for width in [80, 100, 120, 160, usize::MAX] {
            let style = Style { width, ..Style::default() };
            let text = human(&[table(&entries, width)], style);
            assert!(text.lines().all(|line| line.width() <= width), "{width}:\n{text}");
            assert!(text.contains("from release/2026-11") || width == 120, "{width}:\n{text}");
            assert_eq!(text.contains(branch), width >= 160, "{width}:\n{text}");
        }
    }

    #[test]
    fn one_line_each() {
        let whole = |what: &str| Damaged { report: None, what: what.to_owned() };
        let of_report = Damaged { report: Some(Uuid::nil()), ..whole("it differs") };
        assert_eq!(
            damage_list(&[whole("an index is broken"), of_report]),
            "an index is broken\nreport 00000000-0000-0000-0000-000000000000: it differs\n"
        );
    }
}
