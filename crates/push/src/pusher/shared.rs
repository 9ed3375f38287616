//! State shared by a pusher's thread and its owner.
//!
//! Lock order: spool, then inbox, then tally. The spool may be held during a file write; the other two never are.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::Counts;
use crate::{spool::Spool, window::Window};

/// Error if windows are dropped although the backend has rejected none.
const NO_ROOM: &str = "it takes windows more slowly than they come, and no more may wait";

#[derive(Debug)]
pub(super) struct Shared {
    inbox: Mutex<Inbox>,
    /// Signals changes of the inbox.
    news: Condvar,
    pub(super) spool: Mutex<Spool>,
    tally: Mutex<Counts>,
    bytes_max: u64,
}

/// Windows that the thread has not processed yet.
#[derive(Debug, Default)]
struct Inbox {
    windows: VecDeque<Arc<Window>>,
    /// There is something new for the thread.
    is_new: bool,
    bytes: u64,
    offered: u64,
    dropped: u64,
    /// Deadline of the thread, once it should stop.
    end: Option<Instant>,
}

/// Ignores poisoning: each of these values is consistent between two statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(spool: Spool, bytes_max: u64) -> Self {
        let tally = Mutex::new(Counts { restored: spool.restored, ..Counts::default() });
        let spool = Mutex::new(spool);
        let shared =
            Self { inbox: Mutex::default(), news: Condvar::new(), spool, tally, bytes_max };
        shared.publish(&mut lock(&shared.spool));
        shared
    }

    pub(super) fn offer(&self, parts: Vec<Arc<Window>>) {
        let mut inbox = lock(&self.inbox);
        for part in parts {
            inbox.offered += 1;
            inbox.bytes += part.bytes();
            inbox.windows.push_back(part);
        }
        // While the thread is stuck in a request for half a minute, memory must stay within the limit.
        while inbox.bytes > self.bytes_max
            && let Some(oldest) = inbox.windows.pop_front()
        {
            inbox.bytes -= oldest.bytes();
            inbox.dropped += 1;
        }
        drop(inbox);
        // With a folder, windows are on disk before any attempt to send them, since the thread may be stuck.
        let mut spool = lock(&self.spool);
        if spool.has_folder() {
            self.take_in(&mut spool);
            spool.spill();
            self.publish(&mut spool);
        }
        lock(&self.inbox).is_new = true;
        self.news.notify_all();
    }

    pub(super) fn stop(&self, end: Instant) {
        lock(&self.inbox).end = Some(end);
        self.news.notify_all();
    }

    /// Deadline of the thread, once it should stop.
    pub(super) fn end(&self) -> Option<Instant> {
        lock(&self.inbox).end
    }

    /// Moves the inbox to the spool.
    pub(super) fn take_in(&self, spool: &mut Spool) {
        let windows = {
            let mut inbox = lock(&self.inbox);
            inbox.bytes = 0;
            std::mem::take(&mut inbox.windows)
        };
        for window in windows {
            spool.push(window);
        }
    }

    /// Sleeps until there is something new, up to a maximum time.
    pub(super) fn sleep(&self, longest: Option<Duration>, knows_end: bool) {
        let is_quiet = |inbox: &mut Inbox| !inbox.is_new && inbox.end.is_some() == knows_end;
        let inbox = lock(&self.inbox);
        match longest {
            Some(longest) => drop(self.news.wait_timeout_while(inbox, longest, is_quiet)),
            None => drop(self.news.wait_while(inbox, is_quiet)),
        }
        lock(&self.inbox).is_new = false;
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut lock(&self.tally));
    }

    /// Publishes the spool's losses and contents.
    pub(super) fn publish(&self, spool: &mut Spool) {
        let trouble = spool.trouble.take();
        self.count(|counts| {
            counts.dropped = spool.losses.dropped;
            counts.damaged = spool.losses.damaged;
            counts.waiting_bytes = spool.bytes();
            if trouble.is_some() {
                counts.last_error = trouble;
            } else if counts.dropped > 0 {
                counts.last_error.get_or_insert_with(|| NO_ROOM.to_owned());
            }
        });
    }

    pub(super) fn counts(&self) -> Counts {
        let inbox = lock(&self.inbox);
        let mut counts = lock(&self.tally).clone();
        counts.offered = inbox.offered;
        counts.dropped += inbox.dropped;
        if inbox.dropped > 0 {
            counts.last_error.get_or_insert_with(|| NO_ROOM.to_owned());
        }
        counts.waiting_bytes += inbox.bytes;
        let settled = counts.pushed + counts.rejected + counts.dropped + counts.damaged;
        // Windows taken in but not published yet still wait.
        counts.waiting = (counts.offered + counts.restored).saturating_sub(settled);
        counts
    }
}
