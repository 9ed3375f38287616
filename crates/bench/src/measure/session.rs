//! A measurement from beginning to end: what is loaded when, what runs after what.
//!
//! The time that was asked for is kept, however large the programs are. So what matters most comes
//! first: each program is loaded, run once, and timed by one batch; then instructions are counted, then
//! clocks are put around programs, then images are made in which they take turns with a ruler, each as
//! far as it fits. What is left goes to samples: those of all cases and of the rulers take turns, in a
//! new random order each round, so that what changes slowly on the machine meets all of them alike.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use wingbeat_bpf::{
    ProgramType,
    loader::{LoadError, Loader, LoaderOptions, VerifierStatistics},
    program::ProgramInfo,
    spec::{Linked, ProgramSpec, Spec},
};
use wingbeat_stats::random::Random;

use super::{
    BenchError, Progress, Watcher,
    batch::FixedPart,
    budget::Budget,
    cases::Cases,
    contents::{Contents, contents},
    link::{link, unlinked},
    place,
    ruler::{RULER, empty_program},
    runner::Runner,
    subject::Subject,
    target,
    turn::{Turn, collect},
    verified,
};
use crate::{
    analyse::{self, Raw},
    conditions::{Conditions, Load, LoadReading, Observed},
    input::Input,
    plan::Plan,
    result::{Failure, Report, Verifier},
};

/// Rounds of batches after which single runs are clocked once.
const ROUNDS_PER_CLOCKING: usize = 3;

/// The same where samples are bursts, which take much less time than batches.
const ROUNDS_PER_CLOCKING_OF_BURSTS: usize = 12;

/// Time for the run that tells whether runs are counted in the end.
const LAST_RUN_MAX: Duration = Duration::from_millis(100);

/// Measures the programs of `spec` that `plan` names, on all its inputs.
///
/// # Errors
///
/// When nothing can be measured at all. What concerns single programs is in the report.
pub fn bench(spec: &Spec, plan: &Plan, watcher: &Watcher<'_>) -> Result<Report, BenchError> {
    place::on_thread_of_its_own(plan.cpu, watcher.stop, |runner| {
        Session::run(spec, plan, watcher, runner)
    })
}

pub(super) struct Session<'a> {
    pub(super) plan: &'a Plan,
    watcher: &'a Watcher<'a>,
    pub(super) runner: Runner<'a>,
    pub(super) budget: Budget,
    pub(super) fixed: Vec<(ProgramType, FixedPart)>,
    pub(super) random: Random,
    /// Whether all cases are measured in bursts, which bring the ruler along.
    has_bursts: bool,
    calls: u64,
    retries: u64,
}

