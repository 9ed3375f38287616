//! The pusher's thread: takes the oldest window from the spool, sends it, and counts the result.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    PushOptions,
    shared::{Shared, lock},
};
use crate::{
    backoff::Backoff,
    encode::{Request, encode},
    http::Transport,
    judge::{Verdict, judge},
    target::Target,
    window::Window,
};

/// Minimum time left to start an attempt: a shorter one would be aborted before the response, and repeated after a
/// restart.
const ATTEMPT_MIN: Duration = Duration::from_millis(500);

pub(super) struct Worker {
    shared: Arc<Shared>,
    target: Target,
    transport: Transport,
    backoff: Backoff,
    whole: Duration,
    /// Encoded request of the last window tried, for retries.
    ready: Option<(u64, Request)>,
}

/// Next action of the thread.
enum Step {
    Send(u64, Arc<Window>),
    Sleep(Option<Duration>),
    End,
}

impl Worker {
    pub(super) fn new(
        shared: Arc<Shared>,
        target: Target,
        transport: Transport,
        options: &PushOptions,
    ) -> Self {
        let backoff = Backoff::new(options.pause_min, options.pause_max);
        Self { shared, target, transport, backoff, whole: options.whole, ready: None }
    }

    pub(super) fn run(mut self) {
        let mut knows_end = false;
        loop {
            let end = self.shared.end();
            if end.is_some() && !knows_end {
                knows_end = true;
                self.backoff.hurry();
            }
            match self.step(end) {
                Step::End => break,
                Step::Sleep(longest) => self.shared.sleep(longest, knows_end),
                Step::Send(number, window) => self.send(number, &window, end),
            }
        }
    }

    fn step(&self, end: Option<Instant>) -> Step {
        let now = Instant::now();
        let left = end.map(|end| end.saturating_duration_since(now));
        let mut spool = lock(&self.shared.spool);
        self.shared.take_in(&mut spool);
        // Retries the write if it failed when the window was offered.
        spool.spill();
        let pause = self.backoff.left(now);
        let step = if left.is_some_and(|left| left < ATTEMPT_MIN.min(self.whole)) {
            Step::End
        } else if !pause.is_zero() && spool.len() > 0 {
            Step::Sleep(Some(left.map_or(pause, |left| left.min(pause))))
        } else {
            match spool.front() {
                Some((number, window)) => Step::Send(number, window),
                None if end.is_some() => Step::End,
                None => Step::Sleep(None),
            }
        };
        self.shared.publish(&mut spool);
        step
    }

    fn send(&mut self, number: u64, window: &Window, end: Option<Instant>) {
        let request = match self.ready.take().filter(|(ready, _)| *ready == number) {
            Some((_, request)) => Ok(request),
            None => encode(&self.target, window),
        };
        let verdict = match &request {
            Ok(request) => {
                let left = end.map(|end| end.saturating_duration_since(Instant::now()));
                let patience = left.map_or(self.whole, |left| left.min(self.whole));
                judge(self.target.protocol(), &self.transport.post(request, patience))
            }
            Err(error) => Verdict::Refused { reason: error.to_string() },
        };
        self.settle(number, &verdict);
        if let (Ok(request), Verdict::Again { .. }) = (request, verdict) {
            self.ready = Some((number, request));
        }
    }

    fn settle(&mut self, number: u64, verdict: &Verdict) {
        let (target, shared) = (&self.target, Arc::clone(&self.shared));
        let mut spool = lock(&shared.spool);
        match verdict {
            Verdict::Taken => {
                self.backoff.succeed();
                if spool.done(number) {
                    shared.count(|counts| counts.pushed += 1);
                }
            }
            Verdict::Again { reason, pause } => {
                spool.release();
                self.backoff.fail(Instant::now(), *pause);
                shared.count(|counts| {
                    counts.retries += 1;
                    counts.last_error = Some(format!("{target} did not take a window: {reason}"));
                });
            }
            Verdict::Refused { reason } => {
                // The backend works, and may accept the next window.
                self.backoff.succeed();
                let was_there = spool.done(number);
                shared.count(|counts| {
                    counts.rejected += u64::from(was_there);
                    counts.last_error = Some(format!("{target} refused a window: {reason}"));
                });
            }
        }
        shared.publish(&mut spool);
    }
}
