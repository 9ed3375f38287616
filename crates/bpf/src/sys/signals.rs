//! Signals of the calling thread.

use std::{io, mem::MaybeUninit, ptr};

/// Blocks all signals for the calling thread.
pub(crate) fn block_signals() -> io::Result<()> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the call writes the whole set, which has the type that it wants.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the set was written above; the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}
