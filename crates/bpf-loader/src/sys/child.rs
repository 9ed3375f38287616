//! A child process that runs one job and exits.

use std::{
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    process::Command,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{
        Gid, Pid, PidfdFlags, Signal, Uid, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal,
        set_parent_process_death_signal, waitid,
    },
    thread::{set_thread_gid, set_thread_groups, set_thread_uid},
};

use super::Mapping;

/// Memory shared between a child process and its parent, initially zero.
#[derive(Debug)]
pub(crate) struct Shared(Mapping);

impl Shared {
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        Mapping::anonymous(len.max(1)).map(Self)
    }

    /// The memory. The child writes to its own view of it, and the parent reads after the child has ended.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: it is writable, and parent and child never access it at the same time.
        unsafe { self.0.bytes_mut() }
    }
}

/// A child process. Dropping it neither kills it nor waits for it.
#[derive(Debug)]
pub(crate) struct Child {
    pidfd: OwnedFd,
}

impl Child {
    /// Forks a child process that runs `job` and exits. It gets `SIGKILL` when the calling thread ends.
    ///
    /// # Safety
    ///
    /// `job` only makes system calls and writes to memory that it has: other threads may have held
    /// any lock at the time of the fork, including that of the allocator.
    pub(crate) unsafe fn fork(job: impl FnOnce()) -> io::Result<Self> {
        // SAFETY: the child does what the caller promises, and exits without running any code of the parent.
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

    /// Waits for at most `limit_ns`; a signal may end the wait earlier. Returns whether the child has ended.
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

    /// Sends `SIGKILL`, which takes effect when it next leaves the kernel.
    pub(crate) fn kill(&self) {
        _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }
}

// Runs a command as another user: like [`Command::uid`](std::os::unix::process::CommandExt::uid),
// with supplementary groups.

/// Makes a command run as this user, if this process is root when it starts it.
pub(crate) fn run_as(command: &mut Command, user: u32, group: u32, groups: &[u32]) {
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    let groups: Vec<Gid> = groups.iter().map(|group| Gid::from_raw(*group)).collect();
    let change = move || -> io::Result<()> {
        // The user last: afterwards the privilege to change groups is gone.
        set_thread_groups(&groups)?;
        set_thread_gid(group)?;
        Ok(set_thread_uid(user)?)
    };
    // SAFETY: the child, which has one thread, only makes three system calls.
    unsafe {
        command.pre_exec(change);
    }
}
