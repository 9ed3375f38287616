//! The text after a recording: samples, top functions, warnings, files written.

use owo_colors::OwoColorize as _;
use wingbeat_profiler::{
    advice::warnings,
    debuginfod::{Account, Asked, Outcome},
    export::{
        blocked::{BlockedRow, most_blocked},
        top::{Row, Top},
    },
    model::{Mode, Profile, State},
    summary::{
        BrokenIn, Summary,
        off_cpu::{OffCpu, ThreadTime},
    },
};
use wingbeat_text::{
    bytes, cut, decimal, duration, fixed, grouped, paragraph, plural, share, shortened, unbroken,
};

use crate::{
    output::print_written,
    shell::{error, message, target_text, warning},
};

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
        for warning in warnings.iter().filter(|warning| warning.is_failure) {
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
        if warning.is_failure {
            error!("{warning}");
        } else {
            warning!("{warning}");
        }
    }
    print_written(&summary.outputs);
}

fn tables(summary: &Summary, profile: &Profile) {
    if let Some(accounts) = &summary.off_cpu {
        for line in off_cpu_tables(summary, accounts, &most_blocked(profile, ROWS)) {
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
        Some(accounts) => message!("{} {}", "profile".bold(), headline(summary, accounts)),
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
    for line in summary.off_cpu.iter().flat_map(off_cpu_lines) {
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

/// Columns of a line.
const WIDTH: usize = 100;
/// Prefix of the shares by state.
const STATES: &str = "states  ";
/// Columns before the place in the table of stacks.
const PLACE_COLUMN: usize = 51;
/// Columns before the name in the table of threads.
const THREAD_COLUMN: usize = 53;
/// Threads in the table.
const THREADS: usize = 10;
/// Maximum columns of a waker's name.
const WAKER_WIDTH_MAX: usize = 16;
/// Tolerated gap between a thread's accounted and elapsed time, in percent.
const MISS_PERCENT: u32 = 1;

/// Mode, target and duration.
fn headline(summary: &Summary, off_cpu: &OffCpu) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let blocks = off_cpu.switches.reported + off_cpu.switches.still_blocked;
    let blocked_ns: u64 = off_cpu.states.values().map(|sum| sum.total_ns).sum();
    let mut text =
        format!("{} in {:.2} s, ", target_text(&summary.target), seconds(summary.duration_ns));
    if summary.mode == Mode::Wall.name() {
        let on_cpu_ns: u64 = off_cpu.threads.iter().map(|thread| thread.on_cpu_ns).sum();
        text += &format!("{:.2} s on the CPU, ", seconds(on_cpu_ns));
    }
    text += &format!("{:.2} s off it: {}", seconds(blocked_ns), plural(blocks, "block"));
    if summary.mode == Mode::Wall.name() {
        let samples = plural(summary.ticks.sampled, "sample");
        text += &format!(", {samples} at {} Hz", summary.frequency_hz);
    }
    text
}

/// Accounting of blocks, and why threads were blocked.
fn off_cpu_lines(off_cpu: &OffCpu) -> Vec<String> {
    let switches = &off_cpu.switches;
    let mut lines = vec![format!(
        "blocks  {} begun: {} reported, {} below {} ({}), {} still on,",
        switches.out + switches.born + switches.begun_before,
        switches.reported,
        switches.below_limit,
        duration(off_cpu.min_block_ns),
        duration(switches.below_limit_ns),
        switches.still_blocked,
    )];
    lines.push(format!(
        "        {} of ended threads, {} lost; {} unmatched",
        switches.ended,
        switches.lost_total(),
        switches.unmatched
    ));
    if off_cpu.idle_hidden > 0 {
        lines.push(format!("        {} hidden", plural(off_cpu.idle_hidden, "idle thread")));
    }
    let total_ns: u64 = off_cpu.states.values().map(|sum| sum.total_ns).sum();
    let mut states: Vec<(u64, String)> = State::ALL
        .iter()
        .filter_map(|state| Some((state, off_cpu.states.get(state.name())?)))
        .map(|(state, sum)| {
            (sum.total_ns, format!("{} {}", share::part(sum.total_ns, total_ns), state.title()))
        })
        .collect();
    states.sort_by_key(|(total_ns, _)| std::cmp::Reverse(*total_ns));
    if !states.is_empty() {
        let shares: Vec<String> = states.iter().map(|(_, text)| unbroken(text)).collect();
        let shares = paragraph(&shares.join(", "), STATES.len(), WIDTH - 2);
        lines.extend(format!("{STATES}{shares}").lines().map(str::to_owned));
    }
    lines
}

/// The tables after the accounting.
fn off_cpu_tables(summary: &Summary, off_cpu: &OffCpu, rows: &[BlockedRow]) -> Vec<String> {
    let mut lines = Vec::new();
    if !rows.is_empty() {
        let total_ns: u64 = off_cpu.states.values().map(|sum| sum.total_ns).sum();
        lines.push(format!("\n{}", "Most blocked time".bold()));
        lines.push("       time   share     count   longest       p99  where".to_owned());
        lines.extend(rows.iter().map(|row| blocked_line(row, total_ns)));
    }
    if summary.mode == Mode::Wall.name() && !off_cpu.threads.is_empty() {
        lines.push(format!("\n{}", "Threads".bold()));
        lines.push("    elapsed    on CPU   off CPU     below   missing  thread".to_owned());
        lines.extend(threads(&off_cpu.threads));
        if off_cpu.threads_off > 0 {
            lines.push(format!(
                "  the sums of {} differ from the elapsed time by more than {MISS_PERCENT} %",
                plural(off_cpu.threads_off, "thread")
            ));
        }
    }
    lines
}

/// The threads with most time on the CPU. If there are too many for the table, those that slept all the time are only
/// counted.
fn threads(all: &[ThreadTime]) -> Vec<String> {
    let is_short = all.len() <= THREADS;
    let mut shown: Vec<&ThreadTime> =
        all.iter().filter(|thread| is_short || !thread.idle).collect();
    shown.sort_by_key(|thread| std::cmp::Reverse(thread.on_cpu_ns));
    let mut more = Vec::new();
    if let rest @ 1.. = shown.len().saturating_sub(THREADS) {
        more.push(plural(rest, "more thread"));
    }
    if let idle @ 1.. = all.len() - shown.len() {
        more.push(format!("{} that slept all the time", plural(idle, "thread")));
    }
    let mut lines: Vec<String> = shown.into_iter().take(THREADS).map(thread_line).collect();
    if !more.is_empty() {
        lines.push(format!("  and {}", more.join(", ")));
    }
    lines
}

fn blocked_line(row: &BlockedRow, total_ns: u64) -> String {
    let state = row.state;
    let place = match row.functions.join(" < ") {
        place if !place.is_empty() => place,
        _ if state == State::Preempted.title() => "(new thread, or not seen)".to_owned(),
        _ => "(no stack)".to_owned(),
    };
    let waker = row.woken_by.as_ref();
    let waker = waker
        .map(|waker| format!(", woken by {}", cut(waker, WAKER_WIDTH_MAX)))
        .unwrap_or_default();
    // State and waker matter most: the place is shortened, in its middle, because callers distinguish equal sleeps.
    let room = (WIDTH - PLACE_COLUMN)
        .saturating_sub(state.chars().count() + 2)
        .saturating_sub(waker.chars().count());
    format!(
        "  {:>9} {:>7} {:>9} {:>9} {:>9}  {state}: {}{waker}",
        duration(row.times.total_ns),
        percent(row.times.total_ns, total_ns),
        row.times.count,
        duration(row.times.max_ns),
        duration(row.times.p99_ns),
        shortened(&place, room)
    )
}

fn thread_line(thread: &ThreadTime) -> String {
    let share = |ns: u64| percent(ns, thread.elapsed_ns);
    let missing = 100.0 * thread.unaccounted_ns as f64 / thread.elapsed_ns.max(1) as f64;
    let idle = if thread.idle { ", idle" } else { "" };
    format!(
        "  {:>9} {:>9} {:>9} {:>9} {:>9}  {}",
        duration(thread.elapsed_ns),
        share(thread.on_cpu_ns),
        share(thread.off_cpu_ns),
        share(thread.below_limit_ns),
        format!("{} %", fixed(missing, 1)),
        cut(&format!("{} ({}{idle})", thread.name, thread.tid), WIDTH - THREAD_COLUMN)
    )
}

/// With the same number of decimals in each row of a table.
fn percent(part: u64, whole: u64) -> String {
    format!("{} %", decimal(100.0 * part as f64 / whole.max(1) as f64, 1))
}

#[cfg(test)]
mod tests {
    use wingbeat_profiler::model::BlockTimes;

    use super::*;

    fn row(place: &[&str], woken_by: Option<&str>) -> BlockedRow {
        BlockedRow {
            process: "p".into(),
            state: "sleeping",
            functions: place.iter().map(|&name| name.into()).collect(),
            woken_by: woken_by.map(str::to_owned),
            times: BlockTimes {
                count: 100,
                total_ns: 2_010_000_000,
                p99_ns: 20_400_000,
                max_ns: 31_000_000,
                ..BlockTimes::default()
            },
        }
    }

    #[test]
    fn stacks_are_lines_of_at_most_100_columns() {
        let check = |row: BlockedRow, expected: &str| {
            let line = blocked_line(&row, 4_020_000_000);
            assert_eq!(line, expected);
            assert!(line.chars().count() <= WIDTH, "{} columns", line.chars().count());
        };
        check(
            row(&["clock_nanosleep", "nap"], None),
            "     2.01 s  50.0 %       100   31.0 ms   20.4 ms  sleeping: clock_nanosleep < nap",
        );
        check(
            row(&["futex"], Some("holder")),
            "     2.01 s  50.0 %       100   31.0 ms   20.4 ms  sleeping: futex, woken by holder",
        );
        check(
            row(
                &["clock_nanosleep", "<a::very::Long<'_> as of::A::Name>::x"],
                Some("a long name of 21"),
            ),
            "     2.01 s  50.0 %       100   31.0 ms   20.4 ms  sleeping: clock_…e>::x, woken by a long name of …",
        );
        check(
            row(&[], None),
            "     2.01 s  50.0 %       100   31.0 ms   20.4 ms  sleeping: (no stack)",
        );
        check(
            BlockedRow { state: State::Preempted.title(), ..row(&[], None) },
            "     2.01 s  50.0 %       100   31.0 ms   20.4 ms  preempted: (new thread, or not seen)",
        );
        check(
            row(&["read", "<a::very::Long<'_> as of::A::Name>::that_does_not_fit"], None),
            "     2.01 s  50.0 %       100   31.0 ms   20.4 ms  sleeping: read < <a::very::Lo…::that_does_not_fit",
        );
    }

    fn thread(unaccounted_ns: i64, idle: bool) -> ThreadTime {
        ThreadTime {
            pid: 7,
            tid: 8,
            name: "worker".into(),
            elapsed_ns: 1_000_000_000,
            on_cpu_ns: 300_000_000,
            off_cpu_ns: 700_000_000,
            below_limit_ns: 400_000,
            unaccounted_ns,
            idle,
        }
    }

    #[test]
    fn idle_threads_do_not_fill_the_table() {
        let check = |busy: usize, idle: usize, lines: usize, last: &str| {
            let mut all = vec![thread(0, false); busy];
            all.extend(vec![thread(0, true); idle]);
            let table = threads(&all);
            assert_eq!(table.len(), lines, "{table:#?}");
            assert!(table.last().is_some_and(|line| line.ends_with(last)), "{table:#?}");
        };
        check(1, 1, 2, "worker (8, idle)");
        check(1, 9, 10, "worker (8, idle)");
        check(1, 10, 2, "  and 10 threads that slept all the time");
        check(11, 0, 11, "  and 1 more thread");
        check(12, 1, 11, "  and 2 more threads, 1 thread that slept all the time");
    }

    #[test]
    fn threads_show_shares_of_their_time() {
        let check = |unaccounted_ns, idle, expected: &str| {
            assert_eq!(thread_line(&thread(unaccounted_ns, idle)), expected);
        };
        check(-1, false, "     1.00 s    30.0 %    70.0 %    <0.1 %     0.0 %  worker (8)");
        check(
            -12_000_000,
            true,
            "     1.00 s    30.0 %    70.0 %    <0.1 %    −1.2 %  worker (8, idle)",
        );
    }
}
