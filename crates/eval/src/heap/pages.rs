//! `wingbeat profile --mode pages`: whether what it says of address space is what `strace` sees, and what it costs beside
//! `perf record` of the same events.

use std::{collections::BTreeMap, fs, process::Command};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use super::{
    Bed,
    dhat::Dhat,
    programs::{PROGRAMS, Program},
    wingbeat::{Watcher, said},
};
use crate::{
    numbers::{Spread, verdict},
    table::{NONE, column, show, table},
    tools,
};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Pages {
    mapped: Vec<Mapped>,
    costs: Vec<Cost>,
}

/// Bytes and calls that mapped memory, of a program.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Mapped {
    program: String,
    note: Option<String>,
    ours: (u64, u64),
    straces: (u64, u64),
}

/// What a round of a loop takes, nanoseconds of CPU time.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Cost {
    what: String,
    alone: Vec<f64>,
    by_wingbeat: Vec<f64>,
    by_perf: Vec<f64>,
    note: Option<String>,
}

/// What is measured: in words, its name, its rounds, and whether it is what is watched.
const LOOPS: [(&str, &str, u32, bool); 5] = [
    ("a thousand steps of a loop", "spin", 400_000, true),
    ("one page that is touched first", "touch", 500_000, true),
    ("`mmap` of 64 KiB, one page of it touched, `munmap`", "map", 100_000, true),
    ("`getppid`", "call", 5_000_000, true),
    ("`getppid` of a process that is not watched", "call", 5_000_000, false),
];

const PAGE_BYTES: u64 = 4096;

pub(super) fn pages(bed: &Bed<'_>) -> anyhow::Result<Pages> {
    let mut pages = Pages::default();
    for program in &PROGRAMS {
        if bed.stop.is_asked() {
            return Ok(pages);
        }
        let row = mapped(bed, program).unwrap_or_else(|error| Mapped {
            program: program.name.to_owned(),
            note: Some(format!("{error:#}")),
            ours: (0, 0),
            straces: (0, 0),
        });
        eprintln!("{row:?}");
        pages.mapped.push(row);
    }
    bed.folder.shell("gcc -O2 -o pages pages.c")?;
    for (what, name, rounds, is_watched) in LOOPS {
        let row = cost(bed, (what, name, rounds), is_watched)?;
        eprintln!("{row:?}");
        pages.costs.push(row);
    }
    Ok(pages)
}

fn mapped(bed: &Bed<'_>, program: &Program) -> anyhow::Result<Mapped> {
    ensure!(bed.folder.make(program)?, "not installed");
    ensure!(tools::find("strace").is_ok(), "not installed: strace");
    let file = bed.folder.file("mapped.json");
    let mut wingbeat = Command::new(&bed.wingbeat);
    wingbeat.args(["profile", "--mode", "pages", "--show", "mapped", "-o"]);
    wingbeat.arg(&file).arg("--");
    said(&mut bed.folder.command(&wingbeat, program)?)?;
    let sums = Dhat::read(&file)?.sums();
    let file = bed.folder.file("strace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", "trace=mmap,mremap,brk", "-o"]).arg(&file);
    said(&mut bed.folder.command(&strace, program)?)?;
    let text = fs::read_to_string(&file).context("strace wrote no file")?;
    Ok(Mapped {
        program: program.name.to_owned(),
        note: None,
        ours: (sums.bytes, sums.blocks),
        straces: mapped_by(&text),
    })
}

