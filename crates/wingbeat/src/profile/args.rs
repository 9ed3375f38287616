//! Flags of `wingbeat profile`.

use std::{
    ffi::OsString,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use clap::{ArgGroup, Args, ValueEnum};
use wingbeat_agent::Pattern;
use wingbeat_profiler::{
    export::{Format, UnknownFormat},
    model::Mode,
    session::Unwind,
};

use crate::{
    receiver::ReceiverArgs,
    values::{self, FormatArgs, Named, Values, duration, moment_or_ago, named, size_bytes},
};

/// Flags of `wingbeat profile`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("target").required(true).args(["pid", "all", "from", "command"]))]
pub(crate) struct ProfileArgs {
    /// Process to sample; repeatable, or a list separated by commas
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Vec<u32>,
    /// Sample all processes, including kernel threads
    #[arg(short, long)]
    pub all: bool,
    /// Record nothing: show what wingbeat agent --keep DIR kept
    #[arg(long, value_name = "DIR", conflicts_with_all = OF_RECORDINGS)]
    pub from: Option<PathBuf>,
    /// Start of the time range to show of DIR: 90m, 2d (ago), 2026-11-27T14:00, 2026-11-27T14:00:00+01:00; UTC without
    /// a zone [default: all that was kept]
    #[arg(long, value_name = "TIME", value_parser = moment_or_ago)]
    pub since: Option<SystemTime>,
    /// End of the time range [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment_or_ago)]
    pub until: Option<SystemTime>,
    /// Show only services of this name, or pattern (web-*); repeatable
    #[arg(long, value_name = "NAME", value_parser = pattern)]
    pub service: Vec<Pattern>,
    /// Show only what has this label; VALUE may be a pattern; repeatable, and all of them count: container_id=4f**
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    pub label: Vec<(String, Pattern)>,
    /// Samples per second and CPU (on-cpu and wall). 99 rather than 100 avoids running in step with
    /// timers [default: 99]
    #[arg(short = 'F', long, value_name = "HZ", value_parser = frequency)]
    pub frequency: Option<u64>,
    /// Recording time: 10s, 500ms, 2m. A launched command then gets SIGTERM
    /// [default: until Ctrl-C, or until the targets end]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// What to measure: on-cpu samples running code, off-cpu measures how long threads sleep, wait or are
    /// preempted, wall does both, pages samples page faults and watches mmap and brk [default: on-cpu]
    #[arg(long = "mode", value_parser = named::<Mode>(), value_name = "MODE")]
    pub given_mode: Option<Mode>,
    /// Page faults for each sample (pages) [default: 64]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub faults: Option<u64>,
    /// Memory that .svg, .folded and .json show (pages) [default: touched]
    #[arg(long, value_enum, value_name = "WHICH")]
    pub show: Option<Memory>,
    /// Record only the sum of blocks (times off the CPU) shorter than this: 5ms, 0; without a unit, seconds
    /// (off-cpu and wall) [default: 1us]
    #[arg(long, value_name = "TIME", value_parser = duration_or_zero, allow_hyphen_values = true)]
    pub min_block: Option<Duration>,
    /// Show which thread ended each wait, and its stack (off-cpu and wall)
    #[arg(long)]
    pub wakers: bool,
    /// Leave threads that slept the whole time out of files and tables (off-cpu and wall)
    #[arg(long)]
    pub hide_idle: bool,
    /// Part of the stacks to write
    #[arg(long, value_enum, default_value_t, value_name = "WHICH")]
    pub stacks: StackHalf,
    /// Begin each stack with its thread, `process/thread-TID`, instead of its process (.svg and .folded)
    #[arg(long, conflicts_with = "from")]
    pub by_thread: bool,
    /// Show the functions by which Rust, tokio and the C library call the program as one frame, `[runtime]`
    #[arg(long)]
    pub fold_runtime: bool,
    /// How to walk user stacks
    #[arg(long, value_parser = named::<Unwind>(), default_value = "auto", value_name = "HOW")]
    pub unwind: Unwind,
    /// Kernel memory for unwind tables, 1M to 64M; when it is full, the one asked for longest ago makes room
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = unwind_bytes)]
    pub unwind_memory: u64,
    /// Download missing debug information from the servers in DEBUGINFOD_URLS, or from URLS instead;
    /// without this flag no server is asked. The output waits for at most 30 seconds (DEBUGINFOD_MAXTIME)
    #[arg(long, value_name = "URLS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "")]
    pub debuginfod: Vec<String>,
    /// Do not follow child processes
    #[arg(long)]
    pub no_inherit: bool,
    /// Write to FILE; repeatable. The suffix sets the format: .svg flame graph, .folded collapsed stacks, .pb.gz pprof, .json or .json.gz Firefox Profiler
    #[arg(short, long, value_name = "FILE", default_value = "wingbeat.svg", value_parser = output)]
    pub output: Vec<PathBuf>,
    #[command(flatten)]
    pub receiver: ReceiverArgs,
    /// Write a summary of the recording as JSON; '-' is stdout
    #[arg(long, value_name = "FILE")]
    pub summary_json: Option<PathBuf>,
    #[command(flatten)]
    pub format: FormatArgs<values::Format>,
    /// Size of the ring buffer, a power of two from 4K: 512K, 16M
    /// [default: by frequency and CPUs, 16M to 64M; with --all at least 32M]
    #[arg(long, value_name = "SIZE", value_parser = buffer_bytes)]
    pub buffer_size: Option<u32>,
    /// Command to launch and sample from its first instruction, with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Flags that do not apply to saved windows.
