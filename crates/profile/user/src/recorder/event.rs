//! What happens to processes, as the recorder needs to know it.

pub use crate::proc::MappedFile;

/// Something that happened to a process.
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
    /// A thread has a new name.
    Name {
        pid: u32,
        tid: u32,
        name: String,
        /// The name came with a new program.
        exec: bool,
    },
    /// A thread was born; a process, if it has its own PID.
    Fork {
        pid: u32,
        tid: u32,
        /// The process that it came from.
        parent: u32,
        creator: u32,
    },
    /// Code appeared in the kernel, or went: a BPF program, a trampoline.
    KernelCode(KernelCode),
    Exit {
        pid: u32,
        tid: u32,
    },
}

impl EventKind {
    /// The process that it happened to, if to one.
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

/// A piece of code that the kernel made at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelCode {
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    pub name: String,
    /// It is, or belongs to, a BPF program.
    pub is_bpf: bool,
}
