//! How far a measurement is, for whoever watches; and how it is stopped.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// What is going on, such as `fun_xdp_v3: latency`.
    pub doing: String,
    pub elapsed: Duration,
    /// Time that all of it is meant to take.
    pub total: Duration,
}

/// Who watches a measurement and may stop it. The measuring thread calls it between batches.
pub struct Watcher<'a> {
    pub show: &'a (dyn Fn(&Progress) + Sync),
    /// Set to end early; what was measured is reported.
    pub stop: &'a AtomicBool,
}

impl Watcher<'_> {
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Watcher<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("stop", self.stop).finish_non_exhaustive()
    }
}