const OF_RECORDINGS: [&str; 14] = [
    "frequency",
    "duration",
    "faults",
    "min_block",
    "wakers",
    "hide_idle",
    "unwind",
    "unwind_memory",
    "debuginfod",
    "no_inherit",
    "summary_json",
    "buffer_size",
    "format",
    "json",
];

impl ProfileArgs {
    pub(crate) fn mode(&self) -> Mode {
        self.given_mode.unwrap_or(Mode::OnCpu)
    }
}

impl Named for Mode {
    const VALUES: Values<Self> = &[
        (Self::OnCpu, Self::OnCpu.name(), "Samples of what runs"),
        (Self::OffCpu, Self::OffCpu.name(), "Time off the CPU: asleep, waiting, preempted"),
        (Self::Wall, Self::Wall.name(), "Both, in nanoseconds"),
        (
            Self::Pages,
            Self::Pages.name(),
            "Page faults, mmap and brk: where memory grows, in any program",
        ),
    ];
}

/// Memory of a recording of page faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Memory {
    /// What was touched first, by samples of page faults
    #[default]
    Touched,
    /// Anonymous memory mapped by mmap, mremap and brk
    Mapped,
    /// The part not unmapped since
    Kept,
}

impl Named for Unwind {
    const VALUES: Values<Self> = &[
        (
            Self::Auto,
            Self::Auto.name(),
            "By the unwind tables of the files, by frame pointers where code has none",
        ),
        (Self::FramePointer, Self::FramePointer.name(), "By frame pointers only"),
        (Self::Table, Self::Table.name(), "By unwind tables only"),
    ];
}

/// Halves of a stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum StackHalf {
    /// Kernel frames on top of user frames
    #[default]
    Both,
    /// User frames only; samples in kernel threads are dropped
    User,
    /// Kernel frames only; samples in user code are dropped
    Kernel,
}

fn output(text: &str) -> Result<PathBuf, UnknownFormat> {
    let path = PathBuf::from(text);
    Format::from_path(&path).map(|_| path)
}

fn pattern(text: &str) -> Result<Pattern, String> {
    match text.is_empty() {
        true => Err("expected a name, or a pattern such as web-*".to_owned()),
        false => Ok(Pattern::new(text)),
    }
}

fn label(text: &str) -> Result<(String, Pattern), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), Pattern::new(value))),
        _ => Err("expected NAME=VALUE, such as host_name=web-*".to_owned()),
    }
}

fn duration_or_zero(text: &str) -> Result<Duration, String> {
    if text.parse() == Ok(0.0) { Ok(Duration::ZERO) } else { duration(text) }
}

fn frequency(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("the frequency must be a whole number of Hz, at least 1".to_owned()),
        Ok(frequency_hz) => Ok(frequency_hz),
    }
}

fn buffer_bytes(text: &str) -> Result<u32, String> {
    match size_bytes(text)? {
        Some(bytes) if bytes.is_power_of_two() && (4096..=1 << 30).contains(&bytes) => Ok(bytes),
        _ => Err("the size must be a power of two from 4K to 1024M".to_owned()),
    }
}

pub(crate) fn unwind_bytes(text: &str) -> Result<u64, String> {
    match size_bytes(text)? {
        Some(bytes) if (1 << 20..=64 << 20).contains(&bytes) => Ok(bytes.into()),
        _ => Err("the size must be from 1M to 64M".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_sizes() {
        let check = |text, expected| assert_eq!(buffer_bytes(text).ok(), expected, "{text}");
        check("4096", Some(4096));
        check("512K", Some(512 << 10));
        check("16M", Some(16 << 20));
        check("3M", None);
        check("1K", None);
        check("99999999999M", None);
        check("1G", Some(1 << 30));
        check("2G", None);
        check("", None);
    }
}
