//! Keeps the server small between large answers. Only glibc needs it.

/// Threads share this many heaps. Each keeps room of its own, as scattered as what the others left in it.
#[cfg(target_env = "gnu")]
const HEAPS_MAX: libc::c_int = 2;

/// Larger blocks are given back to the system as soon as they are freed. Left alone, glibc raises this to the size of
/// the largest block that it has seen.
#[cfg(target_env = "gnu")]
const LARGE_BYTES: libc::c_int = 256 << 10;

/// Has the allocator keep little. To be called before there are threads.
pub(super) fn stay_small() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets numbers of the allocator, which may be done at any time.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS_MAX);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
    }
}

/// Gives the system all pages that nothing lies in.
pub(super) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
