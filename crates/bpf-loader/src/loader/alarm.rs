//! A timeout for system calls.
//!
//! `BPF_PROG_TEST_RUN` checks for signals between two runs (`bpf_test_timer_continue` in
//! net/bpf/test_run.c, Linux 6.18), the verifier at each instruction (`do_check` in
//! kernel/bpf/verifier.c). So the measuring thread unblocks one signal, and another thread sends it
//! when the time is over. An active run of a program cannot be interrupted at all: use
//! [`run_apart`](super::run_apart()) for those.

use std::{
    io,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::sys;

/// Represents "no deadline".
const NEVER: u64 = u64::MAX;

/// Interrupts system calls of one thread at a deadline, or on request.
#[derive(Debug)]
pub struct Alarm<'a> {
    stop: Option<&'a AtomicBool>,
    base: Instant,
    /// In nanoseconds after `base`.
    deadline_ns: AtomicU64,
    /// The measuring thread; 0 before it has settled.
    thread: AtomicI32,
}

impl<'a> Alarm<'a> {
    /// An alarm without a deadline, which goes off when `stop` is set.
    pub fn new(stop: &'a AtomicBool) -> Self {
        Self { stop: Some(stop), ..Self::never() }
    }

    /// An alarm that never goes off.
    pub fn never() -> Self {
        Self {
            stop: None,
            base: Instant::now(),
            deadline_ns: AtomicU64::new(NEVER),
            thread: AtomicI32::new(0),
        }
    }

    /// Registers the calling thread as the one to interrupt, and blocks all other signals for it:
    /// signals for the process interrupt other threads. The errors are those of `sigaction` and
    /// `pthread_sigmask`, which have none for these calls.
    pub fn settle(&self) -> io::Result<()> {
        sys::accept_alarm_only()?;
        self.thread.store(rustix::thread::gettid().as_raw_nonzero().get(), Relaxed);
        Ok(())
    }

    /// Sets when it goes off; `None` for never.
    pub fn set(&self, deadline: Option<Instant>) {
        let ns = deadline.map_or(NEVER, |deadline| {
            let after = deadline.saturating_duration_since(self.base);
            u64::try_from(after.as_nanos()).unwrap_or(NEVER)
        });
        self.deadline_ns.store(ns, Relaxed);
    }

    /// Runs a job with a time limit, in addition to the current deadline.
    pub fn within<T>(&self, limit: Duration, job: impl FnOnce() -> T) -> T {
        let before = self.deadline_ns.load(Relaxed);
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(NEVER);
        self.deadline_ns.store(before.min(self.now_ns().saturating_add(limit)), Relaxed);
        let done = job();
        self.deadline_ns.store(before, Relaxed);
        done
    }

    /// Whether the time is over or a stop was requested.
    pub fn is_over(&self) -> bool {
        self.is_stopped() || self.now_ns() >= self.deadline_ns.load(Relaxed)
    }

    /// Whether a stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Relaxed))
    }

    /// Time until the deadline; `None` without one.
    pub fn left(&self) -> Option<Duration> {
        match self.deadline_ns.load(Relaxed) {
            NEVER => None,
            deadline => Some(Duration::from_nanos(deadline.saturating_sub(self.now_ns()))),
        }
    }

    /// Interrupts the measuring thread if the time is over. The watching thread calls it
    /// repeatedly: a signal just before a system call has no effect.
    pub fn ring(&self) {
        let thread = self.thread.load(Relaxed);
        if thread != 0 && self.is_over() {
            sys::ring(thread);
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.base.elapsed().as_nanos()).unwrap_or(NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines() {
        let stop = AtomicBool::new(false);
        let alarm = Alarm::new(&stop);
        assert!(!alarm.is_over() && alarm.left().is_none());
        alarm.set(Some(Instant::now() + Duration::from_secs(60)));
        let left = alarm.within(Duration::from_secs(5), || alarm.left());
        assert!(left.is_some_and(|left| left <= Duration::from_secs(5)), "{left:?}");
        let left = alarm.within(Duration::MAX, || alarm.left());
        assert!(left.is_some_and(|left| left > Duration::from_secs(50)), "{left:?}");
        assert!(alarm.within(Duration::ZERO, || alarm.is_over()) && !alarm.is_over());
        stop.store(true, Relaxed);
        assert!(alarm.is_over() && alarm.is_stopped());
        assert!(!Alarm::never().is_over());
    }
}
