//! Are the times right? wingbeat and perf watch the same blocks at the same time, and perf's
//! timestamps say how long they were.

use std::{collections::BTreeMap, fs::File, io::BufReader, process::Command};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::{
    off_cpu::{SWITCH, script, wingbeat_command},
    parse::{perf_stats, summary, wingbeat_lost_blocks},
    process,
    record::{Agreement, Sum, ThreadReport},
    sums::{self, Sums},
    workload::Job,
};
use crate::comparison::create;

/// How the names of the sleepy target's own functions begin.
const OWN: &str = "work_sleepy::";

/// Sums below this are left out: a microsecond more or less would be much.
const SUM_MIN_NS: u64 = 10_000_000;

/// Runs the sleepy target under wingbeat under perf.
///
/// Only the threads that the target names are compared: born and gone within both recordings.
pub(super) fn both_at_once(job: &Job<'_>, round: u32) -> anyhow::Result<Agreement> {
    let data = job.file("perf.data");
    let mut command = Command::new("perf");
    // All processes, as a thread comes in while perf would else watch the one that makes way. Pages
    // enough for what the rest of the machine does.
    command.args(["record", "--quiet", "-a", "-m", "2048", "--switch-events", "-g"]);
    command.args(["-e", SWITCH, "-e", "sched:sched_wakeup_new", "-o"]).arg(&data).arg("--");
    let wingbeat = wingbeat_command(job, &["--min-block", "0"]);
    command.arg(wingbeat.get_program()).args(wingbeat.get_args());
    let (report, _) = job.launch(&mut command)?;
    let summary = summary(&job.file("summary.json"))?;

    let (_, perf_lost) = perf_stats(&data, SWITCH)?;
    let text = job.file("script.txt");
    let stdout = create(&text)?.into();
    process::run(script(&data).arg("--show-switch-events"), stdout, &job.messages())?;
    let text = BufReader::new(File::open(&text).context("perf printed no events")?);
    let tids = report.threads.iter().map(|thread| thread.tid).collect();
    let perf = sums::of_script(text, &tids, OWN)?;
    if perf.threads.is_empty() {
        bail!("perf saw no switch of the target's threads");
    }
    Ok(Agreement {
        round,
        threads: threads(&report.threads, &perf, &summary),
        functions: functions(&report.threads, &perf, &summary),
        perf_lost,
        wingbeat_lost: wingbeat_lost_blocks(&summary)?,
    })
}

/// A list about time off the CPU in wingbeat's summary.
fn rows<'a>(summary: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    summary["off_cpu"][name].as_array().into_iter().flatten()
}

fn threads(reports: &[ThreadReport], perf: &Sums, summary: &Value) -> Vec<Sum> {
    let sum = |report: &ThreadReport| {
        let ours = rows(summary, "threads").filter(|thread| thread["tid"] == report.tid);
        let ns = |thread: &Value, name: &str| thread[name].as_u64().unwrap_or(0);
        Sum {
            name: report.name.clone(),
            perf_ns: perf.threads.get(&report.tid).copied().unwrap_or(0),
            wingbeat_ns: ours
                .map(|thread| ns(thread, "off_cpu_ns") + ns(thread, "below_limit_ns"))
                .sum(),
            target_ns: Some(report.wait_for_mutex_ns + report.hold_ns + report.rest_ns),
        }
    };
    reports.iter().map(sum).filter(|sum| sum.perf_ns >= SUM_MIN_NS).collect()
}

fn functions(reports: &[ThreadReport], perf: &Sums, summary: &Value) -> Vec<Sum> {
    let mut ours: BTreeMap<&str, u64> = BTreeMap::new();
    for blocked in rows(summary, "stacks") {
        // Names of the frames, outermost first.
        let stack = blocked["stack"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(own) = stack.rev().find(|name| name.starts_with(OWN)) {
            *ours.entry(own).or_default() += blocked["total_ns"].as_u64().unwrap_or(0);
        }
    }
    let by_clock = |function: &str| {
        let time_ns = match function.strip_prefix(OWN)? {
            "wait_for_mutex" => |report: &ThreadReport| report.wait_for_mutex_ns,
            "hold" => |report: &ThreadReport| report.hold_ns,
            "rest" => |report: &ThreadReport| report.rest_ns,
            _ => return None,
        };
        Some(reports.iter().map(time_ns).sum())
    };
    let sums = perf.functions.iter().map(|(name, &perf_ns)| Sum {
        name: name.clone(),
        perf_ns,
        wingbeat_ns: ours.get(name.as_str()).copied().unwrap_or(0),
        target_ns: by_clock(name),
    });
    sums.filter(|sum| sum.perf_ns >= SUM_MIN_NS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Value {
        let text = r#"{"off_cpu": {
            "switches": {"out": 3, "lost": {}},
            "stacks": [
                {"stack": ["work_sleepy::doze", "work_sleepy::hold", "sleep", "[sleeping]"], "total_ns": 40000000},
                {"stack": ["work_sleepy::doze", "work_sleepy::hold", "[preempted]"], "total_ns": 2000000},
                {"stack": ["main", "[sleeping]"], "total_ns": 90000000}
            ],
            "threads": [
                {"tid": 7, "off_cpu_ns": 41000000, "below_limit_ns": 1000000},
                {"tid": 8, "off_cpu_ns": 5, "below_limit_ns": 0}
            ]
        }}"#;
        serde_json::from_str(text).expect("a summary")
    }

    fn sum(name: &str, perf_ms: u64, wingbeat_ms: u64, target_ms: u64) -> Sum {
        let ns = |ms| ms * 1_000_000;
        Sum {
            name: name.to_owned(),
            perf_ns: ns(perf_ms),
            wingbeat_ns: ns(wingbeat_ms),
            target_ns: Some(ns(target_ms)),
        }
    }

    #[test]
    fn threads_and_functions_are_matched() {
        let report = |name: &str, tid| ThreadReport {
            name: name.to_owned(),
            tid,
            wait_for_mutex_ns: 0,
            hold_ns: 43_000_000,
            rest_ns: 1_000_000,
        };
        let reports = [report("one", 7), report("two", 8)];
        let perf = Sums {
            threads: [(7, 42_000_000), (8, 5)].into(),
            functions: [("work_sleepy::hold".to_owned(), 42_000_000)].into(),
        };
        // The other thread slept too little to be compared.
        assert_eq!(threads(&reports, &perf, &summary()), [sum("one", 42, 42, 44)]);
        let found = functions(&reports, &perf, &summary());
        assert_eq!(found, [sum("work_sleepy::hold", 42, 42, 86)]);
    }
}
