//! Limits memory between large responses. Needed for glibc only.

/// Maximum malloc arenas. Each keeps its own fragmented free memory.
#[cfg(target_env = "gnu")]
const HEAPS_MAX: libc::c_int = 2;

/// mmap threshold: larger blocks are returned to the system when freed. By default, glibc raises it to the largest
/// block seen.
#[cfg(target_env = "gnu")]
const LARGE_BYTES: libc::c_int = 256 << 10;

/// Configures the allocator to retain little. Call before starting threads.
pub(super) fn stay_small() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets parameters of the allocator, which is allowed at any time.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS_MAX);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
    }
}

/// Returns unused pages to the system.
pub(super) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
