//! What an allocation costs the program that is watched.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use super::{
    Bed, said,
    target::{Pace, Target},
    wingbeat::{ANY_BUDGET, Watcher},
};
use crate::tools;

/// The rate of the goal, allocations a second.
pub(super) const RATE: u64 = 100_000;

/// What watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Tool {
    Alone,
    Sampled,
    Exact,
    Heaptrack,
    Memleak,
}

pub(super) const TOOLS: [Tool; 5] =
    [Tool::Alone, Tool::Sampled, Tool::Exact, Tool::Heaptrack, Tool::Memleak];

impl Tool {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Alone => "nothing",
            Self::Sampled => "`wingbeat heap`",
            Self::Exact => "`wingbeat heap --exact`",
            Self::Heaptrack => "`heaptrack`, from the start",
            Self::Memleak => "`memleak-bpfcc`",
        }
    }
}

/// A tool at a rate, over the rounds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Slow {
    pub(super) tool: Tool,
    /// 0: as many as it can.
    pub(super) rate: u64,
    pub(super) note: Option<String>,
    /// CPU time of the target for an allocation and the free that belongs to it, nanoseconds.
    pub(super) ns: Vec<f64>,
    pub(super) per_second: Vec<f64>,
}

pub(super) fn slowdown(bed: &Bed<'_>) -> anyhow::Result<Vec<Slow>> {
    let mut rows = Vec::new();
    for rate in [RATE, 0] {
        for tool in TOOLS {
            let row = Slow { tool, rate, note: None, ns: Vec::new(), per_second: Vec::new() };
            rows.push(row);
        }
    }
    for round in 0..bed.args.rounds() {
        for row in &mut rows {
            if bed.stop.is_asked() {
                return Ok(rows);
            }
            if let Err(error) = measure(bed, row) {
                row.note = Some(format!("{error:#}"));
            }
            let ns = row.ns.last().copied().unwrap_or(f64::NAN);
            eprintln!("round {}, {}, rate {}: {ns:.0} ns", round + 1, row.tool.name(), row.rate);
        }
    }
    Ok(rows)
}

fn measure(bed: &Bed<'_>, row: &mut Slow) -> anyhow::Result<()> {
    let mut under = Command::new("env");
    let program = match row.tool {
        Tool::Heaptrack => "heaptrack",
        Tool::Memleak => "memleak-bpfcc",
        _ => "env",
    };
    ensure!(tools::find(program).is_ok(), "not installed");
    if row.tool == Tool::Heaptrack {
        under = Command::new("heaptrack");
        under.arg("-o").arg(bed.folder.file("slow"));
    }
    let target =
        Target::start(&bed.folder, &under, Pace { rate: row.rate, forget: 0, threads: 1 })?;
    let watcher = watch(bed, row.tool, &target)?;
    let (ns, per_second) = window(&target, bed.args.window())?;
    row.ns.push(ns);
    row.per_second.push(per_second);
    if let Some(watcher) = watcher {
        let said = watcher.stop();
        if row.tool != Tool::Memleak {
            let losses = said::losses(&said?);
            row.note = (!losses.is_empty()).then(|| losses.join("; "));
        }
    }
    // heaptrack's own end may take longer than ours.
    drop(target);
    Ok(())
}

/// Attaches, and waits until the probes are there and what is measured first is over.
fn watch(bed: &Bed<'_>, tool: Tool, target: &Target) -> anyhow::Result<Option<Watcher>> {
    let pid = target.pid().to_string();
    let mut command = match tool {
        Tool::Alone | Tool::Heaptrack => {
            thread::sleep(Duration::from_secs(1));
            return Ok(None);
        }
        Tool::Sampled | Tool::Exact => bed.heap(),
        Tool::Memleak => Command::new("memleak-bpfcc"),
    };
    match tool {
        Tool::Memleak => command.args(["-p", &pid, "1"]).env("PYTHONUNBUFFERED", "1"),
        Tool::Exact => command.args(ANY_BUDGET).args(["--pid", &pid, "--exact"]),
        _ => command.args(ANY_BUDGET).args(["--pid", &pid]),
    };
    let before = target.code()?;
    let mut watcher = Watcher::start(&mut command, &bed.folder.file("said"))?;
    watcher.wait_until(|it| match tool {
        Tool::Memleak => Ok(it.said().contains("Top 10 stacks")),
        _ => Ok(target.code()? != before),
    })?;
    thread::sleep(Duration::from_secs(1));
    Ok(Some(watcher))
}

/// CPU time for an allocation, and allocations a second.
fn window(target: &Target, length: Duration) -> anyhow::Result<(f64, f64)> {
    let (begin, count, cpu_ns) = (Instant::now(), target.count(), target.cpu_ns()?);
    thread::sleep(length);
    let allocations = target.count().saturating_sub(count);
    let cpu_ns = target.cpu_ns()?.saturating_sub(cpu_ns);
    let seconds = begin.elapsed().as_secs_f64();
    ensure!(allocations > 0, "the target stands still");
    Ok((cpu_ns as f64 / allocations as f64, allocations as f64 / seconds))
}
