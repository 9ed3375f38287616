//! `cargo xtask peers agent`: what `wingbeat agent` takes of a busy machine on which processes come and go, and whether
//! that stays the same.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::{
    comparison::{Common, Origin, Stop, fresh, need_root},
    numbers::verdict,
    table::{column, table},
};

/// The figures of this command.
const NAME: &str = "agent";

/// Share of one CPU, and resident memory, that the agent may take.
const CPU_SHARE_MAX: f64 = 0.01;
const MEMORY_BYTES_MAX: u64 = 150_000_000;

/// By how much more the last third may have than the second.
const GROWTH_MAX: f64 = 1.1;

/// Lines of the table.
const ROWS: u32 = 24;

/// How long the agent may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// How it is measured.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Two minutes: shows that all works
    #[arg(long)]
    quick: bool,
    /// How long it takes, minutes [default: 120, or 2 with --quick]
    #[arg(long, value_name = "N")]
    minutes: Option<u32>,
    /// Short processes meanwhile [default: 10000, or 200 with --quick]
    #[arg(long, value_name = "N")]
    processes: Option<u32>,
    #[command(flatten)]
    common: Common,
}

/// What the agent says of itself at a time.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Row {
    seconds: f64,
    processes: u64,
    /// Since the start.
    cpu_seconds: f64,
    memory_bytes: u64,
    bpf_bytes: u64,
    descriptors: u64,
    samples: u64,
    broken: u64,
    lost: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    origin: Origin,
    rows: Vec<Row>,
}

/// A process that is ended with this.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn run(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    need_root("to watch all processes needs", NAME)?;
    let minutes = args.minutes.unwrap_or(if args.quick { 2 } else { 120 });
    let processes = args.processes.unwrap_or(if args.quick { 200 } else { 10_000 });
    let stop = Stop::on_signals()?;
    let wingbeat = args.common.wingbeat()?;
    let origin = Origin::now();
    let folder = fresh(NAME)?;
    let mut agent = Command::new(wingbeat);
    agent.args(["agent", "--max-cpu", "100%", "--metrics", "127.0.0.1:0", "--keep"]);
    agent.arg(folder.join("kept"));
    let said = folder.join("said");
    let file = fs::File::create(&said).context("cannot write what the agent says")?;
    let child = agent.stderr(file).spawn().context("cannot start the agent")?;
    let agent = Ended(child);
    let address = address(&said)?;
    // One for each CPU, as long as it takes.
    let spin = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().map(Ended);
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let busy: Vec<Ended> =
        (0..cpus).map(|_| spin()).collect::<Result<_, _>>().context("cannot start the load")?;
    let length = Duration::from_secs(u64::from(minutes) * 60);
    let rows = watch(&agent.0, &address, (length, processes), &stop)?;
    drop(busy);
    let record = Record { origin, rows };
    args.common.finish(NAME, &record, &text(&record), &stop)
}

/// Where it serves its figures, by what it says when it begins.
fn address(said: &Path) -> anyhow::Result<String> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let text = fs::read_to_string(said).unwrap_or_default();
        if let Some(rest) = text.split("http://").nth(1)
            && let Some((address, _)) = rest.split_once("/metrics")
        {
            return Ok(address.to_owned());
        }
        thread::sleep(Duration::from_millis(100));
    }
    bail!("the agent did not begin: {}", fs::read_to_string(said).unwrap_or_default().trim())
}

/// Starts short processes, evenly, and asks the agent now and then.
fn watch(
    agent: &Child,
    address: &str,
    (length, processes): (Duration, u32),
    stop: &Stop,
) -> anyhow::Result<Vec<Row>> {
    let begun = Instant::now();
    let (pause, between_rows) = (length / processes.max(1), length / ROWS);
    let mut rows = Vec::new();
    let mut started = 0;
    while begun.elapsed() < length && !stop.is_asked() {
        Command::new("true").status().context("cannot start `true`")?;
        started += 1;
        if begun.elapsed() >= between_rows * (rows.len() as u32 + 1) {
            let row = row(agent, address, begun.elapsed(), started)?;
            eprintln!("{row:?}");
            rows.push(row);
        }
        thread::sleep((pause * started as u32).saturating_sub(begun.elapsed()));
    }
    Ok(rows)
}

