//! The text after a recording: samples, top functions, warnings, files written.

mod off_cpu;

use owo_colors::OwoColorize as _;
use wingbeat_profiler::{
    advice::warnings,
    debuginfod::{Account, Asked, Outcome},
    export::{
        blocked::most_blocked,
        top::{Row, Top},
    },
    model::{Mode, Profile},
    summary::{BrokenIn, Summary},
};
use wingbeat_text::{bytes, grouped, plural, shortened};

use crate::shell::{error, message, target_text, warning};

/// Functions per table.
const ROWS: usize = 10;
/// Longer names are cut in the middle; the files have them whole.
const NAME_WIDTH_MAX: usize = 90;

/// Prints everything to stderr, without the figures if they are printed as JSON; with `quiet` only failures.
pub(super) fn print(
    summary: &Summary,
    profile: &Profile,
    is_json: bool,
    quiet: bool,
    verbose: bool,
) {
    let samples = profile.samples.len() as u64;
    let warnings = warnings(summary, samples);
    if quiet {
        for warning in warnings.iter().filter(|warning| warning.is_failure()) {
            error!("{warning}");
        }
        return;
    }
    if !is_json {
        accounts(summary, verbose);
        tables(summary, profile);
        message!("");
    }
    for warning in &warnings {
        if warning.is_failure() {
            error!("{warning}");
        } else {
            warning!("{warning}");
        }
    }
    for output in &summary.outputs {
        message!("wrote {} ({}, {})", output.path.bold(), output.format, bytes(output.bytes));
    }
}

fn tables(summary: &Summary, profile: &Profile) {
    if let Some(accounts) = &summary.off_cpu {
        for line in off_cpu::tables(summary, accounts, &most_blocked(profile, ROWS)) {
            message!("{line}");
        }
    } else if !profile.samples.is_empty() {
        let top = Top::of(profile, ROWS);
        table("Most self time", &top.by_self, |row| row.own, profile);
        table("Most total time", &top.by_total, |row| row.total, profile);
    }
}

fn accounts(summary: &Summary, verbose: bool) {
    let Summary { ticks, stacks, own, .. } = summary;
    let seconds = |ns: u64| ns as f64 / 1e9;
    match &summary.off_cpu {
        Some(accounts) => message!("{} {}", "profile".bold(), off_cpu::headline(summary, accounts)),
        None => message!(
            "{} {} in {:.2} s, {:.2} s of CPU: {} at {} Hz",
            "profile".bold(),
            target_text(&summary.target),
            seconds(summary.duration_ns),
            seconds(summary.target_cpu_time_ns),
            plural(ticks.sampled, "sample"),
            summary.frequency_hz,
        ),
    }
    if summary.mode != Mode::OffCpu.name() {
        message!(
            "  ticks   {} sampled, {} idle, {} other processes, {} lost, {} failed, {} missed ({})",
            ticks.sampled,
            ticks.idle,
            ticks.other,
            ticks.lost,
            ticks.failed_total(),
            ticks.missed,
            plural(summary.cpus, "CPU"),
        );
    }
    message!(
        "  stacks  {} complete, {} truncated, {} broken, of {} in {}",
        stacks.complete,
        stacks.truncated,
        stacks.broken,
        plural(summary.threads, "thread"),
        plural(summary.processes, "process"),
    );
    if let Some(folded) = &summary.folded {
        message!(
            "  folded  {} of the runtime in {}: {} became {}",
            plural(folded.names.len(), "function"),
            plural(folded.samples, "stack"),
            plural(folded.functions_before, "frame"),
            grouped(folded.functions_after),
        );
    }
    for line in summary.off_cpu.iter().flat_map(off_cpu::accounts) {
        message!("  {line}");
    }
    if let Some(account) = &summary.debuginfod {
        downloads(account, verbose);
    }
    let cpu = &own.cpu_time_ns;
    message!(
        "  cost    {:.2} s of CPU ({:.2} record, {:.2} symbolize, {:.2} write), {} of memory",
        seconds(cpu.record + cpu.symbolize + cpu.write),
        seconds(cpu.record),
        seconds(cpu.symbolize),
        seconds(cpu.write),
        bytes(own.rss_max_bytes),
    );
    if let Some(signal) = summary.exit_status.filter(|status| *status > 128) {
        message!("  command ended by signal {}", signal - 128);
    }
    if verbose {
        details(summary);
    }
}

/// Details for `-v`.
fn details(summary: &Summary) {
    for BrokenIn { reason, file, count, .. } in &summary.stacks.broken_by_file {
        message!("  broken  {count} by {reason} in {file}");
    }
    if let Some(tables) = &summary.unwind.tables {
        message!(
            "  tables  {} in {} of kernel memory, {} evicted; {} copied",
            plural(tables.files, "file"),
            bytes(tables.bytes),
            tables.evicted,
            plural(summary.unwind.copied, "stack"),
        );
    }
    for (error, count) in &summary.ticks.failed {
        message!("  failed  {count} with {error}");
    }
    message!("  kernel  {}", summary.kernel);
}

/// Results of debuginfod requests.
fn downloads(account: &Account, verbose: bool) {
    let count = |outcome| account.count(outcome);
    message!(
        "  debug   {} downloaded ({}), {} cached, {} on no server, {} failed",
        plural(count(Outcome::Downloaded), "file"),
        bytes(account.bytes),
        count(Outcome::Cached),
        count(Outcome::NotFound),
        count(Outcome::Failed),
    );
    if verbose {
        for Asked { path, build_id, outcome, error } in &account.files {
            match error {
                Some(error) => message!("  debug   {path} ({build_id}): {error}"),
                None => message!("  debug   {path} ({build_id}): {outcome}"),
            }
        }
    }
}

fn table(title: &str, rows: &[Row], count: impl Fn(&Row) -> u64, profile: &Profile) {
    message!("\n{}", title.bold());
    for row in rows {
        let samples = count(row);
        let ms = samples * profile.meta.period / 1_000_000;
        let percent = 100.0 * samples as f64 / profile.samples.len() as f64;
        message!("  {percent:5.1} %  {ms:>7} ms  {}", shortened(&row.name, NAME_WIDTH_MAX));
    }
}
