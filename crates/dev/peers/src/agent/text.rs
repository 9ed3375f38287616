//! What came of it: tables, a sentence on each goal, and a picture.

use anyhow::Context as _;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use wingbeat_track::{
    model::{Direction, Measure},
    plot::{Chart, Dot, Line, Panel, Stamp},
};

use super::{
    Record, Row,
    beside::{PEERS, Span, Taken},
};
use crate::{
    numbers::verdict,
    table::{NONE, column, joined, table},
};

/// Share of one CPU, and resident memory, that the agent may take.
const CPU_SHARE_MAX: f64 = 0.01;
const MEMORY_BYTES_MAX: u64 = 150_000_000;

/// By how much more the last third may have than the second.
const GROWTH_MAX: f64 = 1.1;

/// Rows of the table. The picture has all.
const ROWS_SHOWN: usize = 24;

pub(super) fn text(record: &Record) -> String {
    let rows: Vec<Row> = record
        .rows
        .chunks(record.rows.len().div_ceil(ROWS_SHOWN).max(1))
        .filter_map(|rows| rows.last().copied())
        .collect();
    let rows = shares(&rows);
    let columns = [
        column("minutes", |row: &&(Row, f64)| format!("{:.1}", row.0.seconds / 60.0)),
        column("short processes", |row: &&(Row, f64)| row.0.processes),
        column("CPU of the agent", |row: &&(Row, f64)| percent(row.1)),
        column("its memory", |row: &&(Row, f64)| mb(row.0.memory_bytes)),
        column("memory of the kernel", |row: &&(Row, f64)| mb(row.0.bpf_bytes)),
        column("descriptors", |row: &&(Row, f64)| row.0.descriptors),
        column("samples", |row: &&(Row, f64)| row.0.samples),
        column("not whole", |row: &&(Row, f64)| row.0.broken),
        column("lost", |row: &&(Row, f64)| row.0.lost),
    ];
    joined(vec![
        record.origin.text(""),
        table(&rows, &columns),
        conclusion(&record.rows),
        beside(&record.peers),
    ])
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn mb(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Each row with the share of a CPU since the one before.
fn shares(rows: &[Row]) -> Vec<(Row, f64)> {
    let before = std::iter::once(Row::default()).chain(rows.iter().copied());
    let share = |(before, row): (Row, &Row)| {
        let share = (row.cpu_seconds - before.cpu_seconds) / (row.seconds - before.seconds);
        (*row, share)
    };
    before.zip(rows).map(share).collect()
}

fn conclusion(rows: &[Row]) -> String {
    let third = rows.len() / 3;
    if third == 0 {
        return "Too short for a conclusion.\n".to_owned();
    }
    let (second, last) = (&rows[third..rows.len() - third], &rows[rows.len() - third..]);
    let most = |rows: &[Row], of: fn(&Row) -> u64| rows.iter().map(of).max().unwrap_or(0) as f64;
    let growth = |of: fn(&Row) -> u64| most(last, of) / most(second, of).max(1.0);
    let end = &rows[rows.len() - 1];
    let share = end.cpu_seconds / end.seconds;
    let memory = most(rows, |row| row.memory_bytes);
    let grown = [
        growth(|row| row.memory_bytes),
        growth(|row| row.bpf_bytes),
        growth(|row| row.descriptors),
    ];
    let largest = grown.into_iter().fold(0.0, f64::max);
    format!(
        "The agent takes {} of a CPU, its start and the minutes beside others included; the goal is at most 1 %: {}. It takes {:.1} MB \
         at most; the goal is at most 150 MB: {}. In the last third, memory, memory of the kernel and descriptors are {:.2}, {:.2} and \
         {:.2} times those of the second; at most {GROWTH_MAX} counts as flat: {}. Samples and events lost: {}.\n",
        percent(share),
        verdict(share <= CPU_SHARE_MAX),
        memory / 1e6,
        verdict(memory <= MEMORY_BYTES_MAX as f64),
        grown[0],
        grown[1],
        grown[2],
        verdict(largest <= GROWTH_MAX),
        end.lost,
    )
}

/// What other profilers took, and the agent in the same minutes.
fn beside(peers: &[Taken]) -> String {
    let known = |taken: &Taken| PEERS.iter().find(|peer| peer.name == taken.name);
    let share = |span: Span, cpu_seconds: f64| match span.seconds > 0.0 {
        true => percent(cpu_seconds / span.seconds),
        false => NONE.to_owned(),
    };
    let columns = [
        column("profiler", |taken: &&Taken| format!("{} {}", taken.name, taken.version)),
        column("what runs", |taken: &&Taken| {
            known(taken).map_or(String::new(), |peer| format!("`{}`", peer.chain))
        }),
        column("what it gives", |taken: &&Taken| known(taken).map_or("", |peer| peer.gives)),
        column("pushed", |taken: &&Taken| taken.pushed_bytes.map_or(NONE.to_owned(), mb)),
        column("minutes", |taken: &&Taken| {
            format!("{:.1}", (taken.warming.seconds + taken.running.seconds) / 60.0)
        }),
        column("CPU while it warms up", |taken: &&Taken| {
            share(taken.warming, taken.warming.cpu_seconds)
        }),
        column("CPU after that", |taken: &&Taken| share(taken.running, taken.running.cpu_seconds)),
        column("its memory, at most", |taken: &&Taken| mb(taken.memory_bytes_max)),
        column("the agent's CPU meanwhile", |taken: &&Taken| {
            share(taken.running, taken.running.agent_cpu_seconds)
        }),
    ];
    let ended = peers.iter().filter_map(|taken| {
        Some(format!("\n{} ended by itself ({}).\n", taken.name, taken.ended.as_ref()?))
    });
    table(peers, &columns) + &ended.collect::<String>()
}

/// The run as a picture, by the module that draws histories.
pub(super) fn chart(record: &Record) -> anyhow::Result<Chart> {
    let begin =
        OffsetDateTime::from_unix_timestamp(record.begin).context("no time that there is")?;
    let stamp = |row: &Row| -> anyhow::Result<Stamp> {
        Ok(Stamp {
            report: Uuid::nil(),
            time: begin + Duration::seconds_f64(row.seconds),
            hash: None,
            branch: "main".parse()?,
            testbed: "localhost".parse()?,
            iterations: 1,
            news: Vec::new(),
        })
    };
    let stamps = record.rows.iter().map(stamp).collect::<anyhow::Result<_>>()?;
    let shares = shares(&record.rows);
    let line = |name: &str, values: Vec<f64>, limit: Option<f64>| Line {
        name: name.to_owned(),
        dots: (0..)
            .zip(values)
            .map(|(report, value)| Dot { report, value, upper_limit: limit, ..Dot::default() })
            .collect(),
        steps: Vec::new(),
    };
    let of = |value: fn(&(Row, f64)) -> f64| shares.iter().map(value).collect::<Vec<f64>>();
    let panels = vec![
        panel(
            "CPU of the agent",
            "share of one CPU (%)",
            vec![line("agent", of(|(_, share)| share * 100.0), Some(CPU_SHARE_MAX * 100.0))],
        ),
        panel(
            "Memory",
            "bytes (B)",
            vec![
                line(
                    "agent",
                    of(|(row, _)| row.memory_bytes as f64),
                    Some(MEMORY_BYTES_MAX as f64),
                ),
                line("its maps in the kernel", of(|(row, _)| row.bpf_bytes as f64), None),
            ],
        ),
    ];
    let title = format!(
        "wingbeat agent, {} short processes",
        record.rows.last().map_or(0, |row| row.processes)
    );
    Ok(Chart { title, stamps, panels, left_out: 0 })
}

fn panel(name: &str, units: &'static str, lines: Vec<Line>) -> Panel {
    let mut measure = Measure::named(name);
    (measure.units, measure.direction) = (units.into(), Direction::LowerIsBetter);
    Panel { benchmark: "wingbeat agent".to_owned(), measure, lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_seen() {
        let check = |bytes: fn(u64) -> u64, expected: bool| {
            let row = |at: u64| Row {
                seconds: (at + 1) as f64,
                cpu_seconds: (at + 1) as f64 * 0.005,
                memory_bytes: bytes(at),
                ..Row::default()
            };
            let rows: Vec<Row> = (0..24).map(row).collect();
            let text = conclusion(&rows);
            assert!(text.contains("takes 0.50 % of a CPU"), "{text}");
            assert_eq!(text.contains("**missed**"), !expected, "{text}");
        };
        check(|_| 30_000_000, true);
        check(|at| 30_000_000 + at * 10_000, true);
        check(|at| 30_000_000 + at * 1_000_000, false);
        check(|_| 200_000_000, false);
        assert!(conclusion(&[Row::default()]).contains("Too short"));
    }
}
