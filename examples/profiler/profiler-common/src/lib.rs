//! What crosses the border between the two halves of the example profiler.
//!
//! The kernel half fills a [`Sample`] in the ring buffer; the user half reads its bytes. Both compile
//! this crate, and with it the assertions on the layout, so they cannot disagree about it.
#![no_std]

/// Maximum frames per sample: the kernel's limit unless `kernel.perf_event_max_stack` was raised.
/// Deeper stacks lose their outermost frames.
pub const STACK_FRAMES_MAX: usize = 127;

/// Bytes of the addresses of a full stack.
pub const STACK_BYTES_MAX: usize = STACK_FRAMES_MAX * size_of::<u64>();

/// Bytes of a [`SampleHeader`].
pub const SAMPLE_HEADER_BYTES: usize = 24;

/// Size of a [`Sample`]: constant, regardless of stack depth.
pub const SAMPLE_BYTES: usize = SAMPLE_HEADER_BYTES + STACK_BYTES_MAX;

/// Thread and time of a sample.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleHeader {
    /// Nanoseconds since boot, excluding suspend (`CLOCK_MONOTONIC`).
    pub ktime: u64,
    /// Process id. The kernel calls it thread group id, and uses "pid" for threads.
    pub pid: u32,
    pub tid: u32,
    /// Bytes of the stack that follows: 8 per frame, at most [`STACK_BYTES_MAX`].
    pub stack_len: u64,
}

/// One sample.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Thread and time.
    pub header: SampleHeader,
    /// Addresses in user space, innermost frame first. Only the first `stack_len` bytes are valid;
    /// the rest is stale data of the ring buffer.
    pub stack: [u64; STACK_FRAMES_MAX],
}

const _: () = assert!(size_of::<SampleHeader>() == SAMPLE_HEADER_BYTES);
const _: () = assert!(size_of::<Sample>() == SAMPLE_BYTES);
// The ring buffer aligns memory to 8 bytes and no more.
const _: () = assert!(align_of::<Sample>() == 8);
