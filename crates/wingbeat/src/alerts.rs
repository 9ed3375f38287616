//! `wingbeat alerts`: lists and dismisses alerts.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use wingbeat_text::{Block, Column, GivesWay, Look, Table, share};
use wingbeat_track::{
    model::{Alert, AlertStatus, Boundary, Limit, Measure},
    output::short_hash,
    store::{AlertFilter, StoredAlert},
};

use crate::{
    shell::{message, print_blocks, print_json},
    store::{
        FilterArgs, StoreArgs,
        id::{Part, short},
        minute, rfc3339,
    },
    values::{Format, FormatArgs},
};

/// Flags of `wingbeat alerts`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AlertsArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Also list dismissed and silenced alerts
    #[arg(long)]
    all: bool,
    /// Maximum number of alerts to list
    #[arg(short, long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    number: u32,
    #[command(flatten)]
    format: FormatArgs<Format>,
    #[command(flatten)]
    store: StoreArgs,
}

/// What becomes of alerts.
#[derive(Debug, Subcommand)]
enum Action {
    /// Settle alerts. Later alerts of the same series are still raised
    Dismiss(SettleArgs),
    /// Settle alerts with all active and later ones of their series (same branch, testbed, benchmark and
    /// measure)
    Silence(SettleArgs),
    /// Make alerts active again, with all silenced ones of their series
    Activate(SettleArgs),
}

