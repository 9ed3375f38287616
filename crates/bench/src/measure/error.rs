//! Why nothing can be measured.

use std::{io, path::PathBuf};

use wingbeat_bpf::{
    live::{LoadError, MapError, RunError},
    spec::SpecError,
};

use crate::input::InputError;

/// Nothing can be measured. What concerns one program only is told with its results instead.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The object file.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// An input, or the contents of a map.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Loading.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A map.
    #[error(transparent)]
    Map(#[from] MapError),
    /// Running.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The contents of a map do not fit it.
    #[error("{path}: {reason}")]
    Contents {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The object has no programs.
    #[error(
        "{0} has no programs: it was compiled, but nothing in it is in a program section such as `xdp`"
    )]
    NoPrograms(String),
    /// `--map` names a map that is not there.
    #[error("{file} has no map {name:?}; it has {known}")]
    NoSuchMap {
        /// The object.
        file: String,
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The types of the kernel cannot be read.
    #[error(
        "{file} accesses kernel structures by field (CO-RE), but this kernel does not tell its types: {reason}"
    )]
    Target {
        /// The object.
        file: String,
        /// Why not.
        reason: String,
    },
    /// The CPU cannot be had.
    #[error("cannot run on CPU {cpu}: {source}; this process may use {allowed}")]
    Cpu {
        /// The CPU.
        cpu: usize,
        /// Those that it may use.
        allowed: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// Run-time statistics are on.
    #[error(
        "BPF run-time statistics are on (kernel.bpf_stats_enabled, or a tool such as bpftop holds them): they add 25 to 50 ns to every run, which makes a short program look several times as slow. Switch them off (`sysctl kernel.bpf_stats_enabled=0`), or measure all the same with --allow-stats"
    )]
    StatisticsOn,
    /// A part of the program that has to be there is missing.
    #[error("{0}")]
    NotMeasurable(String),
    /// The measuring thread ended without a word.
    #[error(
        "the measuring thread ended unexpectedly; this is a defect of wingbeat, please report it"
    )]
    Thread,
}