fn row(agent: &Child, address: &str, at: Duration, processes: u64) -> anyhow::Result<Row> {
    let text = metrics(address)?;
    let of = |name: &str| -> anyhow::Result<f64> {
        let name = format!("wingbeat_agent_{name} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.and_then(|value| value.parse().ok()).with_context(|| format!("there is no {name}"))
    };
    let descriptors =
        fs::read_dir(format!("/proc/{}/fd", agent.id())).context("the agent ended")?;
    let broken = |line: &str| {
        let rest = line.strip_prefix("wingbeat_agent_stacks_broken_total{")?;
        rest.rsplit_once(' ')?.1.parse::<u64>().ok()
    };
    Ok(Row {
        seconds: at.as_secs_f64(),
        processes,
        cpu_seconds: of("cpu_seconds_total").unwrap_or_default(),
        memory_bytes: of("memory_bytes").unwrap_or_default() as u64,
        bpf_bytes: of("bpf_memory_bytes")? as u64,
        descriptors: descriptors.count() as u64,
        samples: of("samples_total")? as u64,
        broken: text.lines().filter_map(broken).sum(),
        lost: (of("samples_lost_total")? + of("events_lost_total")?) as u64,
    })
}

/// What the agent answers.
fn metrics(address: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).context("the agent does not answer")?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    ensure!(text.starts_with("HTTP/1.1 200"), "the agent refuses: {text}");
    Ok(text)
}

fn text(record: &Record) -> String {
    let rows: Vec<(Row, f64)> = shares(&record.rows);
    let mb = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    let columns = [
        column("minutes", |row: &&(Row, f64)| format!("{:.1}", row.0.seconds / 60.0)),
        column("short processes", |row: &&(Row, f64)| row.0.processes),
        column("CPU of the agent", |row: &&(Row, f64)| format!("{:.2} %", row.1 * 100.0)),
        column("its memory", |row: &&(Row, f64)| mb(row.0.memory_bytes)),
        column("memory of the kernel", |row: &&(Row, f64)| mb(row.0.bpf_bytes)),
        column("descriptors", |row: &&(Row, f64)| row.0.descriptors),
        column("samples", |row: &&(Row, f64)| row.0.samples),
        column("not whole", |row: &&(Row, f64)| row.0.broken),
        column("lost", |row: &&(Row, f64)| row.0.lost),
    ];
    format!("{}\n{}\n{}", record.origin.text(""), table(&rows, &columns), conclusion(&record.rows))
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
    let (first, end) = (&rows[0], &rows[rows.len() - 1]);
    let share = (end.cpu_seconds - first.cpu_seconds) / (end.seconds - first.seconds);
    let memory = most(rows, |row| row.memory_bytes);
    let grown = [
        growth(|row| row.memory_bytes),
        growth(|row| row.bpf_bytes),
        growth(|row| row.descriptors),
    ];
    let largest = grown.into_iter().fold(0.0, f64::max);
    format!(
        "After the first row the agent takes {:.2} % of a CPU; the goal is at most 1 %: {}. It takes {:.1} MB at most; the goal is at most 150 MB: {}. \
         In the last third, memory, memory of the kernel and descriptors are {:.2}, {:.2} and {:.2} times those of the second; at \
         most {GROWTH_MAX} counts as flat: {}. Samples and events lost: {}.\n",
        share * 100.0,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_seen() {
        let check = |bytes: fn(u64) -> u64, expected: bool| {
            let row = |at: u64| Row {
                seconds: (at + 1) as f64,
                cpu_seconds: at as f64 * 0.005,
                memory_bytes: bytes(at),
                ..Row::default()
            };
            let rows: Vec<Row> = (0..24).map(row).collect();
            let text = conclusion(&rows);
            assert!(text.contains("0.50 % of a CPU; the goal is at most 1 %: reached"), "{text}");
            assert_eq!(text.contains("**missed**"), !expected, "{text}");
        };
        check(|_| 30_000_000, true);
        check(|at| 30_000_000 + at * 10_000, true);
        check(|at| 30_000_000 + at * 1_000_000, false);
        check(|_| 200_000_000, false);
        assert!(conclusion(&[Row::default()]).contains("Too short"));
    }
}
