//! A child process that does one thing and ends.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{
        Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal,
        set_parent_process_death_signal, waitid,
    },
};

use super::Mapping;

/// Memory that a child process shares with its parent, zero at first.
#[derive(Debug)]
pub(crate) struct Shared(Mapping);

impl Shared {
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        Mapping::anonymous(len.max(1)).map(Self)
    }

    /// The memory. The child writes to its own view of it, and the parent reads after the child's end.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: it is writable, and parent and child take turns.
        unsafe { self.0.bytes_mut() }
    }
}

/// A child process. Dropping it neither ends it nor waits for it.
#[derive(Debug)]
pub(crate) struct Child {
    pidfd: OwnedFd,
}

impl Child {
    /// Begins a child process that does `job` and ends. It gets `SIGKILL` when the calling thread ends.
    ///
    /// # Safety
    ///
    /// `job` makes system calls and writes to memory that it has, and nothing else: other threads may
    /// have held any lock when the process was copied, that of the allocator included.
    pub(crate) unsafe fn fork(job: impl FnOnce()) -> io::Result<Self> {
        // SAFETY: the child does what the caller promises, and ends without running anything of the
        // parent's.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                _ = set_parent_process_death_signal(Some(Signal::KILL));
                job();
                // SAFETY: the call ends this process, which owns nothing that others wait for.
                unsafe { libc::_exit(0) }
            }
            pid => {
                let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::Other)?;
                Ok(Self { pidfd: pidfd_open(pid, PidfdFlags::empty())? })
            }
        }
    }

    /// Waits so long at most; a signal may end the wait earlier. Whether the child has ended.
    pub(crate) fn wait(&self, limit_ns: i64) -> io::Result<bool> {
        let limit = Timespec { tv_sec: 0, tv_nsec: limit_ns };
        match poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&limit)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
            Ok(_) => {
                waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED)?;
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Asks the kernel to end it, which happens when it next leaves the kernel.
    pub(crate) fn kill(&self) {
        _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }
}
