//! What happens to processes, as the recorder needs to know it.

/// Something that happened to a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    /// What happened.
    pub kind: EventKind,
}

/// The kinds of [`Event`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// Executable memory was mapped.
    Map {
        /// Process.
        pid: u32,
        /// What and where.
        file: MappedFile,
    },
    /// A thread has a new name.
    Name {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// The name.
        name: String,
        /// The name came with a new program.
        exec: bool,
    },
    /// A thread was born; a process, if it has its own PID.
    Fork {
        /// Its process.
        pid: u32,
        /// It.
        tid: u32,
        /// The process that it came from.
        parent: u32,
        /// The thread that made it.
        creator: u32,
    },
    /// Code appeared in the kernel, or went: a BPF program, a trampoline.
    KernelCode(KernelCode),
    /// A thread ended.
    Exit {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
    },
}

/// An executable mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedFile {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Offset in the file of the first address.
    pub offset: u64,
    /// Device of the file, major and minor.
    pub device: (u32, u32),
    /// Inode of the file; 0 when there is no file.
    pub inode: u64,
    /// Path as the process saw it, or a name such as `[vdso]` or `//anon`.
    pub path: String,
}

/// A piece of code that the kernel made at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelCode {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// The kernel's name for it.
    pub name: String,
    /// It is, or belongs to, a BPF program.
    pub is_bpf: bool,
}