impl<'a> Session<'a> {
    fn run(
        spec: &Spec,
        plan: &'a Plan,
        watcher: &'a Watcher<'a>,
        runner: Runner<'a>,
    ) -> Result<Report, BenchError> {
        let root = Path::new("/");
        let number = u32::try_from(runner.cpu).unwrap_or(0);
        let before = Conditions::read(root, number);
        let read_load = || LoadReading::read(root, number, &before.cpu_siblings);
        let load_before = read_load();
        if spec.programs().is_empty() {
            return Err(BenchError::no_programs(spec));
        }
        let chosen = plan.choose(spec)?;
        let (runnable, others): (Vec<_>, Vec<_>) =
            chosen.iter().copied().partition(|program| program.r#type.test_run().is_some());
        let budget = Budget::new(plan.time_for(runnable.len() * plan.inputs.len(), 1));
        runner.alarm.set(budget.deadline());
        let mut session = Self {
            plan,
            watcher,
            runner,
            budget,
            fixed: Vec::new(),
            random: Random::new(plan.seed),
            has_bursts: false,
            calls: 0,
            retries: 0,
        };
        session.show("reading the object's types");
        let linked = link(spec)?;
        let mut loader = Loader::new(spec, LoaderOptions::default())?;
        loader.make_up_contexts(chosen.iter().copied());
        target::provide(&mut loader, &chosen, (spec, &linked), plan)?;
        let no_object = Loader::without_object();
        let contents = contents(spec, plan)?;
        let nothing = Contents::new();
        let wanted: Vec<&Linked> = runnable
            .iter()
            .filter_map(|program| linked.iter().find(|linked| linked.program.name == program.name))
            .collect();
        let empties = rulers(&wanted);
        let mut subjects = Vec::new();
        for empty in &empties {
            let mut ruler = Subject::new(empty, &no_object, &nothing, runner)?;
            ruler.add_clocked();
            subjects.push(ruler);
        }
        let counted_at_start = session.are_runs_counted(&subjects)?;
        if counted_at_start && !plan.allow_statistics {
            return Err(BenchError::StatisticsOn);
        }
        let mut cases = Cases::new(subjects, unlinked(spec, &chosen, &linked));
        for (index, linked) in wanted.iter().enumerate() {
            let of_how_many = format!("{} of {}", index + 1, wanted.len());
            cases.add(&mut session, linked, (&loader, &contents), &of_how_many);
        }
        cases.add_rulers(&mut session);
        let mut others = verified::load(&others, &linked, &loader, plan, &mut session);
        others.verified.append(&mut cases.verified);
        cases.count(&mut session);
        cases.put_clocks(&mut session);
        cases.pair_with_rulers(&mut session);
        let Cases { mut subjects, turns, ruler_turns, raw, mut failures, .. } = cases;
        session.has_bursts = turns.iter().all(Turn::has_bursts);
        let mut turns: Vec<_> = ruler_turns.into_iter().chain(turns).collect();
        failures.append(&mut others.failures);
        // Rulers alone say nothing.
        if !raw.is_empty() {
            session.take_turns(&mut subjects, &mut turns)?;
        }
        // A run that was left behind may still have the CPU.
        runner.alarm.set(Instant::now().checked_add(LAST_RUN_MAX));
        let were_runs_counted = !counted_at_start && session.are_runs_counted(&subjects)?;
        let is_timed = plan.samples != Some(0);
        let (rulers, cases) = collect(
            &subjects,
            (empties.len(), &session.fixed),
            turns,
            raw,
            is_timed,
            &mut failures,
        );
        let after = Conditions::read(root, number);
        let load =
            load_before.zip(read_load()).map(|(before, after)| Load::between(&before, &after));
        let observed = Observed {
            calls: session.calls,
            retries: session.retries,
            samples: 0,
            samples_wanted: 0,
            were_runs_counted: were_runs_counted || counted_at_start,
        };
        Ok(analyse::report(Raw {
            object: spec.file().to_owned(),
            seed: plan.seed,
            cpu: runner.cpu,
            duration: session.budget.elapsed(),
            is_interrupted: watcher.is_stopped(),
            expect: plan.expect,
            rulers,
            cases,
            failures,
            skipped: others.skipped,
            verified: others.verified,
            before,
            after,
            load,
            observed,
        }))
    }

    /// Makes room for a program that takes so long to load, all of them together, unless the time was
    /// asked for.
    pub(super) fn extend_for(&mut self, loading: Duration) {
        if self.plan.time.is_none() {
            self.budget.extend_for(loading);
            self.runner.alarm.set(self.budget.deadline());
        }
    }

    /// Why something was not done, if that is because the time is over or somebody wants to stop.
    pub(super) fn why_over(&self, what: &str) -> Option<String> {
        match self.runner.alarm.is_over() {
            false => None,
            true if self.watcher.is_stopped() => Some(format!("interrupted before {what}")),
            true => Some(format!("the time was over before {what}; give more of it with --time")),
        }
    }

    /// Rounds until the time is over.
    fn take_turns(
        &mut self,
        subjects: &mut [Subject<'_>],
        turns: &mut [Turn<'_>],
    ) -> Result<(), BenchError> {
        let rounds_max = self.plan.samples.unwrap_or(usize::MAX);
        let mut order: Vec<usize> = (0..turns.len()).collect();
        for round in 0..rounds_max {
            self.random.shuffle(&mut order);
            // Who has nothing yet comes first.
            order.sort_by_key(|&index| turns[index].samples() > 0);
            let mut is_anybody_left = false;
            for &index in &order {
                if self.runner.alarm.is_over() {
                    return Ok(());
                }
                let turn = &mut turns[index];
                if turn.broken.is_some() {
                    continue;
                }
                is_anybody_left = true;
                let taken = self.take_turn(&mut subjects[turn.subject], turn, round);
                if let Err(error) = taken
                    && !self.runner.alarm.is_over()
                {
                    turn.broken = Some(error.to_string());
                }
            }
            if !is_anybody_left {
                break;
            }
        }
        Ok(())
    }

    /// One sample, and single runs if it is time for them.
    fn take_turn(
        &mut self,
        subject: &mut Subject<'_>,
        turn: &mut Turn<'_>,
        round: usize,
    ) -> Result<(), BenchError> {
        let own = ruler_input();
        let is_ruler = subject.linked.program.name == RULER;
        let (input, context) = match is_ruler {
            true => (&own, &[][..]),
            false => (&self.plan.inputs[turn.input], subject.context(&self.plan.context)),
        };
        if !is_ruler {
            self.show(&format!("{}: sample {}", subject.linked.program.name, round + 1));
        }
        let has_bursts = turn.take_bursts(&mut self.random)?;
        self.calls += u64::from(has_bursts);
        // Bursts come with their own ruler, and batches tell little besides them.
        let is_clocking = match has_bursts || (is_ruler && self.has_bursts) {
            true => round.is_multiple_of(ROUNDS_PER_CLOCKING_OF_BURSTS),
            false => round.is_multiple_of(ROUNDS_PER_CLOCKING),
        };
        if !is_clocking && (has_bursts || (is_ruler && self.has_bursts)) {
            return Ok(());
        }
        // Some have had their first batch at once.
        if has_bursts || turn.samples() <= round {
            self.take_batch(subject, turn, (input, context))?;
        }
        if is_clocking {
            if !is_ruler {
                subject.reset()?;
            }
            subject.move_clocked();
            turn.take_clocking(subject, input, context)?;
        }
        Ok(())
    }

    /// A batch that the kernel repeats.
    pub(super) fn take_batch(
        &mut self,
        subject: &mut Subject<'_>,
        turn: &mut Turn<'_>,
        given: (&Input, &[u8]),
    ) -> Result<(), BenchError> {
        let is_fresh = subject.linked.program.name != RULER;
        self.retries += turn.take_batch(subject, given, is_fresh)?;
        self.calls += 1;
        Ok(())
    }

    /// Whether the kernel counts runs, which it does only while statistics are on.
    fn are_runs_counted(&mut self, subjects: &[Subject<'_>]) -> Result<bool, BenchError> {
        let Some(ruler) = subjects.first() else { return Ok(false) };
        let count =
            || ProgramInfo::of(&ruler.state().plain).map(|info| info.run_count).unwrap_or(0);
        let before = count();
        let ran = ruler.run(&ruler_input(), &[], 1).is_ok();
        Ok(ran && count() > before)
    }

    pub(super) fn show(&self, doing: &str) {
        (self.watcher.show)(&Progress {
            doing: doing.to_owned(),
            elapsed: self.budget.elapsed(),
            total: self.budget.total(),
        });
    }
}

/// An empty program for each type that occurs.
fn rulers(wanted: &[&Linked]) -> Vec<Linked> {
    let mut empties: Vec<Linked> = Vec::new();
    for linked in wanted {
        if empties.iter().all(|empty| empty.program.r#type != linked.program.r#type) {
            empties.push(empty_program(&linked.program));
        }
    }
    empties
}

/// What rulers run on.
pub(super) fn ruler_input() -> Input {
    Input::default_packet()
}

/// Name of a case: the program alone where there is just one input.
pub(super) fn case_name(program: &ProgramSpec, input: &Input, plan: &Plan) -> String {
    match plan.inputs.len() {
        1 => program.name.clone(),
        _ => format!("{}/{}", program.name, input.name),
    }
}

pub(super) fn failure(name: &str, error: &BenchError) -> Failure {
    let failure = Failure::new(name, error.to_string());
    let BenchError::Load(LoadError::Rejected { rejection, .. }) = error else { return failure };
    let told = VerifierStatistics::parse(&rejection.log);
    let (verifier, log) = (Some(Verifier::from(&told)), Some(rejection.log.clone()));
    Failure { is_rejected: true, verifier, log, ..failure }
}
