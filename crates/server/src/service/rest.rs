//! What is done once nobody asks anything any more: connections to the databases are closed or give up their pages,
//! some megabytes each, and the system gets back what the answers took.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use tokio::{task, time};

use super::memory;
use crate::App;

/// A server that was asked nothing for this long is at rest.
const QUIET: Duration = Duration::from_millis(400);

/// Whether somebody waits for the end of what is asked.
#[derive(Debug, Default)]
pub struct Rest {
    answers: AtomicU64,
    is_watched: AtomicBool,
}

/// Counts an answer, and waits for the rest behind it unless somebody does.
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
    // An answer that comes from now on has a watch of its own.
    app.rest.is_watched.store(false, Ordering::Release);
    app.storage.rest().await;
    // An error means that the server stops.
    let _ = task::spawn_blocking(memory::give_back).await;
}
