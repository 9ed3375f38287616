//! Cleanup when idle: closes or shrinks database connections, some megabytes each, and returns freed memory to the
//! system.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use tokio::{task, time};

use super::memory;
use crate::App;

/// Idle time before cleanup.
const QUIET: Duration = Duration::from_millis(400);

/// Whether a cleanup is scheduled.
#[derive(Debug, Default)]
pub struct Rest {
    answers: AtomicU64,
    is_watched: AtomicBool,
}

/// Counts a response, and schedules a cleanup unless one is scheduled.
pub(super) fn after_answer(app: &App) {
    app.rest.answers.fetch_add(1, Ordering::Relaxed);
    if !app.rest.is_watched.swap(true, Ordering::AcqRel) {
        tokio::spawn(watch(app.clone()));
    }
}

async fn watch(app: App) {
    loop {
        let before = app.rest.answers.load(Ordering::Relaxed);
        time::sleep(QUIET).await;
        if app.rest.answers.load(Ordering::Relaxed) == before {
            break;
        }
    }
    // Later responses schedule another cleanup.
    app.rest.is_watched.store(false, Ordering::Release);
    app.storage.rest().await;
    // An error means that the server is shutting down.
    let _ = task::spawn_blocking(memory::give_back).await;
}
