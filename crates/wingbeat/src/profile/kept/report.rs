//! The text about saved windows: amount, time range, services, and top functions.

use std::{collections::BTreeMap, time::Duration};

use owo_colors::OwoColorize as _;
use wingbeat_profiler::{
    export::top::{Row, Top},
    model::{Mode, Profile},
    summary::Output,
};
use wingbeat_text::{bytes, duration, plural, shortened};

use crate::shell::message;

/// Rows of a table.
const ROWS: usize = 10;
/// Longer names are cut in the middle; the files have them whole.
const NAME_WIDTH_MAX: usize = 90;

pub(super) fn print(profile: &Profile, covered: (usize, Duration), outputs: &[Output]) {
    let meta = &profile.meta;
    let mut by_process: BTreeMap<u32, u64> = BTreeMap::new();
    for sum in &profile.sums {
        *by_process.entry(sum.thread).or_default() += value(profile, sum.weight);
    }
    let total: u64 = by_process.values().sum();
    let rate = match meta.mode {
        Mode::OnCpu => format!(" at {} Hz", meta.frequency_hz),
        _ => String::new(),
    };
    message!(
        "{} {}: {} of {}{rate}",
        "profile".bold(),
        meta.target,
        amount(meta.mode, total),
        meta.mode.name()
    );
    let (windows, time) = covered;
    message!(
        "  {}, with profiles of {} in {}",
        plural(windows as u64, "window"),
        whole_seconds(time),
        whole_seconds(Duration::from_nanos(meta.duration_ns)),
    );
    let mut processes: Vec<(u32, u64)> = by_process.into_iter().collect();
    processes.sort_by_key(|(_, value)| std::cmp::Reverse(*value));
    message!("\n{} ({})", "Most by service".bold(), processes.len());
    for (id, value) in processes.into_iter().take(ROWS) {
        let name = profile.processes.get(id as usize).map_or("", |it| it.name.as_str());
        line(meta.mode, (value, total), name);
    }
    let top = Top::of(profile, ROWS);
    // Tables convert samples to time, like those after a recording.
    let unit = if meta.mode == Mode::OnCpu { meta.period } else { 1 };
    let table = |title: &str, rows: &[Row], of: fn(&Row) -> u64| {
        message!("\n{}", title.bold());
        for row in rows {
            line(
                meta.mode,
                (of(row).saturating_mul(unit), top.total.saturating_mul(unit)),
                &row.name,
            );
        }
    };
    table("Most in the function itself", &top.by_self, |row| row.own);
    table("Most in the function and what it called", &top.by_total, |row| row.total);
    message!("");
    for output in outputs {
        message!("wrote {} ({}, {})", output.path.bold(), output.format, bytes(output.bytes));
    }
}

fn whole_seconds(time: Duration) -> impl std::fmt::Display {
    humantime::format_duration(Duration::from_secs(time.as_secs_f64().round() as u64))
}

/// On-CPU time instead of samples: rates may differ.
fn value(profile: &Profile, weight: wingbeat_profiler::model::Weight) -> u64 {
    match profile.meta.mode {
        Mode::OnCpu => weight.on_cpu_ns,
        mode => weight.value(mode),
    }
}

fn amount(mode: Mode, value: u64) -> String {
    match mode {
        Mode::OnCpu | Mode::OffCpu | Mode::Wall => duration(value),
        Mode::Heap | Mode::Pages => bytes(value),
    }
}

fn line(mode: Mode, (value, total): (u64, u64), name: &str) {
    let percent = 100.0 * value as f64 / total.max(1) as f64;
    message!("  {percent:5.1} %  {:>9}  {}", amount(mode, value), shortened(name, NAME_WIDTH_MAX));
}
