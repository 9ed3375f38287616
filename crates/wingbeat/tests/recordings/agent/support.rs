//! An agent, a target, and the reply to its pushes.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use flate2::read::GzDecoder;
use prost::Message as _;
use wingbeat_http::testing::Reply;

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

/// Accepts everything.
pub(crate) fn accepted(_line: &str, _earlier: usize) -> Reply {
    Reply::answer(200, "content-type: application/proto\r\n", "")
}