#[derive(Debug, Args)]
struct SettleArgs {
    /// Alerts, by UUID or by digits that it begins or ends with
    #[arg(required = true, value_name = "UUID")]
    alerts: Vec<Part>,
    /// Reason to record
    #[arg(short = 'm', long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &AlertsArgs, quiet: bool) -> anyhow::Result<ExitCode> {
    match &args.action {
        None => list(args, quiet)?,
        Some(Action::Dismiss(settle)) => self::settle(settle, AlertStatus::Dismissed, quiet)?,
        Some(Action::Silence(settle)) => self::settle(settle, AlertStatus::Silenced, quiet)?,
        Some(Action::Activate(settle)) => self::settle(settle, AlertStatus::Active, quiet)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(args: &AlertsArgs, quiet: bool) -> anyhow::Result<()> {
    let store = args.store.open()?;
    let status = (!args.all).then_some(AlertStatus::Active);
    let reports = args.filter.filter(&store)?;
    let filter = AlertFilter { reports, status, ..AlertFilter::default() };
    let most = usize::try_from(args.number).unwrap_or(usize::MAX);
    let mut alerts = store.alerts(&filter, most.saturating_add(1))?;
    let is_cut = alerts.len() > most;
    alerts.truncate(most);
    if args.format.get() == Format::Json {
        return print_json(1, &JsonList { alerts: alerts.iter().map(Json::of).collect() });
    }
    if quiet {
        return Ok(());
    }
    if alerts.is_empty() {
        let (active, hint) =
            if args.all { ("", "") } else { ("active ", "; --all lists settled ones too") };
        message!("no {active}alerts in {}{hint}", store.path().display());
        return Ok(());
    }
    print_blocks(&[table(&alerts)])?;
    if is_cut {
        message!("more alerts are not shown; -n {} shows more", most.saturating_mul(5));
    }
    Ok(())
}

fn table(alerts: &[StoredAlert]) -> Block {
    let cells = |cell: &dyn Fn(&StoredAlert) -> String| alerts.iter().map(cell).collect();
    let scale = |stored: &StoredAlert| stored.measure.scale(stored.value, stored.limit());
    let is_one_project = alerts.iter().all(|alert| alert.project == alerts[0].project);
    let project = |stored: &StoredAlert| match is_one_project {
        true => String::new(),
        false => stored.project.to_string(),
    };
    let limits = cells(&|stored| {
        stored.limit().map_or_else(String::new, |limit| {
            format!("{} {}", stored.alert.limit.side(), scale(stored).with_unit(limit))
        })
    });
    let changes = cells(&|stored| stored.change().map_or_else(String::new, share::change));
    let hashes = cells(&|stored| stored.hash.as_deref().map_or("", short_hash).to_owned());
    let testbeds = cells(&|stored| stored.testbed.to_string());
    let columns = vec![
        Column::words("measure", cells(&|stored| stored.measure.label().to_owned())),
        Column::numbers("value", cells(&|stored| scale(stored).with_unit(stored.value))),
        Column::numbers("limit", limits),
        Column::numbers("change", changes),
        Column::words("alert", cells(&|stored| short(stored.alert.uuid))),
        Column::words("status", cells(&|stored| status(&stored.alert))),
        Column::words("project", cells(&project)).giving_way(GivesWay::Second),
        Column::words("branch", cells(&|stored| stored.branch.to_string()))
            .giving_way(GivesWay::Last),
        Column::words("time, UTC", cells(&|stored| minute(stored.start_time)))
            .giving_way(GivesWay::Second),
        Column::words("hash", hashes).giving_way(GivesWay::First),
        Column::words("testbed", testbeds).giving_way(GivesWay::First),
    ];
    let names = alerts.iter().map(|stored| &stored.alert.benchmark);
    let looks = alerts.iter().map(|stored| look(&stored.alert)).collect();
    Block::Table(Table::new("benchmark", names, columns).with_looks(looks))
}

/// How the line of an alert looks.
pub(crate) fn look(alert: &Alert) -> Look {
    if alert.status == AlertStatus::Active { Look::Bad } else { Look::Dim }
}

/// Status of an alert, with the reason; empty while active.
pub(crate) fn status(alert: &Alert) -> String {
    match (alert.status, &alert.reason) {
        (AlertStatus::Active, _) => String::new(),
        (status, Some(reason)) => format!("{status} ({reason})"),
        (status, None) => status.to_string(),
    }
}

fn settle(args: &SettleArgs, status: AlertStatus, quiet: bool) -> anyhow::Result<()> {
    let store = args.store.open()?;
    let all = store.alerts(&AlertFilter::default(), usize::MAX)?;
    let describe = |stored: &StoredAlert| {
        let alert = &stored.alert;
        let time = minute(stored.start_time);
        format!("{time} {}: {}, {}", stored.branch, alert.benchmark, stored.measure.label())
    };
    // Resolves all before changing any, so that a typo changes nothing.
    let mut found = Vec::new();
    for part in &args.alerts {
        let uuid =
            part.find(&all, |one| one.alert.uuid, describe, ("alert", "wingbeat alerts --all"))?;
        if !found.contains(&uuid) {
            found.push(uuid);
        }
    }
    let named: Vec<&StoredAlert> =
        all.iter().filter(|stored| found.contains(&stored.alert.uuid)).collect();
    for stored in &all {
        if found.contains(&stored.alert.uuid)
            || named.iter().any(|named| goes_along(stored, named, status))
        {
            store.set_alert_status(stored.alert.uuid, status, args.reason.clone())?;
            if !quiet {
                message!("{status}: {} {}", short(stored.alert.uuid), describe(stored));
            }
        }
    }
    Ok(())
}

/// Whether an alert follows the status change of another one of its series: a series is silenced and reactivated as a
/// whole.
fn goes_along(stored: &StoredAlert, named: &StoredAlert, status: AlertStatus) -> bool {
    let from = match status {
        AlertStatus::Silenced => AlertStatus::Active,
        AlertStatus::Active => AlertStatus::Silenced,
        AlertStatus::Dismissed => return false,
    };
    stored.alert.status == from && series(stored) == series(named)
}

/// Key of an alert's series.
fn series(stored: &StoredAlert) -> [&str; 5] {
    [
        stored.project.as_str(),
        stored.branch.as_str(),
        stored.testbed.as_str(),
        stored.alert.benchmark.as_str(),
        stored.alert.measure.as_str(),
    ]
}

/// The list as JSON. docs/formats.md describes the fields.
#[derive(Serialize)]
struct JsonList<'a> {
    alerts: Vec<Json<'a>>,
}

#[derive(Serialize)]
struct Json<'a> {
    uuid: String,
    status: AlertStatus,
    reason: Option<&'a str>,
    changed: Option<String>,
    report: String,
    start_time: String,
    project: &'a str,
    branch: &'a str,
    hash: Option<&'a str>,
    testbed: &'a str,
    iteration: u32,
    benchmark: &'a str,
    measure: &'a Measure,
    value: f64,
    limit: Limit,
    boundary: Option<Boundary>,
}

impl<'a> Json<'a> {
    fn of(stored: &'a StoredAlert) -> Self {
        let alert = &stored.alert;
        Self {
            uuid: alert.uuid.to_string(),
            status: alert.status,
            reason: alert.reason.as_deref(),
            changed: stored.changed.map(rfc3339),
            report: stored.report.to_string(),
            start_time: rfc3339(stored.start_time),
            project: stored.project.as_str(),
            branch: stored.branch.as_str(),
            hash: stored.hash.as_deref(),
            testbed: stored.testbed.as_str(),
            iteration: alert.iteration,
            benchmark: alert.benchmark.as_str(),
            measure: &stored.measure,
            value: stored.value,
            limit: alert.limit,
            boundary: stored.boundary,
        }
    }
}
