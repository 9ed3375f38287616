//! Other profilers that watch a whole machine for as long as it runs, each for some minutes beside the agent: the
//! same machine, the same load, the same minutes.

use std::{
    collections::HashMap,
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::{
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
    command: fn(&Path, &str) -> Command,
}

/// Those that Debian and crates.io have. PyPI has profilers of Python programs.
pub(super) const PEERS: [Peer; 3] = [
    Peer {
        name: "lightswitch",
        chain: "lightswitch --sample-freq 19 --sender pyroscope",
        gives: "pprof with names every 5 s, to a server",
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
        server: &str,
        agent: f64,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let said = folder.join("said");
        let file = create(&said)?;
        let also = file.try_clone().context("cannot write what it says")?;
        let mut command = (peer.command)(folder, server);
        command.process_group(0).stdin(Stdio::null()).stdout(file).stderr(also);
        let process = command.spawn().with_context(|| format!("cannot start {}", peer.name))?;
        let begin = Span { agent_cpu_seconds: agent, ..Span::default() };
        let (begun, warm) = (Instant::now(), None);
        Ok(Self { peer, process, said, begun, begin, warm, now: begin, memory_bytes_max: 0 })
    }

    /// Looks at it. After `warm_up`, what it takes is counted anew.
    pub(super) fn look(&mut self, warm_up: Duration, agent: f64) -> anyhow::Result<()> {
        let (cpu_seconds, memory_bytes) = tree(self.process.id())?;
        let seconds = self.begun.elapsed().as_secs_f64();
        // A process that ended has nothing left to show.
        let cpu_seconds = cpu_seconds.max(self.now.cpu_seconds);
        self.now = Span { seconds, cpu_seconds, agent_cpu_seconds: agent };
        self.memory_bytes_max = self.memory_bytes_max.max(memory_bytes);
        if self.begun.elapsed() >= warm_up && self.warm.is_none() {
            self.warm = Some(self.now);
        }
        Ok(())
    }

    /// Ends it.
    pub(super) fn end(mut self) -> anyhow::Result<Taken> {
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

/// CPU seconds and resident memory of a process and all that it started.
pub(super) fn tree(root: u32) -> anyhow::Result<(f64, u64)> {
    let mut processes: HashMap<u32, (u32, u64, u64)> = HashMap::new();
    for entry in fs::read_dir("/proc").context("cannot read /proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // It may have ended since.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        processes.extend(process(&stat).map(|found| (pid, found)));
    }
    let is_below = |mut pid: u32| {
        // A number that was given again while all were read may lead around in a circle.
        for _ in 0..=processes.len() {
            if pid == root {
                return true;
            }
            match processes.get(&pid) {
                Some((parent, ..)) => pid = *parent,
                None => return false,
            }
        }
        false
    };
    let of = processes.iter().filter(|(pid, _)| is_below(**pid)).map(|(_, found)| found);
    let (ticks, pages) = of.fold((0, 0), |sum, (_, ticks, pages)| (sum.0 + ticks, sum.1 + pages));
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    Ok((ticks as f64 / per_second, pages * rustix::param::page_size() as u64))
}

/// Parent, ticks with those of children that were waited for, and resident pages, of `/proc/PID/stat`.
fn process(stat: &str) -> Option<(u32, u64, u64)> {
    // The name of the program may have blanks and brackets.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // The state is the third field of all, proc(5).
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks = (14..=17).map(field).sum::<Option<u64>>()?;
    Some((field(4)? as u32, ticks, field(24)?))
}

/// A server that takes all that is pushed, and keeps nothing. Its address.
pub(super) fn sink() -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
    let address = listener.local_addr().context("cannot listen")?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that leaves is no error here.
            thread::spawn(move || swallow(stream));
        }
    });
    Ok(format!("http://{address}"))
}

fn swallow(mut stream: TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        io::copy(&mut reader.by_ref().take(length), &mut io::sink())?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read() {
        let stat = "7 (a) b) S 3 7 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 5 6 77 9 10";
        assert_eq!(process(stat), Some((3, 100, 77)));
        assert_eq!(process("7 (a) S 3"), None);
    }

    #[test]
    fn a_process_counts_with_its_children() {
        let spin = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; sleep 60";
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", spin]).process_group(0).spawn().expect("it starts");
        let begun = Instant::now();
        let found = loop {
            let (cpu_seconds, memory_bytes) = tree(child.id()).expect("it is there");
            if cpu_seconds > 0.0 && memory_bytes > 0 || begun.elapsed() > Duration::from_secs(30) {
                break cpu_seconds;
            }
            thread::sleep(Duration::from_millis(20));
        };
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let _ = child.wait();
        assert!(found > 0.0);
    }

    #[test]
    fn the_sink_answers_each_request() {
        let address = sink().expect("it listens");
        let address = address.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).expect("connected");
        for body in ["a", "", "bb"] {
            let length = body.len();
            write!(stream, "POST /push HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}")
                .expect("sent");
            let mut answer = [0; 38];
            stream.read_exact(&mut answer).expect("it answers");
            assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
        }
    }
}
