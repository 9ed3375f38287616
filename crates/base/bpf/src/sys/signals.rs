//! Signals of the calling thread.

use std::{io, mem::MaybeUninit, ptr};

/// The signal that ends a system call. Nobody needs it otherwise: its default is to do nothing.
const ALARM: libc::c_int = libc::SIGURG;

/// Blocks all signals for the calling thread but the alarm's, which interrupts system calls.
pub(crate) fn accept_alarm_only() -> io::Result<()> {
    handle_alarm()?;
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the call writes the whole set, which has the type that it wants.
    unsafe { libc::sigfillset(signals.as_mut_ptr()) };
    // SAFETY: the set was written above, and the number is that of a signal.
    unsafe { libc::sigdelset(signals.as_mut_ptr(), ALARM) };
    // SAFETY: the set was written above; the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, signals.as_ptr(), ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Interrupts a system call of a thread of this process, if that has accepted the alarm.
pub(crate) fn ring(thread: i32) {
    // SAFETY: the call takes numbers. One of a thread that has ended is refused, which does not matter.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, ALARM) };
}

/// A handler that does nothing, and after which system calls are not begun anew. Without a handler the
/// signal would not interrupt any.
fn handle_alarm() -> io::Result<()> {
    extern "C" fn nothing(_signal: libc::c_int) {}
    // SAFETY: all zero is a valid structure: no flags, no signals blocked.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the structure is whole, and the handler does nothing that a handler must not do.
    match unsafe { libc::sigaction(ALARM, &raw const action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
