//! Records of stacks: filled in scratch memory, sent by the ring buffer.

use core::ffi::c_void;

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::{
        bpf_get_smp_processor_id,
        generated::{bpf_get_stack, bpf_probe_read_user, bpf_ringbuf_output},
    },
};
use wingbeat_profile_common::{
    KERNEL_FRAMES_MAX, RECORD_BYTES_MAX, RecordKind, SampleHeader, StackHeader, Stop, TAIL_CHECKS,
    USER_FRAMES_MAX, counter,
    off_cpu::{HalfHeader, NEAR_WORDS_MAX},
    ring_bytes,
};

use crate::{
    maps::{RECORDS, SCRATCH, count, scratch, setting},
    regs::UserRegs,
    stack,
    tail::{self, Origin},
};

/// A record under construction. Its header begins with a [`StackHeader`].
#[repr(C)]
pub struct StackRecord<Header> {
    header: *mut Header,
    frames: *mut u64,
}

/// The record of half a stack.
pub type HalfRecord = StackRecord<HalfHeader>;

impl<Header> Clone for StackRecord<Header> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<Header> Copy for StackRecord<Header> {}

/// Whose stack it is, and when.
#[derive(Clone, Copy)]
pub struct Whose {
    pub pid: u32,
    pub tid: u32,
    pub time_ns: u64,
}

impl StackRecord<SampleHeader> {
    /// An empty sample; nothing if the scratch memory is missing, which cannot be.
    #[inline(always)]
    pub fn new(whose: Whose) -> Option<Self> {
        let stack = stack_header(RecordKind::Sample, whose);
        Self::begin(scratch::RECORD, SampleHeader { stack, leaf: [0; 2] })
    }

    /// Notes the two words at the stack pointer of the current thread.
    #[inline(always)]
    pub fn note_leaf(self, user: UserRegs) {
        // SAFETY: the header lies in the scratch memory; the helper reads user memory into an array of
        // that size, and leaves zeroes when it cannot.
        unsafe {
            let leaf = &raw mut (*self.header).leaf;
            let _ = bpf_probe_read_user(leaf.cast(), 16, user.sp as *const _);
        }
    }

    /// Sends the sample; false if the ring buffer is full.
    #[inline(always)]
    pub fn send(self) -> bool {
        self.send_with(0)
    }
}

impl HalfRecord {
    /// An empty record; nothing if the scratch memory is missing, which cannot be.
    #[inline(always)]
    pub fn half(kind: RecordKind, whose: Whose) -> Option<Self> {
        Self::half_in(scratch::RECORD, kind, whose)
    }

    /// The same, in another part of the scratch memory.
    #[inline(always)]
    pub fn half_in(part: u32, kind: RecordKind, whose: Whose) -> Option<Self> {
        let stack = stack_header(kind, whose);
        let header =
            HalfHeader { stack, sp: 0, bp: 0, place: 0, flags: 0, near_words: 0, reserved: 0 };
        Self::begin(part, header)
    }

    /// Notes which of the thread's stacks it is, and the flags.
    #[inline(always)]
    pub fn set_place(self, place: u8, flags: u8) {
        // SAFETY: the header lies in the scratch memory.
        unsafe {
            (*self.header).place = place;
            (*self.header).flags = flags;
        }
    }

    /// Adds the stack pointer, the frame pointer register, and the stack between the two if they are
    /// near each other, or else as much of it as can be read.
    #[inline(always)]
    pub fn add_near_words(self, user: UserRegs) {
        // SAFETY: the user frames are at most USER_FRAMES_MAX, and room for the words follows.
        let buffer: *mut c_void = unsafe {
            (*self.header).sp = user.sp;
            (*self.header).bp = user.bp;
            let user_frames = usize::from((*self.stack()).user_frames);
            if user_frames > USER_FRAMES_MAX {
                return;
            }
            self.frames.add(user_frames).cast()
        };
        const BYTES_MAX: u64 = NEAR_WORDS_MAX as u64 * 8;
        let distance = user.bp.wrapping_sub(user.sp);
        // Two words more: the frame record itself.
        let wanted = if distance < BYTES_MAX - 16 { (distance + 16) & !7 } else { BYTES_MAX };
        let mut words = 0;
        for bytes in [wanted, 1024, 256] {
            // SAFETY: as above; the helper reads user memory into room of that size.
            let read = bytes <= BYTES_MAX
                && unsafe { bpf_probe_read_user(buffer, bytes as u32, user.sp as *const _) } == 0;
            if read {
                words = bytes / 8;
                break;
            }
        }
        // SAFETY: the header lies in the scratch memory.
        unsafe { (*self.header).near_words = words as u16 };
    }

