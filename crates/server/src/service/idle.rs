//! Cleanup when idle: closes or shrinks database connections, some megabytes each, and returns freed memory to the
//! system.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use tokio::{task, time};

use crate::App;

/// Idle time before cleanup.
const QUIET: Duration = Duration::from_millis(400);

/// Whether a cleanup is scheduled.
#[derive(Debug, Default)]
pub struct Idle {
    responses: AtomicU64,
    is_watched: AtomicBool,
}

/// Counts a response, and schedules a cleanup unless one is scheduled.
pub(super) fn after_response(app: &App) {
    app.idle.responses.fetch_add(1, Ordering::Relaxed);
    if !app.idle.is_watched.swap(true, Ordering::AcqRel) {
        tokio::spawn(watch(app.clone()));
    }
}

async fn watch(app: App) {
    loop {
        let before = app.idle.responses.load(Ordering::Relaxed);
        time::sleep(QUIET).await;
        if app.idle.responses.load(Ordering::Relaxed) == before {
            break;
        }
    }
    // Later responses schedule another cleanup.
    app.idle.is_watched.store(false, Ordering::Release);
    app.storage.rest().await;
    // An error means that the server is shutting down.
    let _ = task::spawn_blocking(give_back).await;
}

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
fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
