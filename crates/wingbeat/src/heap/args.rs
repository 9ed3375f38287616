//! Flags of `wingbeat heap`.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{ArgGroup, Args, ValueEnum};
use wingbeat_profiler::export::{UnknownFormat, by_suffix};

use crate::{
    receiver::{ReceiverArgs, is_picture},
    values::{duration, size_bytes},
};

/// Flags of `wingbeat heap`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("heap_target").required(true).args(["pid", "command"]))]
pub(crate) struct HeapArgs {
    /// Process to watch; repeatable, or a list separated by commas
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Vec<u32>,
    /// Recording time: 10s, 500ms, 2m. A launched command then gets SIGTERM
    /// [default: until Ctrl-C, or until the targets end]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Mean bytes between two sampled allocations: 64K, 1M. Smaller is more precise, and costs more
    #[arg(long, value_name = "BYTES", default_value = "512K", value_parser = sample_bytes)]
    pub sample: u32,
    /// Take every allocation
    #[arg(long, conflicts_with = "sample")]
    pub exact: bool,
    /// Percent of its CPU time by which a running process may become slower; if calls of its allocator would cost
    /// more, nothing is recorded
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    pub budget: u32,
    /// Bytes that .svg and .folded show
    #[arg(long, value_enum, default_value_t, value_name = "WHICH")]
    pub show: Show,
    /// Do not follow child processes
    #[arg(long)]
    pub no_inherit: bool,
    /// Write to FILE; repeatable. The suffix sets the format: .json DHAT, .pb.gz pprof, .svg flame graph, .folded
    /// collapsed stacks
    /// [default: none; with --open wingbeat.svg]
    #[arg(short, long, value_name = "FILE", value_parser = output)]
    pub output: Vec<PathBuf>,
    #[command(flatten)]
    pub receiver: ReceiverArgs,
    /// Command to launch and watch from its first instruction, with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl HeapArgs {
    /// The output files: a flame graph if it is to be opened and no file is given. None if no given file is a flame
    /// graph.
    pub(super) fn outputs(&self) -> Option<Vec<PathBuf>> {
        let named = &self.output;
        match self.receiver.open && !named.iter().any(|path| is_picture(path)) {
            true => named.is_empty().then(|| vec![PathBuf::from("wingbeat.svg")]),
            false => Some(named.clone()),
        }
    }
}

/// What pictures show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Show {
    /// What is live at the end
    #[default]
    Live,
    /// What was live when most was
    Peak,
    /// All that was allocated, freed or not
    Total,
}

/// Format of a heap profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeapFormat {
    Dhat,
    Pprof,
    FlameGraph,
    Folded,
}

/// File suffixes of the formats.
const SUFFIXES: [(&str, HeapFormat); 4] = [
    (".json", HeapFormat::Dhat),
    (".pb.gz", HeapFormat::Pprof),
    (".svg", HeapFormat::FlameGraph),
    (".folded", HeapFormat::Folded),
];

impl HeapFormat {
    pub(crate) fn from_path(path: &Path) -> Result<Self, UnknownFormat> {
        by_suffix(path, &SUFFIXES)
    }
}

impl fmt::Display for HeapFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dhat => "DHAT",
            Self::Pprof => "pprof",
            Self::FlameGraph => "flame graph",
            Self::Folded => "collapsed stacks",
        })
    }
}

fn output(text: &str) -> Result<PathBuf, UnknownFormat> {
    let path = PathBuf::from(text);
    HeapFormat::from_path(&path).map(|_| path)
}

fn sample_bytes(text: &str) -> Result<u32, String> {
    match size_bytes(text)? {
        Some(bytes) if (16..=1 << 30).contains(&bytes) => Ok(bytes),
        _ => {
            Err("the distance must be from 16 to 1024M; --exact takes every allocation".to_owned())
        }
    }
}
