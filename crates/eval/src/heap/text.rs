//! The tables.

use super::{
    Record,
    leak::Leak,
    left::{AT_ONCE, Attached, Ids, Killed},
    pages,
    sites::Sites,
    slowdown::{RATE, Slow, TOOLS, Tool},
    truth::{Sampled, Truth},
};
use crate::{
    numbers::{Share, Spread, deviation, verdict},
    table::{NONE, column, joined, show, table},
};

/// Largest difference of exact sums, as a part of them.
const DIFFERENCE_MAX: f64 = 0.001;

/// Share of the intervals that have to hold the truth.
const HELD_MIN: f64 = 0.95;

/// Largest share of memleak's added cost.
const COST_MAX: f64 = 0.25;

pub(super) fn text(record: &Record) -> String {
    let mut parts = vec![
        record.origin.text(""),
        format!("Beside {}.\n", record.tools.join(", ")),
        truth("Sums of every allocation, beside valgrind's DHAT", &record.truth),
    ];
    let in_source = "Sums of what the program's own source asks for, beside dhat-rs";
    parts.push(truth(in_source, record.dhat_rs.as_slice()));
    parts.extend(record.sampled.as_ref().map(sampled));
    parts.extend([sites(&record.sites), slowdown(&record.slowdown), leaks(&record.leaks)]);
    parts.extend(record.killed.as_ref().map(killed));
    parts.extend(record.attached.as_ref().map(attached));
    let pages = record.pages.as_ref().map(pages::text);
    parts.extend(
        pages.map(|text| below("Pages: address space beside strace, and what it costs", text)),
    );
    joined(parts)
}

/// A heading, if there is anything below it.
fn below(heading: &str, text: String) -> String {
    if text.is_empty() { text } else { format!("### {heading}\n\n{text}") }
}

fn truth(heading: &str, rows: &[Truth]) -> String {
    let amount = |index: usize| move |row: &&Truth| cell(row, index);
    let columns = [
        column("program", |row: &&Truth| row.program.clone()),
        column("bytes", amount(0)),
        column("blocks", amount(1)),
        column("bytes at t-gmax", amount(2)),
        column("bytes at t-end", amount(3)),
        column("blocks at t-end", amount(4)),
        column("lost", |row: &&Truth| list(&row.losses)),
        column("within 0.1 %?", |row: &&Truth| match &row.note {
            Some(note) => note.clone(),
            None => verdict(difference_max(row) <= DIFFERENCE_MAX).to_owned(),
        }),
    ];
    below(heading, table(rows, &columns))
}

/// A sum, and that of DHAT where it is another.
fn cell(row: &Truth, index: usize) -> String {
    let (ours, theirs) = (row.ours.all()[index], row.theirs.all()[index]);
    match row.note {
        Some(_) => NONE.to_owned(),
        None if ours == theirs => ours.to_string(),
        None => {
            let percent = format!("{:+.5} %", 100.0 * difference(ours, theirs));
            format!("{ours}; DHAT {theirs} ({})", percent.replace('-', "−"))
        }
    }
}

/// By what part of theirs ours is more.
fn difference(ours: u64, theirs: u64) -> f64 {
    if ours == theirs { 0.0 } else { (ours as f64 - theirs as f64) / theirs as f64 }
}

fn difference_max(row: &Truth) -> f64 {
    let both = row.ours.all().into_iter().zip(row.theirs.all());
    both.map(|(ours, theirs)| difference(ours, theirs).abs()).fold(0.0, f64::max)
}

fn list(losses: &[String]) -> String {
    if losses.is_empty() { "0".to_owned() } else { losses.join("; ") }
}

fn sampled(found: &Sampled) -> String {
    let Sampled { program, sample, bytes, runs } = found;
    let held = runs.iter().filter(|run| run.holds(*bytes)).count();
    let samples = Spread::of(runs.iter().map(|run| run.samples as f64));
    let margins = Spread::of(runs.iter().map(|run| run.margin));
    let errors: Vec<f64> = runs.iter().map(|run| run.bytes as f64 / *bytes as f64 - 1.0).collect();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let deviation = 100.0 * deviation(&errors).unwrap_or(0.0);
    let share = Share { hits: held, of: runs.len() };
    let (low, high) = share.interval().unwrap_or((0.0, 1.0));
    let text = format!(
        "The program in {program} asks for {bytes} bytes. With `--sample {sample}` there are {} samples in a run. \
         The totals differ from that by {} on average, with a standard deviation of {deviation:.1} %; the intervals are ± {}.\n\
         The interval holds the true total in {held} of {} runs: {:.1} % to {:.1} % of all, at 95 %. The goal is 95 %: {}.\n",
        show(samples, 1.0, 0, ""),
        format!("{:+.2} %", 100.0 * mean).replace('-', "−"),
        show(margins, 100.0, 1, " %"),
        runs.len(),
        100.0 * low,
        100.0 * high,
        verdict(high >= HELD_MIN),
    );
    below("Samples beside the truth", text)
}

fn sites(rows: &[Sites]) -> String {
    let columns = [
        column("program", |row: &&Sites| row.program.clone()),
        column("lines, by wingbeat", |row: &&Sites| places(&row.ours)),
        column("by heaptrack", |row: &&Sites| match row.ours == row.theirs {
            true if row.note.is_none() => "the same, with the same bytes".to_owned(),
            _ => places(&row.theirs),
        }),
        column("only wingbeat has", |row: &&Sites| row.ours_alone.join("; ")),
        column("only heaptrack has", |row: &&Sites| row.theirs_alone.join("; ")),
        column("same order?", |row: &&Sites| match &row.note {
            Some(note) => note.clone(),
            None => verdict(row.is_same_order()).to_owned(),
        }),
    ];
    let text = table(rows, &columns);
    below("The ten sites with most bytes, beside heaptrack", text)
}

