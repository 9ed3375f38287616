//! An agent, a target, and a server that receives its pushes.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use flate2::read::GzDecoder;
use prost::Message as _;

use crate::target::{Background, build_with};

pub(crate) fn agent(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
    command.arg("agent").args(words).env("CACHE_DIRECTORY", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// A process that computes in `busy_work` until dropped.
pub(crate) fn busy(folder: &Path) -> Background {
    Background::start(&busy_program(folder), &[])
}

pub(crate) fn busy_program(folder: &Path) -> PathBuf {
    let source =
        "OWN void busy_work(void) { spin(10000000); } int main(void) { for (;;) busy_work(); }";
    build_with(folder, "busy", source, &[])
}

/// CPU time of a process so far, by the kernel's accounting (proc_pid_stat(5)): in hundredths of a second.
pub(crate) fn cpu_time(pid: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<&str> = text.rsplit(')').next().expect("a name").split_whitespace().collect();
    let ticks = |field: usize| fields[field].parse::<u64>().expect("a number");
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// The needed part of a pprof file (profile.proto).
#[derive(Clone, PartialEq, prost::Message)]
struct Pprof {
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
}

fn read(path: &Path) -> Pprof {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).expect("a file");
    GzDecoder::new(file).read_to_end(&mut bytes).expect("gzip");
    Pprof::decode(bytes.as_slice()).expect("a pprof file")
}

pub(crate) fn strings(path: &Path) -> Vec<String> {
    read(path).string_table
}

/// Sum of a file's values: CPU time, nanoseconds, or the like. Samples have no labels.
pub(crate) fn sum(path: &Path) -> i64 {
    let samples = read(path).sample;
    assert!(samples.iter().all(|sample| sample.label.is_empty()), "{samples:?}");
    samples.iter().filter_map(|sample| sample.value.last()).sum()
}

/// Depth of a file's heaviest stack.
pub(crate) fn depth_of_most(path: &Path) -> usize {
    let samples = read(path).sample;
    let most = samples.iter().max_by_key(|sample| sample.value.last());
    most.map_or(0, |sample| sample.location_id.len())
}

/// Head and body.
type Request = (String, Vec<u8>);

/// Accepts and records everything.
pub(crate) struct Engine {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    pub(crate) fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").expect("a port"))
    }

    /// At the address of a former engine.
    pub(crate) fn at(address: &SocketAddr) -> Self {
        Self::on(TcpListener::bind(address).expect("the port is free again"))
    }

    fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let (taken, over) = (Arc::clone(&requests), Arc::clone(&is_over));
        let serve = move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                if let Some(request) = answer(stream) {
                    taken.lock().expect("the requests").push(request);
                }
            }
        };
        Self { address, requests, is_over, thread: Some(thread::spawn(serve)) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("the requests").clone()
    }

    /// Stops it; returns its address.
    pub(crate) fn stop(mut self) -> SocketAddr {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        self.thread.take().expect("it runs").join().expect("it ends");
        self.address
    }
}

fn answer(stream: TcpStream) -> Option<Request> {
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut stream = reader.into_inner();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: 0\r\n";
    stream.write_all(&[&answer[..], b"Connection: close\r\n\r\n"].concat()).ok()?;
    Some((head, body))
}
