//! The text after a recording: samples, top functions, warnings, files written.

use std::iter;

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
    Block, Line, Side, bytes, cut, decimal, duration, fixed, grouped, line, plural, row, share,
    unbroken,
};

use crate::{
    output::written,
    shell::{error, message, recorded, target_text, tell, titled},
};

/// Functions per table.
const ROWS: usize = 10;

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
    let (failures, warnings): (Vec<_>, Vec<_>) = warnings.into_iter().partition(|it| it.is_failure);
    let figures = match is_json || quiet {
        true => Vec::new(),
        false => iter::once(accounts(summary, verbose)).chain(tables(summary, profile)).collect(),
    };
    tell(&figures);
    if !figures.is_empty() {
        message!("");
    }
    failures.iter().for_each(|failure| error!("{failure}"));
    if !quiet {
        let warnings = Block::Warning(warnings.iter().map(line).collect());
        tell(&[Block::Section(vec![warnings, written(&summary.outputs)])]);
    }
}

fn tables(summary: &Summary, profile: &Profile) -> Vec<Block> {
    if let Some(accounts) = &summary.off_cpu {
        return off_cpu_tables(summary, accounts, &most_blocked(profile, ROWS));
    }
    let top = Top::of(profile, ROWS);
    vec![
        table("Most self time", &top.by_self, |row| row.own, profile),
        table("Most total time", &top.by_total, |row| row.total, profile),
    ]
}

fn accounts(summary: &Summary, verbose: bool) -> Block {
    let Summary { ticks, stacks, own, .. } = summary;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let head = match &summary.off_cpu {
        Some(accounts) => headline(summary, accounts),
        None => format!(
            "{} in {:.2} s, {:.2} s of CPU: {} at {} Hz",
            target_text(&summary.target),
            seconds(summary.duration_ns),
            seconds(summary.target_cpu_time_ns),
            plural(ticks.sampled, "sample"),
            summary.frequency_hz,
        ),
    };
    let mut facts = Vec::new();
    if summary.mode != Mode::OffCpu.name() {
        let text = format!(
            "{} sampled, {} idle, {} other processes, {} lost, {} failed, {} missed ({})",
            ticks.sampled,
            ticks.idle,
            ticks.other,
            ticks.lost,
            ticks.failed_total(),
            ticks.missed,
            plural(summary.cpus, "CPU"),
        );
        facts.push(("ticks", text));
    }
    let text = format!(
        "{} complete, {} truncated, {} broken, of {} in {}",
        stacks.complete,
        stacks.truncated,
        stacks.broken,
        plural(summary.threads, "thread"),
        plural(summary.processes, "process"),
    );
    facts.push(("stacks", text));
    if let Some(folded) = &summary.folded {
        let text = format!(
            "{} of the runtime in {}: {} became {}",
            plural(folded.names.len(), "function"),
            plural(folded.samples, "stack"),
            plural(folded.functions_before, "frame"),
            grouped(folded.functions_after),
        );
        facts.push(("folded", text));
    }
    facts.extend(summary.off_cpu.iter().flat_map(off_cpu_facts));
    facts.extend(summary.debuginfod.iter().flat_map(|account| downloads(account, verbose)));
    let cpu = &own.cpu_time_ns;
    let text = format!(
        "{:.2} s of CPU ({:.2} record, {:.2} symbolize, {:.2} write), {} of memory",
        seconds(cpu.record + cpu.symbolize + cpu.write),
        seconds(cpu.record),
        seconds(cpu.symbolize),
        seconds(cpu.write),
        bytes(own.rss_max_bytes),
    );
    facts.push(("cost", text));
    if let Some(signal) = summary.exit_status.filter(|status| *status > 128) {
        facts.push(("command", format!("ended by signal {}", signal - 128)));
    }
    if verbose {
        facts.extend(details(summary));
    }
    recorded("profile", &head, facts)
}