fn places(sites: &[(u64, u64)]) -> String {
    let words: Vec<_> = sites.iter().map(|(line, bytes)| format!("{line}: {bytes}")).collect();
    if words.is_empty() { NONE.to_owned() } else { words.join(", ") }
}

/// The median of an allocation's CPU time.
fn median(rows: &[Slow], tool: Tool, rate: u64) -> Option<f64> {
    let row = rows.iter().find(|row| row.tool == tool && row.rate == rate)?;
    Spread::of(row.ns.iter().copied()).map(|spread| spread.median)
}

/// What a tool adds to an allocation.
fn added(rows: &[Slow], tool: Tool, rate: u64) -> Option<f64> {
    Some(median(rows, tool, rate)? - median(rows, Tool::Alone, rate)?)
}

fn slowdown(rows: &[Slow]) -> String {
    let columns = [
        column("allocations/s wanted", |row: &&Slow| match row.rate {
            0 => "as many as it can".to_owned(),
            rate => rate.to_string(),
        }),
        column("watched by", |row: &&Slow| row.tool.name()),
        column("CPU time of an allocation and its free", |row: &&Slow| {
            show(Spread::of(row.ns.iter().copied()), 1e-3, 2, " µs")
        }),
        column("added", |row: &&Slow| match added(rows, row.tool, row.rate) {
            Some(ns) if row.tool != Tool::Alone => format!("{:.2} µs", ns / 1e3),
            _ => NONE.to_owned(),
        }),
        column("allocations/s", |row: &&Slow| {
            show(Spread::of(row.per_second.iter().copied()), 1e-3, 0, " k")
        }),
        column("note", |row: &&Slow| row.note.clone().unwrap_or_default()),
    ];
    let mut text = table(rows, &columns);
    let of = |tool| added(rows, tool, RATE);
    if let (Some(ours), Some(theirs)) = (of(TOOLS[1]), of(Tool::Memleak)) {
        let part = ours / theirs;
        text.push_str(&format!(
            "\nAt {RATE} allocations a second `wingbeat heap` adds {:.0} % of what memleak-bpfcc adds; the goal is at most \
             25 %: {}.\n",
            100.0 * part,
            verdict(part <= COST_MAX)
        ));
    }
    below("What it costs the program", text)
}

fn leaks(rows: &[Leak]) -> String {
    let columns = [
        column("flags", |row: &&Leak| format!("`{}`", row.flags)),
        column("leak", |row: &&Leak| format!("1,000 bytes in {} allocations", row.one_of)),
        column("for", |row: &&Leak| format!("{} s", row.seconds)),
        column("leaks meanwhile", |row: &&Leak| row.allocations / row.one_of),
        column("place among the suspects", |row: &&Leak| {
            row.rank.map_or_else(|| NONE.to_owned(), |rank| format!("{rank} of {}", row.suspects))
        }),
        column("said", |row: &&Leak| row.line.clone().unwrap_or_else(|| NONE.to_owned())),
        column("lost", |row: &&Leak| list(&row.losses)),
        column("found?", |row: &&Leak| verdict(row.rank.is_some())),
    ];
    below("A leak in a running program", table(rows, &columns))
}

fn killed(found: &Killed) -> String {
    let Killed { had, left, has_bpftool, bytes_changed, bytes_left, has_page, is_working } = found;
    let kinds = [
        ("programs", had.programs.len(), Some(left.programs.len())),
        ("maps", had.maps.len(), has_bpftool.then_some(left.maps.len())),
        ("links", had.links.len(), Some(left.links.len())),
        ("bytes of the allocator that were changed", *bytes_changed, Some(*bytes_left)),
    ];
    let columns = [
        column("what", |row: &(&str, usize, Option<usize>)| row.0),
        column("while it records", |row: &(&str, usize, Option<usize>)| row.1),
        column("after `kill -9`", |row: &(&str, usize, Option<usize>)| {
            row.2.map_or_else(|| "not known without bpftool".to_owned(), |count| count.to_string())
        }),
    ];
    let is_clean = *left == Ids::default() && *bytes_left == 0 && *is_working;
    let text = table(kinds, &columns);
    let state = if *is_working { "works on" } else { "does **not** work on" };
    let page = match has_page {
        true => " The kernel's own page `[uprobes]` stays in it to its end, as after any probe.",
        false => "",
    };
    let clean = verdict(is_clean);
    let text =
        format!("{text}\nThe target {state}.{page} Nothing of ours is left behind: {clean}.\n");
    below("After `kill -9` of wingbeat", text)
}

fn attached(found: &Attached) -> String {
    let Attached { times, well, empty, failure, bytes_left, survived, seconds } = found;
    let state = match survived {
        true => "allocated to the end, and all of its blocks were as it had left them",
        false => "did **not** survive",
    };
    let failed = match failure {
        Some(failure) => format!(" The first that failed said: {failure}."),
        None => String::new(),
    };
    let text = format!(
        "A program of two threads that allocates as fast as it can was attached to and detached from {times} times in \
         {seconds:.0} s, {AT_ONCE} recordings at the same time. {well} of them recorded allocations; in {empty} others, of 20 ms, the \
         program did not get to run.{failed}\n\
         It {state}. {bytes_left} bytes of its allocator were changed afterwards: {}.\n",
        verdict(*survived && *bytes_left == 0 && well + empty == *times)
    );
    below("Attached again and again", text)
}
