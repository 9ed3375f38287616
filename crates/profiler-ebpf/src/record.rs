//! Stack records: assembled in scratch memory, sent through the ring buffer.

use core::ffi::c_void;

use aya_ebpf::{
    bindings::pt_regs,
    helpers::{bpf_get_current_cgroup_id, bpf_get_smp_processor_id, generated::bpf_get_stack},
};
use wingbeat_profiler_abi::{
    KERNEL_FRAMES_MAX, RECORD_BYTES_MAX, RecordKind, StackHeader, Stop, USER_FRAMES_MAX,
    off_cpu::HalfHeader, unwind::ExtraRegister,
};

use crate::{
    copy,
    maps::{SCRATCH, scratch, send_by},
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
pub struct Origin {
    pub pid: u32,
    pub tid: u32,
    pub time_ns: u64,
}

impl SampleRecord {
    /// Begins an allocation's stack, without frames, in a part of the scratch memory.
    #[inline(always)]
    pub fn allocation(part: u32, origin: Origin) -> Option<Self> {
        Self::begin(part, stack_header(RecordKind::AllocationStack, origin))
    }

    /// Begins a sample. `None` if the scratch memory is missing, which cannot happen.
    #[inline(always)]
    pub fn sample(kind: RecordKind, origin: Origin) -> Option<Self> {
        // SAFETY: a helper without arguments.
        let cgroup = unsafe { bpf_get_current_cgroup_id() };
        Self::begin(scratch::SAMPLE, StackHeader { cgroup, ..stack_header(kind, origin) })
    }
}

impl HalfRecord {
    /// Begins half a stack. `None` if the scratch memory is missing, which cannot happen.
    #[inline(always)]
    pub fn half(kind: RecordKind, origin: Origin) -> Option<Self> {
        Self::half_in(scratch::RECORD, kind, origin)
    }

    /// Same as [`half`](Self::half), in another part of the scratch memory.
    #[inline(always)]
    pub fn half_in(part: u32, kind: RecordKind, origin: Origin) -> Option<Self> {
        let stack = stack_header(kind, origin);
        let header = HalfHeader { stack, slot: 0, flags: 0, reserved: [0; 6] };
        Self::begin(part, header)
    }

    /// Sets the slot and the flags.
    #[inline(always)]
    pub fn set_slot(self, slot: u8, flags: u8) {
        // SAFETY: the header lies in the scratch memory.
        unsafe {
            (*self.header).slot = slot;
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
            (*self.stack()).extra_register = user.extra_register;
        }
    }
}

impl<Header> StackRecord<Header> {
    #[inline(always)]
    fn begin(part: u32, header: Header) -> Option<Self> {
        let start: *mut Header = SCRATCH.get_ptr_mut(part)?.cast();
        // SAFETY: all pointers stay within the scratch memory, which holds the largest record.
        unsafe {
            *start = header;
            Some(Self { header: start, frames: start.add(1).cast(), part })
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
            copy::send_stack(self.part, unsafe { &*self.stack() });
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
fn stack_header(kind: RecordKind, Origin { pid, tid, time_ns }: Origin) -> StackHeader {
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
        extra_register: ExtraRegister::UNKNOWN,
        cgroup: 0,
    }
}

/// Number of frames to hash.
const HASHED_FRAMES: usize = 16;

/// One step of an FNV-1a-like hash over words instead of bytes. Folds down the high bits, where the multiplication
/// collects its result.
#[inline(always)]
pub fn mix(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}