/// Details for `-v`.
fn details(summary: &Summary) -> Vec<(&'static str, String)> {
    let broken = |BrokenIn { reason, file, count, .. }: &BrokenIn| {
        ("broken", format!("{count} by {reason} in {file}"))
    };
    let mut facts: Vec<_> = summary.stacks.broken_by_file.iter().map(broken).collect();
    if let Some(tables) = &summary.unwind.tables {
        let text = format!(
            "{} in {} of kernel memory, {} evicted; {} copied",
            plural(tables.files, "file"),
            bytes(tables.bytes),
            tables.evicted,
            plural(summary.unwind.copied, "stack"),
        );
        facts.push(("tables", text));
    }
    let failed = summary.ticks.failed.iter();
    facts.extend(failed.map(|(error, count)| ("failed", format!("{count} with {error}"))));
    facts.push(("kernel", summary.kernel.clone()));
    facts
}

/// Results of debuginfod requests.
fn downloads(account: &Account, verbose: bool) -> Vec<(&'static str, String)> {
    let count = |outcome| account.count(outcome);
    let sum = format!(
        "{} downloaded ({}), {} cached, {} on no server, {} failed",
        plural(count(Outcome::Downloaded), "file"),
        bytes(account.bytes),
        count(Outcome::Cached),
        count(Outcome::NotFound),
        count(Outcome::Failed),
    );
    let files = account.files.iter().filter(|_| verbose);
    let files = files.map(|Asked { path, build_id, outcome, error }| match error {
        Some(error) => format!("{path} ({build_id}): {error}"),
        None => format!("{path} ({build_id}): {outcome}"),
    });
    iter::once(sum).chain(files).map(|text| ("debug", text)).collect()
}

/// Columns of a table of shares, without headings.
pub(super) const SHARES: [(&str, Side); 3] =
    [("", Side::Right), ("", Side::Right), ("", Side::Name)];

