//! `cargo xtask peers agent`: what `wingbeat agent` takes of a busy machine on which processes come and go, whether
//! that stays the same, and what other profilers take that watch the same machine in the same minutes.

mod beside;
mod load;
mod sink;
mod text;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use wingbeat_track::plot;

use self::{
    beside::{PEERS, Running, Taken},
    load::Ended,
    sink::Sink,
};
use crate::{
    account::Account,
    comparison::{Common, Origin, Stop, fresh, kept, need_root},
    profile::settings::Tracefs,
    tools,
};

/// The figures of this command.
const NAME: &str = "agent";

/// How often the agent is asked for its figures.
const ROWS: u32 = 120;

/// How long the agent may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// When the first peer starts, how long each runs, and how much of that is its warm-up, of all the time.
const PEERS_BEGIN: f64 = 1.0 / 12.0;
const PEER_LENGTH: f64 = 1.0 / 15.0;
const WARM_UP: f64 = PEER_LENGTH / 4.0;

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
    /// Also write the picture into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Measure nothing: make the tables and the picture from the figures of an earlier run
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// What the agent took until a time, by the kernel, and what it says of itself.
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
    /// Unix time, seconds.
    begin: i64,
    rows: Vec<Row>,
    peers: Vec<Taken>,
}

pub(crate) fn run(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    let stop = Stop::on_signals()?;
    let record = match &args.from {
        Some(file) => kept(file)?,
        None => measure(args, &stop)?,
    };
    if let Some(file) = args.svg.as_ref().filter(|_| !stop.is_asked()) {
        let picture = plot::svg(&text::chart(&record)?);
        fs::write(file, picture).with_context(|| format!("cannot write {}", file.display()))?;
        eprintln!("wrote {}", file.display());
    }
    args.common.finish(NAME, &record, &text::text(&record), &stop)
}

fn measure(args: &AgentArgs, stop: &Stop) -> anyhow::Result<Record> {
    need_root("to watch all processes needs", NAME)?;
    let minutes = args.minutes.unwrap_or(if args.quick { 2 } else { 120 });
    let processes = args.processes.unwrap_or(if args.quick { 200 } else { 10_000 });
    let wingbeat = args.common.wingbeat()?;
    // That the machine is busy is the point.
    let mut origin = Origin::now();
    origin.notes.clear();
    for peer in &PEERS {
        if let Some(install) = tools::missing(peer.name) {
            origin.notes.push(format!("{} was not there to be measured: {install}.", peer.name));
        }
    }
    // probee attaches by its files.
    let _tracefs = Tracefs::mounted()?;
    let folder = fresh(NAME)?;
    let mut agent = Command::new(wingbeat);
    agent.args(["agent", "--max-cpu", "100%", "--metrics", "127.0.0.1:0", "--keep"]);
    agent.arg(folder.join("kept"));
    let said = folder.join("said");
    let file = fs::File::create(&said).context("cannot write what the agent says")?;
    let child = agent.stderr(file).spawn().context("cannot start the agent")?;
    let agent = Ended(child);
    let watched = Watched { agent: &agent.0, address: address(&said)? };
    let busy = load::busy().context("cannot start the load")?;
    let length = Duration::from_secs(u64::from(minutes) * 60);
    let begin = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    let (rows, peers) = watch(&watched, (length, processes), &folder, stop)?;
    drop(busy);
    Ok(Record { origin, begin, rows, peers })
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

/// Starts short processes, evenly, asks the agent now and then, and has one peer after the other run beside it.
fn watch(
    watched: &Watched<'_>,
    (length, processes): (Duration, u32),
    folder: &Path,
    stop: &Stop,
) -> anyhow::Result<(Vec<Row>, Vec<Taken>)> {
    let sink = Sink::start()?;
    let begun = Instant::now();
    let (pause, between_rows) = (length / processes.max(1), length / ROWS);
    let (mut rows, mut taken) = (Vec::new(), Vec::new());
    let mut next = PEERS.iter().filter(|peer| tools::missing(peer.name).is_none());
    let mut running: Option<(Running, Duration)> = None;
    let mut started = 0;
    let mut looked = Duration::ZERO;
    while begun.elapsed() < length && !stop.is_asked() {
        load::short(started).context("cannot start a short process")?;
        started += 1;
        let now = begun.elapsed();
        if now >= between_rows * (rows.len() as u32 + 1) {
            let row = Row { seconds: now.as_secs_f64(), processes: started, ..watched.row()? };
            eprintln!("{row:?}");
            rows.push(row);
        }
        if now >= length.mul_f64(PEERS_BEGIN) && now >= looked + Duration::from_secs(2) {
            looked = now;
            let agent = watched.account()?.cpu_seconds();
            if let Some((peer, _)) = &mut running {
                peer.look(length.mul_f64(WARM_UP), agent);
            }
            if let Some((peer, _)) = running.take_if(|(_, until)| now >= *until) {
                taken.push(peer.end(&sink)?);
                eprintln!("{:?}", taken.last());
            }
            if running.is_none()
                && let Some(peer) = next.next()
            {
                let started = Running::start(peer, &folder.join(peer.name), &sink, agent)?;
                running = Some((started, now + length.mul_f64(PEER_LENGTH)));
            }
        }
        thread::sleep((pause * started as u32).saturating_sub(begun.elapsed()));
    }
    if !stop.is_asked() {
        let seconds = begun.elapsed().as_secs_f64();
        rows.push(Row { seconds, processes: started, ..watched.row()? });
    }
    Ok((rows, taken))
}

/// The agent, and where it serves its figures.
struct Watched<'a> {
    agent: &'a Child,
    address: String,
}

impl Watched<'_> {
    fn account(&self) -> anyhow::Result<Account> {
        Account::of(self.agent.id())
    }

    fn row(&self) -> anyhow::Result<Row> {
        let text = metrics(&self.address)?;
        let of = |name: &str| -> anyhow::Result<f64> {
            let name = format!("wingbeat_agent_{name} ");
            let line = text.lines().find_map(|line| line.strip_prefix(&name));
            line.and_then(|value| value.parse().ok()).with_context(|| format!("there is no {name}"))
        };
        let descriptors =
            fs::read_dir(format!("/proc/{}/fd", self.agent.id())).context("the agent ended")?;
        let broken = |line: &str| {
            let rest = line.strip_prefix("wingbeat_agent_stacks_broken_total{")?;
            rest.rsplit_once(' ')?.1.parse::<u64>().ok()
        };
        let account = self.account()?;
        Ok(Row {
            cpu_seconds: account.cpu_seconds(),
            memory_bytes: account.memory_bytes,
            bpf_bytes: of("bpf_memory_bytes")? as u64,
            descriptors: descriptors.count() as u64,
            samples: of("samples_total")? as u64,
            broken: text.lines().filter_map(broken).sum(),
            lost: (of("samples_lost_total")? + of("events_lost_total")?) as u64,
            ..Row::default()
        })
    }
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
