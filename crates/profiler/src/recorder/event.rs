//! Process events for the recorder.

pub use crate::proc::MappedFile;

/// A process event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    pub kind: EventKind,
}

/// The kinds of [`Event`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// Executable memory was mapped.
    Map {
        pid: u32,
        /// What and where.
        file: MappedFile,
    },
    /// A thread changed its name.
    Name {
        pid: u32,
        tid: u32,
        name: String,
        /// The name changed by an `exec`.
        exec: bool,
    },
    /// A thread was created; a process, if it has its own PID.
    Fork {
        pid: u32,
        tid: u32,
        /// The creating process.
        parent: u32,
        creator: u32,
    },
    /// Kernel code appeared or disappeared: a BPF program or trampoline.
    KernelCode(KernelCode),
    Exit {
        pid: u32,
        tid: u32,
    },
}

impl EventKind {
    /// The affected process, if any.
    pub(crate) fn pid(&self) -> Option<u32> {
        match *self {
            Self::Map { pid, .. }
            | Self::Name { pid, .. }
            | Self::Fork { pid, .. }
            | Self::Exit { pid, .. } => Some(pid),
            Self::KernelCode(_) => None,
        }
    }
}

/// Code that the kernel generated at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelCode {
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    pub name: String,
    /// It is a BPF program, or part of one.
    pub is_bpf: bool,
}
