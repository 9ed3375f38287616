//! Reads fields of a `task_struct`, at offsets that user space got from the kernel's type information.

use aya_ebpf::helpers::bpf_probe_read_kernel;
use wingbeat_profiler_abi::{off_cpu::BlockState, offset_and_size};

use crate::{maps::setting, namespace};

/// Ways to read a task.
pub trait Task: Copy {
    /// Reads the field at an offset.
    fn field<T: Default + Copy>(self, offset: u32) -> T;

    /// The same task, read by a helper.
    fn probed(self) -> Probed;

    /// Reads a number at a [`sized_field`](wingbeat_profiler_abi::sized_field). The verifier sees which of the
    /// reads applies, and rejects reads beyond the field's end.
    #[inline(always)]
    fn number(self, field: u32) -> u32 {
        match offset_and_size(field) {
            (offset, 1) => u32::from(self.field::<u8>(offset)),
            (offset, 2) => u32::from(self.field::<u16>(offset)),
            (offset, _) => self.field(offset),
        }
    }

    /// TID as user space sees it.
    #[inline(always)]
    fn tid(self) -> u32 {
        namespace::tid(self.probed(), self.field(setting!(TASK_PID)))
    }

    /// PID as user space sees it.
    #[inline(always)]
    fn pid(self) -> u32 {
        namespace::pid(self.probed(), self.field(setting!(TASK_TGID)))
    }

    /// Converts the kernel's `state` of a thread (`__state` of include/linux/sched.h, the same bits from Linux
    /// 5.14 to 7.2).
    #[inline(always)]
    fn block_state(self, state: u32) -> BlockState {
        if state == 0 {
            return BlockState::Preempted;
        }
        if state & (TASK_STOPPED | TASK_TRACED | TASK_FROZEN) != 0 {
            return BlockState::Stopped;
        }
        let iowait: u8 = self.field(setting!(TASK_IOWAIT));
        if u32::from(iowait) & setting!(TASK_IOWAIT_MASK) != 0 {
            return BlockState::Io;
        }
        if state & TASK_RTLOCK_WAIT != 0 {
            return BlockState::Lock;
        }
        if setting!(TASK_BLOCKED_ON) != 0 {
            let lock: u64 = self.field(setting!(TASK_BLOCKED_ON));
            if lock != 0 {
                return BlockState::Lock;
            }
        }
        // An idle kernel thread does not count as load: `TASK_IDLE`.
        if state & TASK_UNINTERRUPTIBLE != 0 && state & TASK_NOLOAD == 0 {
            BlockState::Uninterruptible
        } else {
            BlockState::Sleeping
        }
    }
}

const TASK_UNINTERRUPTIBLE: u32 = 0x2;
const TASK_STOPPED: u32 = 0x4;
const TASK_TRACED: u32 = 0x8;
/// A thread that leaves the CPU in this state never comes back.
pub const TASK_DEAD: u32 = 0x80;
const TASK_NOLOAD: u32 = 0x400;
/// A thread that may not run yet: already in the list of threads, but before its fork tracepoint.
pub const TASK_NEW: u32 = 0x800;
const TASK_RTLOCK_WAIT: u32 = 0x1000;
const TASK_FROZEN: u32 = 0x8000;

/// A task that the verifier knows: fields are read like ordinary memory.
#[derive(Clone, Copy)]
pub struct Trusted(pub *const u8);

impl Task for Trusted {
    #[inline(always)]
    fn field<T: Default + Copy>(self, offset: u32) -> T {
        // SAFETY: the verifier checks that the field lies in the task; a bad address reads as zero.
        unsafe { self.0.add(offset as usize).cast::<T>().read_volatile() }
    }

    #[inline(always)]
    fn probed(self) -> Probed {
        Probed(self.0)
    }
}

/// Any other task: fields are read by a helper.
#[derive(Clone, Copy)]
pub struct Probed(pub *const u8);

impl Task for Probed {
    /// Reads the field; zero on failure, a value that no field read here has in a live task.
    #[inline(always)]
    fn field<T: Default + Copy>(self, offset: u32) -> T {
        // SAFETY: a read by a helper: a bad address is an error, not a fault.
        unsafe { bpf_probe_read_kernel(self.0.add(offset as usize).cast()) }.unwrap_or_default()
    }

    #[inline(always)]
    fn probed(self) -> Probed {
        self
    }
}
