//! What crosses the border between the two halves of the example profiler.
//!
//! The kernel half fills a [`Sample`] in the ring buffer; the user half reads its bytes. Both compile
//! this crate, and with it the assertions on the layout, so they cannot disagree about it.
#![no_std]

/// Frames kept per sample: what the kernel takes at most unless `kernel.perf_event_max_stack` was
/// raised. Deeper stacks lose their outermost frames.
pub const STACK_FRAMES_MAX: usize = 127;

/// Bytes of the addresses of a full stack.
pub const STACK_BYTES_MAX: usize = STACK_FRAMES_MAX * size_of::<u64>();

/// Bytes of a [`SampleHeader`].
pub const SAMPLE_HEADER_BYTES: usize = 24;

/// Bytes of a [`Sample`]: every sample takes as much, whatever the depth of its stack.
pub const SAMPLE_BYTES: usize = SAMPLE_HEADER_BYTES + STACK_BYTES_MAX;

/// Who was sampled, and when.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleHeader {
    /// Nanoseconds since boot, without the time that the machine was suspended (`CLOCK_MONOTONIC`).
    pub ktime: u64,
    /// The process. The kernel calls it thread group, and means the thread when it says "pid".
    pub pid: u32,
    pub tid: u32,
    /// Bytes of the stack that follow: 8 per frame, at most [`STACK_BYTES_MAX`].
    pub stack_len: u64,
}

/// One sample.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Who and when.
    pub header: SampleHeader,
    /// Addresses in user space, innermost frame first. Only the first `stack_len` bytes were written;
    /// the rest is what the ring buffer held before.
    pub stack: [u64; STACK_FRAMES_MAX],
}

const _: () = assert!(size_of::<SampleHeader>() == SAMPLE_HEADER_BYTES);
const _: () = assert!(size_of::<Sample>() == SAMPLE_BYTES);
// The ring buffer hands out memory that is aligned to 8 bytes and no more.
const _: () = assert!(align_of::<Sample>() == 8);
