//! A measurement from beginning to end: what is loaded when, what runs after what.
//!
//! Batches of all cases and of the rulers take turns, in a new random order each round, so that what
//! changes slowly on the machine meets all of them alike.

use std::{
    path::Path,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use wingbeat_bpf::{
    ProgramType,
    live::{LoadError, Loader, LoaderOptions, VerifierStatistics},
    program::Info,
    spec::{Linked, ProgramSpec, Spec},
};
use wingbeat_stats::random::Random;

use super::{
    BenchError, Progress, Watcher,
    batch::{FixedPart, calibrate},
    contents::{Contents, contents},
    counts::{first_run, settled_run},
    link::{link, unlinked},
    place,
    ruler::{RULER, empty_program},
    subject::{Forms, Subject},
    turn::{Turn, collect},
    verified,
};
use crate::{
    analyse::{self, Raw, RawCase, RawRun},
    conditions::{Conditions, Load, LoadReading, Observed},
    input::Input,
    plan::Plan,
    result::{Failure, Report, Verifier},
};

/// Rounds of batches after which single runs are clocked once.
const ROUNDS_PER_CLOCKING: usize = 3;

/// The same where samples are bursts, which take much less time than batches.
const ROUNDS_PER_CLOCKING_OF_BURSTS: usize = 12;

/// Inputs of one program up to which it is found out whether its runs feed each other.
const SETTLED_INPUTS_MAX: usize = 100;

/// Measures the programs of `spec` that `plan` names, on all its inputs.
///
/// # Errors
///
/// When nothing can be measured at all. What concerns single programs is in the report.
pub fn bench(spec: &Spec, plan: &Plan, watcher: &Watcher<'_>) -> Result<Report, BenchError> {
    // A thread of its own, because it binds itself to a CPU and blocks signals.
    std::thread::scope(|scope| {
        let measure = || Session::run(spec, plan, watcher);
        scope.spawn(measure).join().unwrap_or(Err(BenchError::Thread))
    })
}

struct Session<'a> {
    plan: &'a Plan,
    watcher: &'a Watcher<'a>,
    begun: Instant,
    total: Duration,
    fixed: Vec<(ProgramType, FixedPart)>,
    random: Random,
    /// Whether all cases are measured in bursts, which bring the ruler along.
    has_bursts: bool,
    calls: u64,
    retries: u64,
}

