//! Waiting until a descriptor becomes readable.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use tokio::io::{Interest, unix::AsyncFd};

/// Watches what `fd` refers to, through a descriptor of its own: the watch may outlive `fd`, and
/// what `fd` belongs to stays free to be used.
pub(crate) fn watch(fd: BorrowedFd<'_>) -> io::Result<AsyncFd<OwnedFd>> {
    let fd = fd.try_clone_to_owned()?;
    // SAFETY: an `OwnedFd` is open and the same for as long as it lives, and the `AsyncFd` owns it.
    let watch = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    watch.map_err(io::Error::from)
}
