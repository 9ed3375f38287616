//! Programs that are loaded already, by whomever.

use std::{io, os::fd::OwnedFd};

use crate::sys;

/// A descriptor of a loaded program. While it is open the program stays in the kernel, with its name,
/// its code and its line information, even when everybody else has let go of it.
///
/// # Errors
///
/// `NotFound` when no program has this id (any more); `PermissionDenied` without `CAP_SYS_ADMIN`,
/// which the kernel asks for to look at the programs of others (kernel/bpf/syscall.c,
/// `bpf_prog_get_fd_by_id`, Linux 6.18).
pub fn open(id: u32) -> io::Result<OwnedFd> {
    sys::open_program(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_not_given() {
        let error = open(u32::MAX).expect_err("there are no four billion programs");
        let kind = error.kind();
        assert!(
            matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied),
            "{error}"
        );
    }
}
