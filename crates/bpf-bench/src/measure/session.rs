//! Shared state of all steps of a measurement: plan, time, random numbers, call counts.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use wingbeat_bpf_loader::ProgramType;
use wingbeat_stats::random::Random;

use super::{
    BenchError,
    batch::{FixedPart, repeats},
    empty_baseline::BASELINE,
    runner::{Given, Runner, Subject as _},
    slot::Slot,
};
use crate::plan::Plan;

/// Progress of a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Current step, such as `fun_xdp_v3: latency`.
    pub doing: String,
    pub elapsed: Duration,
    /// Planned total time.
    pub total: Duration,
}

/// Observes a measurement and may stop it. Called by the measuring thread between batches.
pub struct Watcher<'a> {
    pub show: &'a (dyn Fn(&Progress) + Sync),
    /// Set to end early; results so far are reported.
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

pub(super) struct Session<'a, R> {
    pub(super) plan: &'a Plan,
    pub(super) watcher: &'a Watcher<'a>,
    pub(super) runner: R,
    pub(super) budget: Budget,
    pub(super) fixed: Vec<(ProgramType, FixedPart)>,
    pub(super) random: Random,
    /// Whether all cases are measured in bursts, which include the baseline.
    pub(super) has_bursts: bool,
    pub(super) calls: u64,
    pub(super) retries: u64,
}

impl<'a, R: Runner<'a>> Session<'a, R> {
    /// The runner's alarm goes off when `budget` is over.
    pub(super) fn new(plan: &'a Plan, watcher: &'a Watcher<'a>, runner: R, budget: Budget) -> Self {
        runner.set_deadline(budget.deadline());
        Self {
            plan,
            watcher,
            runner,
            budget,
            fixed: Vec::new(),
            random: Random::new(plan.seed),
            has_bursts: false,
            calls: 0,
            retries: 0,
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.runner.now()
    }

    /// Extends the budget for a program with this total load time, unless the user set the time.
    pub(super) fn extend_for(&mut self, loading: Duration) {
        if self.plan.time.is_none() {
            self.budget.extend_for(loading);
            self.runner.set_deadline(self.budget.deadline());
        }
    }

    /// Runs a task without reducing the time for runs, unless the user set the time.
    pub(super) fn untimed<T>(&mut self, act: impl FnOnce(&Self) -> T) -> T {
        if self.plan.time.is_some() {
            return act(self);
        }
        let begun = self.now();
        self.runner.set_deadline(begun.checked_add(EXTENDED_MAX));
        let found = act(self);
        self.budget.prolong(self.now().saturating_duration_since(begun));
        self.runner.set_deadline(self.budget.deadline());
        found
    }

    /// Why a step was skipped, if the time is over or the user wants to stop.
    pub(super) fn why_over(&self, what: &str) -> Option<String> {
        match self.runner.is_over() {
            false => None,
            true if self.runner.is_stopped() => Some(format!("interrupted before {what}")),
            true => Some(format!("the time ran out before {what}; increase --time")),
        }
    }

    /// Fixed cost of a call for programs of this type; 0 if unknown.
    pub(super) fn fixed_part(&self, r#type: ProgramType) -> FixedPart {
        let known = self.fixed.iter().find(|(known, _)| *known == r#type);
        known.map_or_else(FixedPart::default, |(_, fixed)| *fixed)
    }

    /// The context of the baseline of a type. Where each run is a call, copying the context is part of its time.
    pub(super) fn baseline_context(&self, r#type: ProgramType) -> &'a [u8] {
        match repeats(r#type) {
            true => &[],
            false => &self.plan.context,
        }
    }

    /// A batch that the kernel repeats.
    pub(super) fn take_batch(
        &mut self,
        subject: &mut R::Subject,
        slot: &mut Slot<R::Alternation>,
        given: Given<'_>,
    ) -> Result<(), BenchError> {
        let is_fresh = subject.name() != BASELINE;
        self.retries += slot.take_batch(self.runner, subject, given, is_fresh)?;
        self.calls += 1;
        Ok(())
    }

    pub(super) fn show(&self, doing: &str) {
        (self.watcher.show)(&Progress {
            doing: doing.to_owned(),
            elapsed: self.budget.elapsed(self.now()),
            total: self.budget.total(),
        });
    }
}

/// Shares of the time after which tasks other than timing plain runs are not begun: counting, the
/// form with a clock, the image for alternating with the baseline.
pub(super) const COUNTING_UNTIL: f64 = 0.5;
pub(super) const CLOCKING_UNTIL: f64 = 0.6;
pub(super) const PAIRING_UNTIL: f64 = 0.75;

/// Minimum duration of a measurement relative to its loading time, unless the user set its time.
const TIMES_LOADING: u32 = 6;

/// Maximum extension for that.
pub(super) const EXTENDED_MAX: Duration = Duration::from_secs(120);

/// Time budget of a measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    begun: Instant,
    total: Duration,
}

impl Budget {
    pub(super) fn new(begun: Instant, total: Duration) -> Self {
        Self { begun, total }
    }

    pub(super) fn total(&self) -> Duration {
        self.total
    }

    pub(super) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begun)
    }

    pub(super) fn left(&self, now: Instant) -> Duration {
        self.total.saturating_sub(self.elapsed(now))
    }

    /// The deadline; `None` if it is out of range of the clock.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.begun.checked_add(self.total)
    }

    /// Extends the budget for programs with this loading time.
    pub(super) fn extend_for(&mut self, loading: Duration) {
        self.total = extended(self.total, loading);
    }

    /// Extends the budget by time spent on other work.
    pub(super) fn prolong(&mut self, extra: Duration) {
        self.total = self.total.saturating_add(extra);
    }

    /// Whether a task with this estimated duration ends before `share` of the time has passed.
    pub(super) fn allows(&self, now: Instant, estimate: Duration, share: f64) -> bool {
        self.elapsed(now).saturating_add(estimate) <= self.total.mul_f64(share)
    }

    /// Time until `share` of the budget has passed.
    pub(super) fn left_until(&self, now: Instant, share: f64) -> Duration {
        self.total.mul_f64(share).saturating_sub(self.elapsed(now))
    }
}

fn extended(total: Duration, loading: Duration) -> Duration {
    total.max(loading.saturating_mul(TIMES_LOADING).min(EXTENDED_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_loads_get_more_time() {
        let check = |total: u64, loading: u64, expected: u64| {
            let found = extended(Duration::from_secs(total), Duration::from_secs(loading));
            assert_eq!(found, Duration::from_secs(expected), "{total} {loading}");
        };
        check(5, 0, 5);
        check(5, 1, 6);
        check(5, 60, 120);
        check(240, 60, 240);
    }

    #[test]
    fn what_does_not_fit_is_not_begun() {
        let begun = Instant::now();
        let budget = Budget::new(begun, Duration::from_secs(100));
        let seconds = Duration::from_secs;
        let check = |passed, estimate, share, expected: (bool, u64, u64)| {
            let now = begun + seconds(passed);
            let (left, left_until) = (budget.left(now), budget.left_until(now, share));
            let found = (budget.allows(now, seconds(estimate), share), left, left_until);
            assert_eq!(found, (expected.0, seconds(expected.1), seconds(expected.2)), "{passed}");
        };
        check(0, 50, COUNTING_UNTIL, (true, 100, 50));
        check(0, 51, COUNTING_UNTIL, (false, 100, 50));
        check(40, 11, COUNTING_UNTIL, (false, 60, 10));
        check(80, 0, PAIRING_UNTIL, (false, 20, 0));
        check(101, 0, 1.0, (false, 0, 0));
    }
}
