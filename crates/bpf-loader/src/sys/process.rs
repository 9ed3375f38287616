//! A child process that runs one job and exits.

use std::{
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    process::Command,
    ptr,
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

/// The signal that interrupts a system call. Otherwise unused: it is ignored by default.
const ALARM: libc::c_int = libc::SIGURG;

/// Blocks all signals for the calling thread except the alarm's, which interrupts system calls.
pub(crate) fn accept_alarm_only() -> io::Result<()> {
    handle_alarm()?;
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the call writes the whole set, which has the right type.
    unsafe { libc::sigfillset(signals.as_mut_ptr()) };
    // SAFETY: the set was written above, and the signal number is valid.
    unsafe { libc::sigdelset(signals.as_mut_ptr(), ALARM) };
    // SAFETY: the set was written above; the old mask is not requested.
    match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, signals.as_ptr(), ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Interrupts a system call of a thread of this process, if it accepts the alarm.
pub(crate) fn ring(thread: i32) {
    // SAFETY: the call takes numbers. It fails for a thread that has ended, which does not matter.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, ALARM) };
}

/// Installs an empty handler, after which system calls are not restarted. Without a handler the
/// signal would not interrupt any.
fn handle_alarm() -> io::Result<()> {
    extern "C" fn nothing(_signal: libc::c_int) {}
    // SAFETY: all zero is a valid structure: no flags, no signals blocked.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the structure is complete, and the handler is async-signal-safe.
    match unsafe { libc::sigaction(ALARM, &raw const action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

// `ptrace(2)`, to stop a command at its first instruction.

/// Makes a command stop as soon as its program is in memory.
pub(crate) fn stop_at_exec(command: &mut Command) {
    // SAFETY: the child only makes one system call.
    unsafe {
        command.pre_exec(|| checked(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0)));
    }
}

/// Waits until such a command has stopped. Fails if it ended instead.
pub(crate) fn wait_for_stop(pid: u32) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: the status is a local variable.
    checked(unsafe { libc::waitpid(number(pid)?, &raw mut status, libc::__WALL) }.into())?;
    if libc::WIFSTOPPED(status) {
        return Ok(());
    }
    Err(io::Error::other("it ended before its first instruction"))
}

/// Resumes it and detaches.
pub(crate) fn let_go(pid: u32) -> io::Result<()> {
    // SAFETY: no memory is passed.
    checked(unsafe { libc::ptrace(libc::PTRACE_DETACH, number(pid)?, 0, 0) })
}

fn number(pid: u32) -> io::Result<libc::pid_t> {
    libc::pid_t::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn checked(answer: libc::c_long) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
