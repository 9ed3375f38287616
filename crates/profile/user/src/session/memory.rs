//! Keeps the profiler small beside what it measures.

/// Makes glibc give large blocks back to the system as soon as they are freed. Left alone it raises the
/// size that counts as large to that of each such block, and then keeps those of less: after the
/// kernel's types have been parsed, some 7 MB that nobody uses any more.
pub(super) fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE_BYTES: libc::c_int = 128 << 10;
        // SAFETY: sets a number of the allocator, which may be done at any time.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
    }
}

/// Gives the system back what is free between blocks that are not: after a window of a recording that goes on, that
/// is what the lookup of names took for a moment.
pub(super) fn return_free_pages() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