/// Bytes and calls that mapped memory without a file, by the lines of `strace -f` about one process.
fn mapped_by(text: &str) -> (u64, u64) {
    let (mut bytes, mut calls, mut before) = (0, 0, None);
    // Calls during which another thread made one, by thread.
    let mut unfinished = BTreeMap::new();
    for line in text.lines() {
        let Some((thread, line)) = line.split_once(' ') else { continue };
        if let Some((call, _)) = line.split_once(" <unfinished ...>") {
            unfinished.insert(thread, call.trim_start());
            continue;
        }
        let resumed = line
            .split_once(" resumed>")
            .and_then(|(_, rest)| Some(format!("{}{rest}", unfinished.remove(thread)?)));
        let line = resumed.as_deref().unwrap_or(line.trim_start());
        let Some((call, result)) = line.rsplit_once(" = ") else { continue };
        let Some(address) = number(result) else { continue };
        let Some((name, arguments)) = call.split_once('(') else { continue };
        let arguments: Vec<&str> = arguments.split(", ").collect();
        let argument = |index: usize| arguments.get(index).and_then(|text| number(text));
        let mapped = match name {
            "mmap" if call.contains("MAP_ANONYMOUS") => argument(1),
            "mremap" => argument(2),
            "brk" => {
                let grown = before.map(|before: u64| address.saturating_sub(before));
                before = Some(address);
                grown.filter(|&grown| grown > 0)
            }
            _ => None,
        };
        if let Some(mapped) = mapped {
            bytes += mapped.next_multiple_of(PAGE_BYTES);
            calls += 1;
        }
    }
    (bytes, calls)
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim_end_matches(')').trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn cost(
    bed: &Bed<'_>,
    (what, name, rounds): (&str, &str, u32),
    is_watched: bool,
) -> anyhow::Result<Cost> {
    let rounds = (rounds / if bed.args.quick { 10 } else { 1 }).to_string();
    let words = [name, rounds.as_str()];
    let mut row = Cost {
        what: what.to_owned(),
        alone: Vec::new(),
        by_wingbeat: Vec::new(),
        by_perf: Vec::new(),
        note: None,
    };
    let has_perf = tools::find("perf").is_ok();
    for _ in 0..bed.args.rounds() {
        row.alone.push(alone(bed, &words)?);
        let wingbeat = wingbeat(bed)?;
        row.by_wingbeat.push(watched(bed, &wingbeat, &words, is_watched)?);
        if has_perf {
            match watched(bed, &perf(bed), &words, is_watched) {
                Ok(ns) => row.by_perf.push(ns),
                Err(error) => row.note = Some(format!("perf: {error:#}")),
            }
        }
    }
    Ok(row)
}

fn wingbeat(bed: &Bed<'_>) -> anyhow::Result<Vec<String>> {
    let words = ["profile", "--quiet", "--mode", "pages", "-o"];
    let program = bed.wingbeat.to_str().context("the path is no text")?.to_owned();
    let output = bed.folder.file("cost.json").display().to_string();
    Ok([program].into_iter().chain(words.map(str::to_owned)).chain([output]).collect())
}

fn perf(bed: &Bed<'_>) -> Vec<String> {
    const CALLS: &str = "syscalls:sys_exit_mmap,syscalls:sys_exit_munmap,syscalls:sys_exit_mremap,syscalls:sys_exit_brk";
    let words = [
        "perf",
        "record",
        "-q",
        "-g",
        "-e",
        "page-faults",
        "-c",
        "64",
        "-e",
        CALLS,
        "-c",
        "1",
        "-o",
    ];
    let output = bed.folder.file("perf.data").display().to_string();
    words.map(str::to_owned).into_iter().chain([output]).collect()
}

fn alone(bed: &Bed<'_>, words: &[&str]) -> anyhow::Result<f64> {
    nanoseconds(Command::new(bed.folder.file("pages")).args(words))
}

/// The program below a tool, or beside it while it watches another one.
fn watched(
    bed: &Bed<'_>,
    tool: &[String],
    words: &[&str],
    is_watched: bool,
) -> anyhow::Result<f64> {
    let mut command = Command::new(&tool[0]);
    command.args(&tool[1..]);
    if is_watched {
        // A recording without a sample ends with 1.
        return nanoseconds(command.arg("--").arg(bed.folder.file("pages")).args(words));
    }
    command.args(["--", "sleep", "60"]);
    let watcher = Watcher::start(&mut command, &bed.folder.file("said"))?;
    std::thread::sleep(std::time::Duration::from_secs(1));
    let found = alone(bed, words);
    // Nothing was sampled, which both say.
    let _ = watcher.stop();
    found
}

/// What the program prints, whatever becomes of the tool around it.
fn nanoseconds(command: &mut Command) -> anyhow::Result<f64> {
    let output = command.output().context("cannot run the loop")?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().with_context(|| {
        format!("no time: {}", String::from_utf8_lossy(&output.stderr).trim().to_owned())
    })
}

pub(super) fn text(pages: &Pages) -> String {
    let amount = |(bytes, calls): (u64, u64)| format!("{bytes} in {calls} calls");
    let columns = [
        column("program", |row: &&Mapped| row.program.clone()),
        column("mapped, by wingbeat", |row: &&Mapped| amount(row.ours)),
        column("by strace", |row: &&Mapped| amount(row.straces)),
        column("the same?", |row: &&Mapped| match &row.note {
            Some(note) => note.clone(),
            None => verdict(row.ours == row.straces).to_owned(),
        }),
    ];
    let mapped = table(&pages.mapped, &columns);
    let spread = |values: &[f64]| Spread::of(values.iter().copied());
    let added = |row: &Cost, by: &[f64]| match (spread(by), spread(&row.alone)) {
        (Some(by), Some(alone)) => format!("{:.0} ns", by.median - alone.median).replace('-', "−"),
        _ => NONE.to_owned(),
    };
    let columns = [
        column("what", |row: &&Cost| row.what.clone()),
        column("alone", |row: &&Cost| show(spread(&row.alone), 1.0, 0, " ns")),
        column("`--mode pages`", |row: &&Cost| show(spread(&row.by_wingbeat), 1.0, 0, " ns")),
        column("adds", |row: &&Cost| added(row, &row.by_wingbeat)),
        column("`perf record` of the same", |row: &&Cost| {
            show(spread(&row.by_perf), 1.0, 0, " ns")
        }),
        column("adds", |row: &&Cost| added(row, &row.by_perf)),
        column("note", |row: &&Cost| row.note.clone().unwrap_or_default()),
    ];
    let costs = table(&pages.costs, &columns);
    format!("{mapped}\n{costs}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_strace() {
        let text = "7 brk(NULL) = 0x5000\n\
            7 mmap(NULL, 8191, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f00\n\
            7     mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7f01\n\
            7 mmap(NULL, 8192, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = -1 ENOMEM (Cannot allocate memory)\n\
            8 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0 <unfinished ...>\n\
            7 brk(0x7000) = 0x7000\n\
            8 <... mmap resumed>) = 0x8000\n\
            7 mremap(0x7f00, 8192, 16384, MREMAP_MAYMOVE) = 0x7f02\n\
            7 +++ exited with 0 +++\n";
        assert_eq!(mapped_by(text), (8192 + 4096 + 8192 + 16384, 4));
    }
}
