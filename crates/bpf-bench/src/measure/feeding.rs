//! Detects side effects between runs: whether a run among thousands behaves like the requested run.
//!
//! The kernel builds the packet once for all runs of a call, and maps persist across calls. So the
//! same runs are made in one call and in separate calls, and compared. Differences between the two
//! are due to the packet and its metadata; differences from the first run in both are due to maps.

use std::{ops::RangeInclusive, time::Instant};

use wingbeat_bpf_loader::{
    code::{Insn, op},
    loader::ProgramRun,
    spec::Linked,
};

use super::{
    BenchError,
    batch::repeats,
    runner::{Given, Leaves, Subject},
};
use crate::analyse::{Later, has_changed_packet};

/// Runs after which the maps are assumed to be in the state that batches see; fewer if they would
/// take longer than this, and none if not even the minimum fits.
const RUNS: u32 = 4_096;
const RUNS_MIN: u32 = 64;
const RUNS_NS: f64 = 100e6;

/// Runs after these that are counted for the mean: as many as a sample has, whose bursts take this time, or
/// more, because work may be periodic.
const SAMPLE_NS: f64 = 5e6;
const RUNS_IN_MEAN: RangeInclusive<f64> = 64.0..=1e6;

/// Maximum number of return value changes in a row of settled runs: a limit is reached once. More changes are random.
const SETTLED_CHANGES: u32 = 1;

/// Result of consecutive runs.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// Instructions executed by all of them, and by the last; `None` without counters.
    pub(super) instructions: Option<u64>,
    pub(super) last_instructions: Option<u64>,
    pub(super) last: ProgramRun,
    /// Number of changes of the return value from one run to the next.
    pub(super) changes: u32,
}

/// Side effects of a case's runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Feeding {
    /// Result after thousands of runs, each with the requested packet, on the maps that these left;
    /// `None` if not determined.
    pub(super) settled: Option<Later>,
    /// Result after thousands of runs that each got the output packet of the previous one; `None`
    /// if the packet makes no difference.
    pub(super) own_output: Option<Later>,
}

impl Feeding {
    pub(super) fn leaves(&self) -> Leaves {
        let settled = self.settled.filter(|settled| !settled.varies);
        match self.own_output {
            None => Leaves::AsItWas,
            Some(_) => Leaves::Changed { returns: settled.and_then(|it| it.return_value) },
        }
    }

    /// What the first run alone shows.
    pub(super) fn of_first<'a>(
        subject: &impl Subject<'a>,
        (input, _): Given<'_>,
        first: &ProgramRun,
    ) -> Self {
        let changes = first.has_changed_context
            || has_changed_packet(subject.r#type(), &input.data, &first.data);
        Self { settled: None, own_output: changes.then(Later::default) }
    }

    /// Detects the side effects. A run takes about `run_ns`; `first` is the result of the first run.
    pub(super) fn find<'a>(
        subject: &mut impl Subject<'a>,
        given: Given<'_>,
        first: &ProgramRun,
        run_ns: f64,
    ) -> Result<Self, BenchError> {
        let mut found = Self::of_first(subject, given, first);
        // Between 0 and RUNS.
        let runs_of = |each_ns: f64| (RUNS_NS / each_ns).clamp(0.0, f64::from(RUNS)) as u32;
        if runs_of(run_ns) < RUNS_MIN {
            return Ok(found);
        }
        // A call may take much longer than a run: a hundred microseconds in an emulated guest.
        let begun = Instant::now();
        subject.run_calls(given, RUNS_MIN)?;
        let call_ns = begun.elapsed().as_nanos() as f64 / f64::from(RUNS_MIN);
        let runs = runs_of(run_ns.max(call_ns)).max(RUNS_MIN);
        subject.reset()?;
        let calls = subject.run_calls(given, runs)?;
        found.settled = Some(Later {
            instructions: calls.last_instructions,
            return_value: Some(calls.last.return_value),
            varies: calls.changes > SETTLED_CHANGES,
        });
        if !repeats(subject.r#type()) {
            return Ok(found);
        }
        subject.reset()?;
        let (last, instructions) = subject.run_counted(given, runs)?;
        let is_same = |own: Option<u64>, called: Option<u64>| {
            own.zip(called).is_none_or(|(own, called)| own == called)
        };
        let is_same_end =
            last.data == calls.last.data && last.return_value == calls.last.return_value;
        if found.own_output.is_none() && is_same_end && is_same(instructions, calls.instructions) {
            return found.in_the_mean(subject, given, run_ns);
        }
        subject.reset()?;
        let (_, before) = subject.run_counted(given, runs - 1)?;
        let own = instructions.zip(before).and_then(|(all, before)| all.checked_sub(before));
        // Calls take longer than runs, so that a program that reads the clock does periodic work in
        // calls only. The final runs are alike.
        if found.own_output.is_none() && is_same_end && is_same(own, calls.last_instructions) {
            return found.in_the_mean(subject, given, run_ns);
        }
        let varies = varies(subject, given, runs, &calls)?;
        let is_unchanged = found.own_output.is_none()
            && !last.has_changed_context
            && !has_changed_packet(subject.r#type(), &given.0.data, &last.data);
        // The time between runs makes the difference, and is that of samples only here.
        if is_unchanged && !varies && !subject.unpredictable_calls().is_empty() {
            let return_value = Some(last.return_value);
            found.settled = Some(Later { instructions: own, return_value, varies });
            return found.in_the_mean(subject, given, run_ns);
        }
        // An unchanged packet cannot be the cause; other differences may be random.
        if found.own_output.is_some() || !varies {
            found.own_output = Some(Later {
                instructions: own.filter(|_| !varies),
                return_value: Some(last.return_value),
                varies,
            });
        }
        Ok(found)
    }

    /// Counts what samples see after thousands of runs: their times include periodic work, and that of
    /// runs before and after a limit is reached.
    fn in_the_mean<'a>(
        mut self,
        subject: &impl Subject<'a>,
        given: Given<'_>,
        run_ns: f64,
    ) -> Result<Self, BenchError> {
        // For XDP a call with more than one run takes 16 to 40 ms.
        let is_dear = subject.r#type().test_run().is_some_and(|rules| rules.swaps_dispatcher);
        let is_alike = subject.unpredictable_calls().is_empty() && !has_maps(subject.linked());
        if is_dear && is_alike {
            return Ok(self);
        }
        let runs = (SAMPLE_NS / run_ns).clamp(*RUNS_IN_MEAN.start(), *RUNS_IN_MEAN.end()) as u32;
        let (_, all) = subject.run_counted(given, runs)?;
        let mean = all.map(|all| all.saturating_add(u64::from(runs / 2)) / u64::from(runs));
        if let Some(settled) = &mut self.settled {
            settled.instructions = mean.or(settled.instructions);
        }
        Ok(self)
    }
}

/// Whether a program uses maps, global variables included.
fn has_maps(linked: &Linked) -> bool {
    let is_map = |insn: &Insn| matches!(insn.src(), op::PSEUDO_MAP_FD | op::PSEUDO_MAP_VALUE);
    linked.code.insns.iter().any(|insn| insn.is_ldimm64() && is_map(insn))
}

/// Whether repeating the same runs gives different results: by chance, or as time passes.
fn varies<'a>(
    subject: &mut impl Subject<'a>,
    given: Given<'_>,
    runs: u32,
    before: &Row,
) -> Result<bool, BenchError> {
    subject.reset()?;
    let again = subject.run_calls(given, runs)?;
    Ok(before.changes > SETTLED_CHANGES
        || (again.instructions, again.last.return_value)
            != (before.instructions, before.last.return_value))
}
