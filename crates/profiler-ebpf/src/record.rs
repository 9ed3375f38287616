//! Stack records: assembled in scratch memory, sent through the ring buffer.

use core::ffi::c_void;

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP, pt_regs},
    helpers::{
        bpf_get_current_cgroup_id, bpf_get_smp_processor_id,
        generated::{bpf_get_stack, bpf_ringbuf_output},
    },
};
use wingbeat_profiler_abi::{
    KERNEL_FRAMES_MAX, RECORD_BYTES_MAX, RecordKind, StackHeader, Stop, USER_FRAMES_MAX, counter,
    off_cpu::HalfHeader, ring_bytes, unwind::Beside,
};

use crate::{
    copy,
    hash::mix,
    maps::{RECORDS, SCRATCH, count, scratch, setting},
    regs::UserRegs,
    stack,
};

/// A record under construction. Its header begins with a [`StackHeader`].
#[repr(C)]
pub struct StackRecord<Header> {
    header: *mut Header,
    frames: *mut u64,
    /// Part of the scratch memory.
    part: u32,
}

/// The record of a sample.
pub type SampleRecord = StackRecord<StackHeader>;

/// The record of half a stack.
pub type HalfRecord = StackRecord<HalfHeader>;

impl<Header> Clone for StackRecord<Header> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<Header> Copy for StackRecord<Header> {}

/// Thread and time of a stack.
#[derive(Clone, Copy)]
pub struct Whose {
    pub pid: u32,
    pub tid: u32,
    pub time_ns: u64,
}

impl SampleRecord {
    /// Begins an allocation's stack, without frames, in a part of the scratch memory.
    #[inline(always)]
    pub fn allocation(part: u32, whose: Whose) -> Option<Self> {
        Self::begin(part, stack_header(RecordKind::AllocationStack, whose))
    }

    /// Begins a sample. `None` if the scratch memory is missing, which cannot happen.
    #[inline(always)]
    pub fn sample(kind: RecordKind, whose: Whose) -> Option<Self> {
        // SAFETY: a helper without arguments.
        let cgroup = unsafe { bpf_get_current_cgroup_id() };
        Self::begin(scratch::SAMPLE, StackHeader { cgroup, ..stack_header(kind, whose) })
    }
}

impl HalfRecord {
    /// Begins half a stack. `None` if the scratch memory is missing, which cannot happen.
    #[inline(always)]
    pub fn half(kind: RecordKind, whose: Whose) -> Option<Self> {
        Self::half_in(scratch::RECORD, kind, whose)
    }

    /// Same as [`half`](Self::half), in another part of the scratch memory.
    #[inline(always)]
    pub fn half_in(part: u32, kind: RecordKind, whose: Whose) -> Option<Self> {
        let stack = stack_header(kind, whose);
        let header = HalfHeader { stack, place: 0, flags: 0, reserved: [0; 6] };
        Self::begin(part, header)
    }

    /// Sets the place and the flags.
    #[inline(always)]
    pub fn set_place(self, place: u8, flags: u8) {
        // SAFETY: the header lies in the scratch memory.
        unsafe {
            (*self.header).place = place;
            (*self.header).flags = flags;
        }
    }

    /// Sets the registers of another thread, whose memory cannot be read here.
    #[inline(always)]
    pub fn note_user(self, user: UserRegs) {
        // SAFETY: header and frames lie in the scratch memory.
        unsafe {
            *self.frames = user.ip;
            (*self.stack()).user_frames = 1;
            (*self.stack()).stop = Stop::NoTable as u8;
            (*self.stack()).stop_sp = user.sp;
            (*self.stack()).stop_fp = user.bp;
            (*self.stack()).beside = user.beside;
        }
    }
}

impl<Header> StackRecord<Header> {
    #[inline(always)]
    fn begin(part: u32, header: Header) -> Option<Self> {
        let place: *mut Header = SCRATCH.get_ptr_mut(part)?.cast();
        // SAFETY: all pointers stay within the scratch memory, which holds the largest record.
        unsafe {
            *place = header;
            Some(Self { header: place, frames: place.add(1).cast(), part })
        }
    }

    #[inline(always)]
    fn stack(self) -> *mut StackHeader {
        self.header.cast()
    }

    /// Walks the user stack of the current thread, whose registers may all be known.
    #[inline(always)]
    pub fn walk_user(self, user: UserRegs, registers: Option<&pt_regs>) {
        stack::walk::<Header>(self.part, user, registers);
    }

    /// Whether the walk reached code without a table.
    #[inline(always)]
    pub fn has_no_table(self) -> bool {
        // SAFETY: the header lies in the scratch memory.
        unsafe { (*self.stack()).stop == Stop::NoTable as u8 }
    }