impl<'a> Session<'a> {
    fn run(spec: &Spec, plan: &'a Plan, watcher: &'a Watcher<'a>) -> Result<Report, BenchError> {
        let cpu = place::settle(plan.cpu)?;
        let number = u32::try_from(cpu).unwrap_or(0);
        let root = Path::new("/");
        let before = Conditions::read(root, number);
        let read_load = || LoadReading::read(root, number, &before.cpu_siblings);
        let load_before = read_load();
        if spec.programs().is_empty() {
            return Err(BenchError::NoPrograms(spec.file().to_owned()));
        }
        let chosen = plan.choose(spec)?;
        let (runnable, others): (Vec<_>, Vec<_>) =
            chosen.iter().copied().partition(|program| program.r#type.test_run().is_some());
        let begun = Instant::now();
        let total = plan.time_for(runnable.len() * plan.inputs.len(), 1);
        let mut session = Self {
            plan,
            watcher,
            begun,
            total,
            fixed: Vec::new(),
            random: Random::new(plan.seed),
            has_bursts: false,
            calls: 0,
            retries: 0,
        };
        let linked = link(spec)?;
        let loader = Loader::new(spec, LoaderOptions::default())?;
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
            subjects.push(Subject::new(
                empty,
                &no_object,
                &nothing,
                Forms { counted: false, clocked: true },
            )?);
        }
        let counted_at_start = session.are_runs_counted(&subjects)?;
        if counted_at_start && !plan.allow_statistics {
            return Err(BenchError::StatisticsOn);
        }
        let unlinked = unlinked(spec, &chosen, &linked)?;
        let others = verified::load(&others, &linked, &loader, plan, runnable.is_empty())?;
        let mut failures = [unlinked, others.failures].concat();
        for linked in &wanted {
            session.show(&format!("{}: loading", linked.program.name));
            match Subject::new(linked, &loader, &contents, Forms::ALL) {
                Ok(subject) => subjects.push(subject),
                Err(error) => match failure(&linked.program.name, &error) {
                    // There will be nothing to report.
                    found if chosen.len() == 1 && !found.is_rejected => return Err(error),
                    found => failures.push(found),
                },
            }
        }
        let (mut turns, cases) = session.prepare(&mut subjects, empties.len(), &mut failures)?;
        // Rulers alone say nothing.
        if !cases.is_empty() {
            session.take_turns(&mut subjects, &mut turns)?;
        }
        let were_runs_counted = !counted_at_start && session.are_runs_counted(&subjects)?;
        let (rulers, cases) = collect(&subjects, empties.len(), turns, cases, &mut failures);
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
            cpu,
            duration: begun.elapsed(),
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

    /// Runs each case once for its outcome and its counts, and finds how long batches have to be.
    fn prepare<'s>(
        &mut self,
        subjects: &mut [Subject<'s>],
        rulers: usize,
        failures: &mut Vec<Failure>,
    ) -> Result<(Vec<Turn<'s>>, Vec<RawCase>), BenchError>
    where
        'a: 's,
    {
        let mut turns = Vec::new();
        let mut cases = Vec::new();
        for (number, subject) in subjects.iter().enumerate().take(rulers) {
            let input = ruler_input();
            let fixed = FixedPart::measure(|runs| subject.run(&input, &[], runs));
            // A context that the type cannot do without may be missing: then there is no ruler.
            let Ok(fixed) = fixed else { continue };
            self.fixed.push((subject.r#type(), fixed));
            let runs_per_batch =
                calibrate(subject.r#type(), |runs| subject.run(&input, &[], runs))?;
            turns.push(Turn::new(number, 0, runs_per_batch));
        }
        let (empties, subjects) = subjects.split_at_mut(rulers);
        for (number, subject) in subjects.iter_mut().enumerate() {
            let ruler = (0..turns.len().min(rulers))
                .map(|at| &empties[turns[at].subject])
                .find(|ruler| ruler.r#type() == subject.r#type());
            for (index, input) in self.plan.inputs.iter().enumerate() {
                let name = case_name(&subject.linked.program, input, self.plan);
                if self.watcher.is_stopped() {
                    failures.push(Failure::new(name, "interrupted before its first run"));
                    continue;
                }
                self.show(&format!("{name}: counting"));
                match self.prepare_case(subject, input, name.clone()) {
                    Ok((case, runs_per_batch)) => {
                        cases.push(case);
                        let turn = Turn::new(rulers + number, index, runs_per_batch);
                        turns.push(match ruler {
                            Some(ruler) => {
                                turn.beside(ruler, subject, input, self.plan, &mut self.random)
                            }
                            None => turn,
                        });
                    }
                    Err(error) => failures.push(failure(&name, &error)),
                }
            }
        }
        self.has_bursts = turns.iter().skip(self.fixed.len()).all(Turn::has_bursts);
        Ok((turns, cases))
    }

    fn prepare_case(
        &mut self,
        subject: &mut Subject<'_>,
        input: &Input,
        name: String,
    ) -> Result<(RawCase, u32), BenchError> {
        let context = &self.plan.context;
        subject.reset()?;
        let first = subject.run(input, context, 1)?;
        let counts = match &subject.state().counted {
            Err(reason) => Err(reason.clone()),
            Ok(_) => {
                subject.reset()?;
                let (run, counts) = first_run(subject, input, context)?;
                if (run.return_value, &run.data) == (first.return_value, &first.data) {
                    counts.exact()
                } else {
                    Err(format!(
                        "with counters it returned {} instead of {}, or wrote another packet: its \
                         result depends on something that changes from run to run (time, random \
                         numbers), or this is a defect of wingbeat",
                        run.return_value, first.return_value
                    ))
                }
            }
        };
        let settled = match &counts {
            Ok(_) if self.plan.inputs.len() <= SETTLED_INPUTS_MAX => {
                Some(settled_run(subject, input, context)?.instructions())
            }
            _ => None,
        };
        subject.reset()?;
        let runs_per_batch = calibrate(subject.r#type(), |runs| subject.run(input, context, runs))?;
        let state = subject.state();
        let tail_calls = state.tail_calls(counts.as_ref().ok());
        let calls = counts.as_ref().ok().map(|counts| {
            let kfunc = |index| subject.linked.kfunc_at(index).map(|kfunc| kfunc.name.clone());
            counts.calls(&subject.linked.code, kfunc)
        });
        let case = RawCase {
            name,
            program: subject.linked.program.name.clone(),
            input: input.name.clone(),
            input_data: input.data.clone(),
            seen_bytes_max: seen_bytes_max(&subject.linked.program),
            r#type: subject.r#type(),
            first,
            instructions: counts.map(|counts| counts.instructions()),
            calls: calls.unwrap_or_default(),
            tail_calls,
            settled_instructions: settled,
            verifier: state.plain.verifier.clone(),
            info: state.plain.info.clone(),
            object_instructions: subject.linked.code.insns.len(),
            map_memory_bytes: state.maps.memory_bytes(),
            no_clock: state.clocked.as_ref().err().cloned(),
            run: RawRun::default(),
        };
        Ok((case, runs_per_batch))
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
            for &index in &order {
                if self.is_over(round) {
                    return Ok(());
                }
                let turn = &mut turns[index];
                if turn.broken.is_some() {
                    continue;
                }
                let taken = self.take_turn(&mut subjects[turn.subject], turn, round);
                if let Err(error) = taken {
                    turn.broken = Some(error.to_string());
                }
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
            false => (&self.plan.inputs[turn.input], self.plan.context.as_slice()),
        };
        if !is_ruler {
            self.show(&format!("{}: batches", subject.linked.program.name));
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
        if !is_ruler {
            subject.reset()?;
        }
        let r#type = subject.r#type();
        let fixed = self.fixed.iter().find(|(known, _)| *known == r#type);
        let fixed = fixed.map_or_else(FixedPart::default, |(_, fixed)| *fixed);
        self.retries += turn.take_batch(subject, input, context, fixed)?;
        self.calls += 1;
        if is_clocking {
            if !is_ruler {
                subject.reset()?;
            }
            turn.take_clocking(subject, input, context)?;
        }
        Ok(())
    }

    /// Whether the time is over or somebody wants to stop. The first round is finished in any case,
    /// unless it takes twice as long as everything should.
    fn is_over(&self, round: usize) -> bool {
        let limit = if round == 0 { self.total.saturating_mul(2) } else { self.total };
        self.watcher.stop.load(Ordering::Relaxed) || self.begun.elapsed() >= limit
    }

    /// Whether the kernel counts runs, which it does only while statistics are on.
    fn are_runs_counted(&mut self, subjects: &[Subject<'_>]) -> Result<bool, BenchError> {
        let Some(ruler) = subjects.first() else { return Ok(false) };
        let count = || Info::of(&ruler.state().plain).map(|info| info.run_count).unwrap_or(0);
        let before = count();
        // Two: some types take another way for a single run.
        let ran = ruler.run(&ruler_input(), &[], 2).is_ok();
        Ok(ran && count() > before)
    }

    fn show(&self, doing: &str) {
        (self.watcher.show)(&Progress {
            doing: doing.to_owned(),
            elapsed: self.begun.elapsed(),
            total: self.total,
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
fn ruler_input() -> Input {
    Input::default_packet()
}

/// Name of a case: the program alone where there is just one input.
pub(super) fn case_name(program: &ProgramSpec, input: &Input, plan: &Plan) -> String {
    match plan.inputs.len() {
        1 => program.name.clone(),
        _ => format!("{}/{}", program.name, input.name),
    }
}

/// What a program sees of a packet at most, in bytes, about; `None` if all of it. The kernel shows an
/// XDP program without frags what fits into a page beside its own bookkeeping (`max_linear_sz` in
/// `bpf_prog_test_run_xdp` of net/bpf/test_run.c, Linux 6.12), and drops no word about the rest.
fn seen_bytes_max(program: &ProgramSpec) -> Option<usize> {
    /// `XDP_PACKET_HEADROOM`.
    const HEADROOM_BYTES: usize = 256;
    /// `skb_shared_info`, aligned; its length depends on how the kernel was built.
    const TAILROOM_BYTES: usize = 320;
    let is_whole = program.r#type != ProgramType::XDP || program.has_frags();
    (!is_whole).then(|| rustix::param::page_size() - HEADROOM_BYTES - TAILROOM_BYTES)
}

pub(super) fn failure(name: &str, error: &BenchError) -> Failure {
    let failure = Failure::new(name, error.to_string());
    let BenchError::Load(LoadError::Rejected { rejection, .. }) = error else { return failure };
    let told = VerifierStatistics::parse(&rejection.log);
    let (verifier, log) = (Some(Verifier::from(&told)), Some(rejection.log.clone()));
    Failure { is_rejected: true, verifier, log, ..failure }
}
