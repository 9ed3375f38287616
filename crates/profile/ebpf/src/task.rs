//! Reads fields of a `task_struct`, at offsets that user space took from the kernel's types.

use aya_ebpf::helpers::bpf_probe_read_kernel;
use wingbeat_profile_common::{off_cpu::BlockState, offset_and_size};

use crate::{maps::setting, namespace};

/// How a program may read a task.
pub trait Task: Copy {
    /// The field at an offset.
    fn field<T: Default + Copy>(self, offset: u32) -> T;

    /// The same task, to be read by a helper.
    fn probed(self) -> Probed;

    /// A number at a [`sized_field`](wingbeat_profile_common::sized_field): the verifier sees which of the reads
    /// it is, and refuses one beyond the end of the field.
    #[inline(always)]
    fn number(self, field: u32) -> u32 {
        match offset_and_size(field) {
            (offset, 1) => u32::from(self.field::<u8>(offset)),
            (offset, 2) => u32::from(self.field::<u16>(offset)),
            (offset, _) => self.field(offset),
        }
    }

    /// Its number as user space knows it.
    #[inline(always)]
    fn tid(self) -> u32 {
        namespace::tid(self.probed(), self.field(setting!(TASK_PID)))
    }

    /// The number of its process as user space knows it.
    #[inline(always)]
    fn pid(self) -> u32 {
        namespace::pid(self.probed(), self.field(setting!(TASK_TGID)))
    }

    /// What the kernel says about a thread in `state` (`__state` of include/linux/sched.h, the same
    /// bits from Linux 5.14 to 7.2).
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
        // A kernel thread without work does not count as load: `TASK_IDLE`.
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
/// A thread that goes off the CPU like this never comes back.
pub const TASK_DEAD: u32 = 0x80;
const TASK_NOLOAD: u32 = 0x400;
/// A thread that has not been let run yet: in the list of threads already, and on its way to the
/// tracepoint of births.
pub const TASK_NEW: u32 = 0x800;
const TASK_RTLOCK_WAIT: u32 = 0x1000;
const TASK_FROZEN: u32 = 0x8000;

/// A task that the verifier knows: fields are read like any memory.
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
    /// The field; zero if it cannot be read, which no live task has in the fields read here.
    #[inline(always)]
    fn field<T: Default + Copy>(self, offset: u32) -> T {
        // SAFETY: a read by helper: a bad address is an error, not a fault.
        unsafe { bpf_probe_read_kernel(self.0.add(offset as usize).cast()) }.unwrap_or_default()
    }

    #[inline(always)]
    fn probed(self) -> Probed {
        self
    }
}
