//! Limits of this process: memory that the allocator keeps, and open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Makes glibc return large blocks to the system when they are freed. By default it raises the threshold to the
/// size of each such block and keeps smaller ones: after parsing the kernel's types, some 7 MB unused.
pub(super) fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE_BYTES: libc::c_int = 128 << 10;
        // SAFETY: sets an allocator parameter, which is allowed at any time.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
    }
}

/// Returns free pages between blocks to the system: after a window of a continuous recording, that is the
/// temporary memory of symbolization.
pub(super) fn return_free_pages() {
    #[cfg(target_env = "gnu")]
    // SAFETY: may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Raises the limit of open files to the maximum: each binary stays open until its symbols are read, hundreds with
/// `--all`. Call it after launching a command, which inherits the limit and may rely on the usual one (`select(2)`
/// takes 1,024).
pub(super) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // On failure, fewer files are kept open, and the others are found by path at the end.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
