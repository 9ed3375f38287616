//! Limits the profiler's own memory.

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
