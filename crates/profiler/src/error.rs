//! Errors before and during a recording.

use std::io;

use thiserror::Error;

/// Why a target cannot be sampled.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TargetError {
    #[error(
        "no process has the PID {0}: it may have ended; `pgrep -a NAME` finds processes by name"
    )]
    NoSuchProcess(u32),
    #[error(
        "{tid} is a thread of the process {pid}: use --pid {pid}, which samples all its threads"
    )]
    Thread { tid: u32, pid: u32 },
    #[error(
        "PID {pid} ({name}) is a kernel thread, which runs no user code: \
         `wingbeat profile --all` samples kernel threads too"
    )]
    KernelThread { pid: u32, name: String },
    #[error(
        "PID {pid} ({name}) has ended and waits for its parent: there is nothing left to sample"
    )]
    Zombie { pid: u32, name: String },
    #[error(
        "the first thread of PID {0} has ended, and the kernel cannot probe a process without it: see where its \
         memory grows with `wingbeat profile --mode pages --pid {0}`"
    )]
    Headless(u32),
    #[error("the command is empty")]
    EmptyCommand,
}

/// Why a recording could not be made.
#[derive(Debug, Error)]
pub enum RecordError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("cannot run {program}: {source}")]
    Launch { program: String, source: io::Error },
    #[error("PID {0} ended while the recording was being set up")]
    Vanished(u32),
    #[error(
        "cannot sample at {asked} Hz: this machine allows 1 to {max} Hz \
         (sysctl kernel.perf_event_max_sample_rate)"
    )]
    Frequency { asked: u64, max: u64 },
    #[error(
        "no allocator that wingbeat knows was found in {target}: neither malloc and its kin, nor those of jemalloc, \
         mimalloc or tcmalloc, have a symbol there; `wingbeat profile --mode pages` shows without symbols where its memory grows"
    )]
    NoAllocator { target: String },
    #[error(
        "it calls its allocator so often that it would need {:.0} % more CPU time while it is watched, and the budget \
         is {budget_percent} %: raise it with --budget {:.0}, or see what runs with `wingbeat profile`",
        .share * 100.0, (.share * 110.0).ceil()
    )]
    OverBudget { share: f64, budget_percent: u32 },
    #[error(transparent)]
    Rights(#[from] wingbeat_bpf_loader::rights::MissingRights),
    #[error(transparent)]
    TooOld(#[from] wingbeat_bpf_loader::probe::TooOld),
    #[error("cannot read the kernel's type information: {0}")]
    Btf(#[from] wingbeat_bpf_loader::btf::BtfError),
    #[error("cannot {what}: {reason}{}", after(.reason))]
    Kernel { what: String, reason: String },
    #[error("cannot {what}: {source}{}", after_call(.source))]
    System { what: String, source: io::Error },
}

impl RecordError {
    /// The embedded object lacks a program or a map.
    pub(crate) fn missing(name: &str) -> Self {
        Self::Kernel {
            what: format!("find {name}"),
            reason: "the embedded object file lacks it".to_owned(),
        }
    }

    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::System { what, source }
    }

    pub(crate) fn kernel<E: std::error::Error>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |error| Self::Kernel { what, reason: chain(&error) }
    }
}

/// Remedy for too many open files.
const RAISE_LIMIT: &str = "; raise the limit of open files (`ulimit -n`) to 1024 or more";

fn is_at_limit(reason: &str) -> bool {
    [libc::EMFILE, libc::ENFILE].iter().any(|it| reason.contains(&format!("(os error {it})")))
}

/// Remedy for a refusal by the kernel.
fn after(reason: &str) -> &'static str {
    if is_at_limit(reason) {
        RAISE_LIMIT
    } else {
        "; `wingbeat doctor` shows what this kernel allows"
    }
}

fn after_call(error: &io::Error) -> &'static str {
    if is_at_limit(&error.to_string()) { RAISE_LIMIT } else { "" }
}

/// Formats an error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
