//! Other profilers that watch a whole machine for as long as it runs, each for some minutes beside the agent: the
//! same machine, the same load, the same minutes.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use super::sink::Sink;
use crate::{
    account::Account,
    comparison::{create, last_line},
    tools,
};

/// A profiler of whole machines.
pub(super) struct Peer {
    /// The program, as `tools` knows it.
    pub(super) name: &'static str,
    /// What is run, for the table.
    pub(super) chain: &'static str,
    /// What comes of it.
    pub(super) gives: &'static str,
    /// Whether it pushes to the server whose URL it gets.
    pub(super) pushes: bool,
    command: fn(&Path, &str) -> Command,
}

/// Those that Debian and crates.io have. PyPI has profilers of Python programs.
pub(super) const PEERS: [Peer; 3] = [
    Peer {
        name: "lightswitch",
        chain: "lightswitch --sample-freq 19 --sender pyroscope",
        gives: "pprof with names every 5 s, to a server",
        pushes: true,
        command: |folder, server| {
            // It starts only where tracefs is in the old place, which is so in mounts of its own.
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c"]).arg(
                "mount -t debugfs debugfs /sys/kernel/debug; \
                 [ -d /sys/kernel/debug/tracing/events ] || mount -t tracefs tracefs /sys/kernel/debug/tracing; \
                 exec lightswitch --sample-freq 19 --duration 86400 --sender pyroscope \
                 --server-url \"$0\" --cache-dir-base \"$1\"",
            );
            command.arg(server).arg(folder);
            command
        },
    },
    Peer {
        name: "probee",
        chain: "probee -f 19 --dwarf --flush-interval 15000 -o FILE",
        gives: "stacks every 15 s, for what it sends them to",
        pushes: false,
        command: |folder, _| {
            let mut command = Command::new("probee");
            command.args(["-f", "19", "--dwarf", "true", "--flush-interval", "15000", "-o"]);
            command.arg(folder.join("profile.pb.gz"));
            command
        },
    },
    Peer {
        name: "perf",
        chain: "perf record -F 19 -a --call-graph dwarf -- sleep 15, then perf script, again and again",
        gives: "text with names every 15 s",
        pushes: false,
        command: |folder, _| {
            let mut command = Command::new("sh");
            command.current_dir(folder).arg("-c").arg(
                "while :; do perf record -q -F 19 -a --call-graph dwarf -o samples -- sleep 15 && \
                 perf script -i samples > stacks; done",
            );
            command
        },
    },
];

/// What a profiler took, beside what the agent took.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Taken {
    pub(super) name: String,
    pub(super) version: String,
    /// From the start to the end of the warm-up, and from there to its end.
    pub(super) warming: Span,
    pub(super) running: Span,
    /// The most that its processes had at a time.
    pub(super) memory_bytes_max: u64,
    /// What came to the server meanwhile. It was not looked at in the first records.
    #[serde(default)]
    pub(super) pushed_bytes: Option<u64>,
    /// What it said last, if it ended by itself.
    pub(super) ended: Option<String>,
}

/// Some time, and CPU time in it.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Span {
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    pub(super) agent_cpu_seconds: f64,
}

impl Span {
    /// Since an earlier time.
    fn since(self, before: Self) -> Self {
        Self {
            seconds: self.seconds - before.seconds,
            cpu_seconds: self.cpu_seconds - before.cpu_seconds,
            agent_cpu_seconds: self.agent_cpu_seconds - before.agent_cpu_seconds,
        }
    }
}

/// A profiler at work.
pub(super) struct Running {
    peer: &'static Peer,
    process: Child,
    said: PathBuf,
    begun: Instant,
    /// What the server had received before.
    received_bytes: u64,
    begin: Span,
    warm: Option<Span>,
    now: Span,
    memory_bytes_max: u64,
}

impl Running {
    /// Starts it, with what it writes in a folder. `agent` is CPU time of the agent until now.
    pub(super) fn start(
        peer: &'static Peer,
        folder: &Path,
        sink: &Sink,
        agent: f64,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let said = folder.join("said");
        let file = create(&said)?;
        let also = file.try_clone().context("cannot write what it says")?;
        let mut command = (peer.command)(folder, &sink.url);
        command.process_group(0).stdin(Stdio::null()).stdout(file).stderr(also);
        let process = command.spawn().with_context(|| format!("cannot start {}", peer.name))?;
        let begin = Span { agent_cpu_seconds: agent, ..Span::default() };
        let (begun, warm) = (Instant::now(), None);
        let received_bytes = sink.received_bytes();
        let now = begin;
        Ok(Self {
            peer,
            process,
            said,
            begun,
            received_bytes,
            begin,
            warm,
            now,
            memory_bytes_max: 0,
        })
    }

    /// Looks at it. After `warm_up`, what it takes is counted anew.
    pub(super) fn look(&mut self, warm_up: Duration, agent: f64) {
        // One that ended by itself has nothing more to show.
        let account = Account::of(self.process.id()).unwrap_or_default();
        let Account { memory_bytes, .. } = account;
        let seconds = self.begun.elapsed().as_secs_f64();
        let cpu_seconds = account.cpu_seconds().max(self.now.cpu_seconds);
        self.now = Span { seconds, cpu_seconds, agent_cpu_seconds: agent };
        self.memory_bytes_max = self.memory_bytes_max.max(memory_bytes);
        if self.begun.elapsed() >= warm_up && self.warm.is_none() {
            self.warm = Some(self.now);
        }
    }

    /// Ends it.
    pub(super) fn end(mut self, sink: &Sink) -> anyhow::Result<Taken> {
        let ended = match self.process.try_wait().context("cannot wait for it")? {
            Some(status) => {
                let said = fs::read(&self.said).unwrap_or_default();
                let last = last_line(&String::from_utf8_lossy(&said)).to_owned();
                Some(format!("{status}: {last}"))
            }
            None => None,
        };
        let warm = self.warm.unwrap_or(self.now);
        Ok(Taken {
            name: self.peer.name.to_owned(),
            version: tools::version(self.peer.name),
            warming: warm.since(self.begin),
            running: self.now.since(warm),
            memory_bytes_max: self.memory_bytes_max,
            pushed_bytes: self.peer.pushes.then(|| sink.received_bytes() - self.received_bytes),
            ended,
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // All that it started, too.
        let group = Pid::from_child(&self.process);
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.process.wait();
    }
}
