//! Signals of the calling thread.

use std::{io, mem::MaybeUninit, ptr};

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
