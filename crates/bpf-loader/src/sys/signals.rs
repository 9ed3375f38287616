//! Signals of the calling thread.

use std::{io, mem::MaybeUninit, os::unix::process::CommandExt as _, process::Command, ptr};

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
