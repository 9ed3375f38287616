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
    budget::{Budget, EXTENDED_MAX},
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
    pub(super) fn beside<T>(&mut self, act: impl FnOnce(&Self) -> T) -> T {
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
