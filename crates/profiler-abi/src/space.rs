//! System calls that change the address space of targets.

use crate::RecordKind;

/// Kinds of calls.
pub mod call {
    /// `mmap` of memory without a file, at `address`.
    pub const MAP: u8 = 1;
    /// `munmap`.
    pub const UNMAP: u8 = 2;
    /// `brk`, to `address`, or a query of the current break.
    pub const BREAK: u8 = 3;
    /// `mremap`: from `old_address` to `address`.
    pub const REMAP: u8 = 4;
    /// `mmap` of a file over existing mappings.
    pub const COVER: u8 = 5;
}

/// A successful call. The stack of calls that may map memory is sent before it.
#[cfg_attr(feature = "zerocopy", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[cfg_attr(feature = "zerocopy", derive(zerocopy::KnownLayout, zerocopy::Immutable))]
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceRecord {
    /// [`RecordKind::Space`].
    pub kind: u8,
    /// See [`call`].
    pub call: u8,
    pub reserved: [u8; 2],
    pub pid: u32,
    pub tid: u32,
    pub reserved_too: u32,
    pub address: u64,
    /// As passed to the call: not rounded to pages.
    pub bytes: u64,
    pub old_address: u64,
    pub old_bytes: u64,
    /// Time of the stack, sent by the same thread; 0 if none was sent.
    pub stack_ns: u64,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
}

impl SpaceRecord {
    pub const EMPTY: Self = Self {
        kind: RecordKind::Space as u8,
        call: 0,
        reserved: [0; 2],
        pid: 0,
        tid: 0,
        reserved_too: 0,
        address: 0,
        bytes: 0,
        old_address: 0,
        old_bytes: 0,
        stack_ns: 0,
        time_ns: 0,
    };
}

/// Size of [`SpaceRecord`] in bytes.
pub const SPACE_RECORD_BYTES: usize = 64;
const _: () = assert!(size_of::<SpaceRecord>() == SPACE_RECORD_BYTES);
