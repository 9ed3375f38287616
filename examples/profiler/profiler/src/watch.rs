//! Waits until a descriptor becomes readable.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use tokio::io::{Interest, unix::AsyncFd};

/// Watches `fd` through a duplicate: the watch may outlive `fd`, and the owner of `fd` can still be used.
pub(crate) fn watch(fd: BorrowedFd<'_>) -> io::Result<AsyncFd<OwnedFd>> {
    let fd = fd.try_clone_to_owned()?;
    // SAFETY: an `OwnedFd` stays open and the same as long as it lives, and the `AsyncFd` owns it.
    let watch = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    watch.map_err(io::Error::from)
}
