//! What all steps of a measurement share: its plan, its time, its random numbers, and what it has called.

use std::time::{Duration, Instant};

use wingbeat_bpf::ProgramType;
use wingbeat_stats::random::Random;

use super::{
    BenchError, Progress, Watcher,
    batch::FixedPart,
    budget::Budget,
    ruler::RULER,
    runner::{Given, Runner, Subject as _},
    turn::Turn,
};
use crate::plan::Plan;

pub(super) struct Session<'a, R> {
    pub(super) plan: &'a Plan,
    pub(super) watcher: &'a Watcher<'a>,
    pub(super) runner: R,
    pub(super) budget: Budget,
    pub(super) fixed: Vec<(ProgramType, FixedPart)>,
    pub(super) random: Random,
    /// Whether all cases are measured in bursts, which bring the ruler along.
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

    /// Makes room for a program that takes so long to load, all of them together, unless the time was
    /// asked for.
    pub(super) fn extend_for(&mut self, loading: Duration) {
        if self.plan.time.is_none() {
            self.budget.extend_for(loading);
            self.runner.set_deadline(self.budget.deadline());
        }
    }

    /// Why something was not done, if that is because the time is over or somebody wants to stop.
    pub(super) fn why_over(&self, what: &str) -> Option<String> {
        match self.runner.is_over() {
            false => None,
            true if self.runner.is_stopped() => Some(format!("interrupted before {what}")),
            true => Some(format!("the time ran out before {what}; increase --time")),
        }
    }

    /// What a call costs besides the runs, of a program of this type; 0 where that is not known.
    pub(super) fn fixed_part(&self, r#type: ProgramType) -> FixedPart {
        let known = self.fixed.iter().find(|(known, _)| *known == r#type);
        known.map_or_else(FixedPart::default, |(_, fixed)| *fixed)
    }

    /// A batch that the kernel repeats.
    pub(super) fn take_batch(
        &mut self,
        subject: &mut R::Subject,
        turn: &mut Turn<R::Alternation>,
        given: Given<'_>,
    ) -> Result<(), BenchError> {
        let is_fresh = subject.name() != RULER;
        self.retries += turn.take_batch(self.runner, subject, given, is_fresh)?;
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