    /// If the walk reached code without a table, sends a copy of the stack so that user space can continue it.
    /// Called before the record itself is sent.
    #[inline(always)]
    pub fn send_copy(self) {
        if self.has_no_table() {
            // SAFETY: the header lies in the scratch memory.
            copy::send(self.part, unsafe { &*self.stack() });
        }
    }

    /// Appends the kernel stack of the current thread to the user frames.
    #[inline(always)]
    pub fn take_kernel(self, ctx: *mut c_void) -> Result<(), u32> {
        self.append_kernel(|buffer| {
            // SAFETY: the buffer is in the scratch memory and has that size.
            unsafe { bpf_get_stack(ctx, buffer, KERNEL_FRAMES_MAX as u32 * 8, 0) }
        })
    }

    /// Appends the kernel frames that `take` writes into a buffer of `KERNEL_FRAMES_MAX` words. `take` returns
    /// their size in bytes, or a negative error.
    #[inline(always)]
    pub fn append_kernel(self, take: impl FnOnce(*mut c_void) -> i64) -> Result<(), u32> {
        // SAFETY: the user frames are at most USER_FRAMES_MAX, and room for the kernel's follows.
        let buffer = unsafe {
            let user_frames = usize::from((*self.stack()).user_frames);
            if user_frames > USER_FRAMES_MAX {
                return Ok(());
            }
            self.frames.add(user_frames)
        };
        let got = take(buffer.cast());
        if got < 0 {
            return Err(-got as u32);
        }
        // SAFETY: as above.
        unsafe { (*self.stack()).kernel_frames = (got as u64 / 8) as u16 };
        Ok(())
    }

    /// Hashes the first kernel frames. There must be no user frames before them.
    #[inline(always)]
    pub fn hash_of_first_frames(self, hash: u64) -> u64 {
        let mut hash = hash;
        for index in 0..HASHED_FRAMES {
            // Volatile, or the compiler reads all words first, for which a BPF stack is too small. SAFETY: the
            // scratch memory holds that many frames.
            hash = mix(hash, unsafe { self.frames.add(index).read_volatile() });
        }
        hash
    }

    /// Sends the record. Returns false if the ring buffer is full.
    #[inline(always)]
    pub fn send(self) -> bool {
        // SAFETY: the header lies in the scratch memory.
        let words = unsafe {
            let StackHeader { user_frames, kernel_frames, .. } = *self.stack();
            u64::from(user_frames) + u64::from(kernel_frames)
        };
        let size = size_of::<Header>() as u64 + words * 8;
        if size > RECORD_BYTES_MAX as u64 {
            return true;
        }
        // SAFETY: the record lies in the scratch memory and has that size.
        unsafe { send_by(self.header.cast(), size, self.has_no_table()) }
    }
}

/// Common part of all stack headers.
#[inline(always)]
fn stack_header(kind: RecordKind, Whose { pid, tid, time_ns }: Whose) -> StackHeader {
    StackHeader {
        kind: kind as u8,
        stop: Stop::NoStack as u8,
        // SAFETY: a helper without arguments.
        cpu: unsafe { bpf_get_smp_processor_id() } as u16,
        user_frames: 0,
        kernel_frames: 0,
        pid,
        tid,
        time_ns,
        stop_sp: 0,
        stop_fp: 0,
        is_interrupted: 0,
        is_fp_lost: 0,
        beside: Beside::UNKNOWN,
        cgroup: 0,
    }
}

/// Number of frames to hash.
const HASHED_FRAMES: usize = 16;

/// Sends bytes, and wakes user space when the ring buffer is filling up. Returns false if it is full.
///
/// # Safety
///
/// `record` points to `size` bytes that the verifier knows to be readable.
#[inline(always)]
pub unsafe fn send(record: *mut c_void, size: u64) -> bool {
    // SAFETY: the caller's.
    unsafe { send_by(record, size, false) }
}

/// Bytes that user space has not read yet.
#[inline(always)]
pub fn waiting_bytes() -> u64 {
    RECORDS.query(u64::from(BPF_RB_AVAIL_DATA))
}

/// Same as [`send`]. Urgent records wake user space at once.
///
/// # Safety
///
/// As for [`send`].
#[inline(always)]
unsafe fn send_by(record: *mut c_void, size: u64, is_urgent: bool) -> bool {
    let flags = if is_urgent || waiting_bytes() >= u64::from(setting!(WAKEUP_BYTES)) {
        BPF_RB_FORCE_WAKEUP
    } else {
        BPF_RB_NO_WAKEUP
    };
    // SAFETY: the caller's.
    let sent = unsafe {
        bpf_ringbuf_output((&raw const RECORDS).cast_mut().cast(), record, size, u64::from(flags))
    };
    if sent == 0 {
        count(counter::RECORD_BYTES, ring_bytes(size));
    }
    sent == 0
}