    /// Notes the registers of another thread, whose memory cannot be read here.
    #[inline(always)]
    pub fn note_user(self, user: UserRegs) {
        // SAFETY: header and frames lie in the scratch memory.
        unsafe {
            *self.frames = user.ip;
            (*self.stack()).user_frames = 1;
            (*self.stack()).stop = Stop::Unreadable as u8;
            (*self.stack()).stop_sp = user.sp;
            (*self.stack()).stop_bp = user.bp;
        }
    }

    /// Sends the record; false if the ring buffer is full.
    #[inline(always)]
    pub fn send(self) -> bool {
        // SAFETY: the header lies in the scratch memory.
        let near_words = unsafe { (*self.header).near_words };
        self.send_with(u64::from(near_words))
    }
}

impl<Header> StackRecord<Header> {
    #[inline(always)]
    fn begin(part: u32, header: Header) -> Option<Self> {
        let place: *mut Header = SCRATCH.get_ptr_mut(part)?.cast();
        // SAFETY: all pointers stay within the scratch memory, which holds the largest record.
        unsafe {
            *place = header;
            Some(Self { header: place, frames: place.add(1).cast() })
        }
    }

    #[inline(always)]
    fn stack(self) -> *mut StackHeader {
        self.header.cast()
    }

    /// Walks the user stack of the current thread.
    #[inline(always)]
    pub fn walk_user(self, user: UserRegs) {
        // SAFETY: header and frames lie in the scratch memory.
        unsafe { stack::walk(self.stack(), self.frames, user) };
    }

    /// Sees to it that user space can carry on where the walk of the user stack ended.
    #[inline(always)]
    pub fn send_tail(self) {
        // SAFETY: the header lies in the scratch memory.
        let StackHeader { pid, tid, time_ns, stop, stop_sp: sp, .. } = unsafe { *self.stack() };
        if stop != Stop::Depth as u8 && stop != Stop::KernelThread as u8 {
            // Before the stack: whoever reads that one has its tail already.
            let checks = tail::check_and_send_once(Origin { pid, tid, time_ns, sp });
            // SAFETY: as above.
            unsafe { (*self.stack()).tail_checks = checks };
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

    /// Appends kernel frames that `take` writes into a buffer of `KERNEL_FRAMES_MAX` words; it gives
    /// their size in bytes, or an error below zero.
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

    /// A hash of the first kernel frames, if there are no user frames before them.
    #[inline(always)]
    pub fn hash_of_first_frames(self, hash: u64) -> u64 {
        let mut hash = hash;
        for index in 0..HASHED_FRAMES {
            // Volatile, or the compiler reads all words first, for which a BPF stack has no room.
            // SAFETY: the scratch memory has room for that many frames.
            hash = tail::mix(hash, unsafe { self.frames.add(index).read_volatile() });
        }
        hash
    }

    /// A frame near the innermost one.
    #[inline(always)]
    pub fn first_frame(self, index: usize) -> u64 {
        // SAFETY: the scratch memory has room for eight frames.
        unsafe { self.frames.add(index & 7).read_volatile() }
    }

    #[inline(always)]
    fn send_with(self, more_words: u64) -> bool {
        // SAFETY: the header lies in the scratch memory.
        let frames = unsafe {
            u64::from((*self.stack()).user_frames) + u64::from((*self.stack()).kernel_frames)
        };
        let size = size_of::<Header>() as u64 + (frames + more_words) * 8;
        if size > RECORD_BYTES_MAX as u64 {
            return true;
        }
        // SAFETY: the record lies in the scratch memory and has that size.
        unsafe { send(self.header.cast(), size) }
    }
}

/// What each header of a stack begins with.
#[inline(always)]
fn stack_header(kind: RecordKind, Whose { pid, tid, time_ns }: Whose) -> StackHeader {
    StackHeader {
        kind: kind as u8,
        stop: Stop::KernelThread as u8,
        // SAFETY: a helper without arguments.
        cpu: unsafe { bpf_get_smp_processor_id() } as u16,
        user_frames: 0,
        kernel_frames: 0,
        pid,
        tid,
        time_ns,
        stop_sp: 0,
        stop_bp: 0,
        tail_checks: [0; TAIL_CHECKS],
    }
}

/// Frames that a hash looks at.
const HASHED_FRAMES: usize = 16;

/// Sends bytes, and wakes user space when the ring buffer is filling up. False if it is full.
///
/// # Safety
///
/// `record` points to `size` bytes that the verifier knows to be readable.
#[inline(always)]
pub unsafe fn send(record: *mut c_void, size: u64) -> bool {
    let flags = if RECORDS.query(u64::from(BPF_RB_AVAIL_DATA)) >= u64::from(setting!(WAKEUP_BYTES))
    {
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
