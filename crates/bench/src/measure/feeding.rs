//! What runs leave for those after them: whether a run among thousands is the run that was asked for.
//!
//! The kernel builds the packet once for all runs of a call, and maps once for all calls. So the same
//! runs are made in one call and in calls of their own, and compared. What differs between the two is
//! due to the packet and its metadata; what differs from the first run in both is due to maps.

use std::time::Instant;

use wingbeat_bpf::loader::ProgramRun;

use super::{
    BenchError,
    batch::repeats,
    runner::{Given, Leaves, Subject},
};
use crate::analyse::{Later, has_changed_packet};

/// Runs after which the maps are taken to be in the state that the batches see; fewer where they would
/// take longer than this, and none where not even so many fit.
const RUNS: u32 = 4_096;
const RUNS_MIN: u32 = 64;
const RUNS_NS: f64 = 100e6;

/// Runs behind them whose instructions are counted in the mean.
const RUNS_IN_MEAN: u32 = 64;

/// Changes of the return value in a row of runs up to which it has settled: a limit is reached once. A
/// value that changes more often does so by chance.
const SETTLED_CHANGES: u32 = 1;

/// What came of runs in a row.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// What all of them executed, and the last of them; `None` without counters.
    pub(super) instructions: Option<u64>,
    pub(super) last_instructions: Option<u64>,
    pub(super) last: ProgramRun,
    /// How often a run returned something else than the one before.
    pub(super) changes: u32,
}

/// What a case's runs leave.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Feeding {
    /// A run after thousands, each of which got the packet that was asked for, on the maps that these
    /// left; `None` if that was not found out.
    pub(super) settled: Option<Later>,
    /// A run after thousands that each got what the one before left of its packet; `None` if the packet
    /// makes no difference.
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

    /// What the first run alone tells.
    pub(super) fn of_first<'a>(
        subject: &impl Subject<'a>,
        (input, _): Given<'_>,
        first: &ProgramRun,
    ) -> Self {
        let changes = first.has_changed_context
            || has_changed_packet(subject.r#type(), &input.data, &first.data);
        Self { settled: None, own_output: changes.then(Later::default) }
    }

    /// Finds it out. A run takes `run_ns`, roughly, and the `first` one left this.
    pub(super) fn find<'a>(
        subject: &mut impl Subject<'a>,
        given: Given<'_>,
        first: &ProgramRun,
        run_ns: f64,
    ) -> Result<Self, BenchError> {
        let mut found = Self::of_first(subject, given, first);
        // Within 0 and RUNS.
        let runs_of = |each_ns: f64| (RUNS_NS / each_ns).clamp(0.0, f64::from(RUNS)) as u32;
        if runs_of(run_ns) < RUNS_MIN {
            return Ok(found);
        }
        // A call may take much longer than a run: in an emulated guest a hundred microseconds.
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
            return found.in_the_mean(subject, given);
        }
        subject.reset()?;
        let (_, before) = subject.run_counted(given, runs - 1)?;
        let own = instructions.zip(before).and_then(|(all, before)| all.checked_sub(before));
        // Calls take longer than runs, so that a program that looks at the clock does something now and then
        // in these only. In the end the runs are alike.
        if found.own_output.is_none() && is_same_end && is_same(own, calls.last_instructions) {
            return found.in_the_mean(subject, given);
        }
        let varies = varies(subject, given, runs, &calls)?;
        // Another packet comes of none that was left alone; the rest may be by chance.
        if found.own_output.is_some() || !varies {
            found.own_output = Some(Later {
                instructions: own.filter(|_| !varies),
                return_value: Some(last.return_value),
                varies,
            });
        }
        Ok(found)
    }

    /// Counts what the batches see, once thousands of runs have been made: work that is done now and then is
    /// in their times.
    fn in_the_mean<'a>(
        mut self,
        subject: &impl Subject<'a>,
        given: Given<'_>,
    ) -> Result<Self, BenchError> {
        // For XDP a call with more than one run takes 16 to 40 ms.
        let is_dear = subject.r#type().test_run().is_some_and(|rules| rules.swaps_dispatcher);
        if is_dear && subject.unpredictable_calls().is_empty() {
            return Ok(self);
        }
        let (_, all) = subject.run_counted(given, RUNS_IN_MEAN)?;
        let mean = all
            .map(|all| all.saturating_add(u64::from(RUNS_IN_MEAN / 2)) / u64::from(RUNS_IN_MEAN));
        if let Some(settled) = &mut self.settled {
            settled.instructions = mean.or(settled.instructions);
        }
        Ok(self)
    }
}

/// Whether the same runs once more come to something else: by chance, or as time passes.
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