fn table(title: &str, rows: &[Row], count: impl Fn(&Row) -> u64, profile: &Profile) -> Block {
    let all = profile.samples.len() as u64;
    let line = |function: &Row| {
        let samples = count(function);
        let ms = samples * profile.meta.period / 1_000_000;
        row([percent(samples, all), format!("{ms} ms"), function.name.to_string()])
    };
    titled(title, &SHARES, rows.iter().map(line).collect())
}

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
fn off_cpu_facts(off_cpu: &OffCpu) -> Vec<(&'static str, String)> {
    let switches = &off_cpu.switches;
    let mut blocks = format!(
        "{} begun: {} reported, {} below {} ({}), {} still on, {} of ended threads, {} lost; {} unmatched",
        switches.out + switches.born + switches.begun_before,
        switches.reported,
        switches.below_limit,
        duration(off_cpu.min_block_ns),
        duration(switches.below_limit_ns),
        switches.still_blocked,
        switches.ended,
        switches.lost_total(),
        switches.unmatched
    );
    if off_cpu.idle_hidden > 0 {
        blocks += &format!("; {} hidden", plural(off_cpu.idle_hidden, "idle thread"));
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
    let shares: Vec<String> = states.iter().map(|(_, text)| unbroken(text)).collect();
    let shares = (!shares.is_empty()).then(|| ("states", shares.join(", ")));
    iter::once(("blocks", blocks)).chain(shares).collect()
}

/// The tables after the accounting.
fn off_cpu_tables(summary: &Summary, off_cpu: &OffCpu, rows: &[BlockedRow]) -> Vec<Block> {
    let numbers = |[a, b, c, d, e]: [&'static str; 5], last| {
        let numbers = [a, b, c, d, e].map(|heading| (heading, Side::Right));
        numbers.into_iter().chain([(last, Side::Name)]).collect::<Vec<_>>()
    };
    let total_ns: u64 = off_cpu.states.values().map(|sum| sum.total_ns).sum();
    let head = numbers(["time", "share", "count", "longest", "p99"], "where");
    let rows = rows.iter().map(|row| blocked_row(row, total_ns)).collect();
    let mut blocks = vec![titled("Most blocked time", &head, rows)];
    if summary.mode == Mode::Wall.name() {
        let head = numbers(["elapsed", "on CPU", "off CPU", "below", "missing"], "thread");
        let mut rows = threads(&off_cpu.threads);
        if off_cpu.threads_off > 0 {
            rows.push(row([format!(
                "the sums of {} differ from the elapsed time by more than {MISS_PERCENT} %",
                plural(off_cpu.threads_off, "thread")
            )]));
        }
        blocks.push(titled("Threads", &head, rows));
    }
    blocks
}

/// The threads with most time on the CPU. If there are too many for the table, those that slept all the time are only
/// counted.
fn threads(all: &[ThreadTime]) -> Vec<Vec<Line>> {
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
    let more = (!more.is_empty()).then(|| row([format!("and {}", more.join(", "))]));
    shown.into_iter().take(THREADS).map(thread_row).chain(more).collect()
}

fn blocked_row(
    BlockedRow { state, functions, woken_by, times, .. }: &BlockedRow,
    total_ns: u64,
) -> Vec<Line> {
    let place = match functions.join(" < ") {
        place if !place.is_empty() => place,
        _ if *state == State::Preempted.title() => "(new thread, or not seen)".to_owned(),
        _ => "(no stack)".to_owned(),
    };
    let waker = woken_by.as_ref();
    let waker = waker.map(|waker| format!(", woken by {}", cut(waker, WAKER_WIDTH_MAX)));
    row([
        duration(times.total_ns),
        percent(times.total_ns, total_ns),
        times.count.to_string(),
        duration(times.max_ns),
        duration(times.p99_ns),
        format!("{state}: {place}{}", waker.unwrap_or_default()),
    ])
}

fn thread_row(thread: &ThreadTime) -> Vec<Line> {
    let share = |ns: u64| percent(ns, thread.elapsed_ns);
    let missing = 100.0 * thread.unaccounted_ns as f64 / thread.elapsed_ns.max(1) as f64;
    let idle = if thread.idle { ", idle" } else { "" };
    row([
        duration(thread.elapsed_ns),
        share(thread.on_cpu_ns),
        share(thread.off_cpu_ns),
        share(thread.below_limit_ns),
        format!("{} %", fixed(missing, 1)),
        format!("{} ({}{idle})", thread.name, thread.tid),
    ])
}

/// With the same number of decimals in each row of a table.
pub(super) fn percent(part: u64, whole: u64) -> String {
    format!("{} %", decimal(100.0 * part as f64 / whole.max(1) as f64, 1))
}

#[cfg(test)]
mod tests {
    use wingbeat_profiler::model::BlockTimes;

    use super::*;

    fn row_of(place: &[&str], woken_by: Option<&str>) -> BlockedRow {
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

    fn text(row: &[Line]) -> String {
        let cells = row.iter().flatten().map(|span| span.text.as_str());
        cells.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn blocks_show_their_place() {
        let check = |row: BlockedRow, expected: &str| {
            let expected = format!("2.01 s 50.0 % 100 31.0 ms 20.4 ms {expected}");
            assert_eq!(text(&blocked_row(&row, 4_020_000_000)), expected);
        };
        check(
            row_of(&["clock_nanosleep", "nap"], Some("a long name of 21")),
            "sleeping: clock_nanosleep < nap, woken by a long name of …",
        );
        check(row_of(&[], None), "sleeping: (no stack)");
        check(
            BlockedRow { state: State::Preempted.title(), ..row_of(&[], None) },
            "preempted: (new thread, or not seen)",
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
            let found = table.last().map_or_else(String::new, |row| text(row));
            assert!(found.ends_with(last), "{table:#?}");
        };
        check(1, 1, 2, "worker (8, idle)");
        check(1, 9, 10, "worker (8, idle)");
        check(1, 10, 2, "and 10 threads that slept all the time");
        check(11, 0, 11, "and 1 more thread");
        check(12, 1, 11, "and 2 more threads, 1 thread that slept all the time");
    }

    #[test]
    fn threads_show_shares_of_their_time() {
        let check = |unaccounted_ns, idle, expected: &str| {
            assert_eq!(text(&thread_row(&thread(unaccounted_ns, idle))), expected);
        };
        check(-1, false, "1.00 s 30.0 % 70.0 % <0.1 % 0.0 % worker (8)");
        check(-12_000_000, true, "1.00 s 30.0 % 70.0 % <0.1 % −1.2 % worker (8, idle)");
    }
}
