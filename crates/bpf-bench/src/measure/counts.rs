//! Exact counts: one run of the program with counters, and its result.

use std::{sync::atomic::AtomicBool, time::Duration};

use wingbeat_bpf_loader::{
    loader::{Loader, ProgramRun},
    spec::{Linked, ObjectTypes, Spec},
};

use super::{
    BenchError,
    contents::contents,
    error::explained,
    kernel,
    runner::{Form, Given, Runner, Subject},
    schedule::NOT_RUN,
    session::{COUNTING_UNTIL, Session},
    subject::link_one,
    target,
};
use crate::{
    Warning,
    analyse::{self, RawCase},
    counts::{Counts, Variation},
    plan::{Plan, find},
    result::Failure,
};

/// Instructions executed by one program, over all inputs of a plan.
#[derive(Debug)]
pub struct CountedProgram {
    pub linked: Linked,
    /// The object's types, with file names and source lines.
    pub types: ObjectTypes,
    /// Executions of each instruction over one run on each input.
    pub counts: Counts,
    /// Name of each input and the return value.
    pub outcomes: Vec<(String, u32)>,
    /// Inputs on which it could not be run, with reasons.
    pub left_out: Vec<Failure>,
    /// Warnings about how it was loaded.
    pub warnings: Vec<Warning>,
}

/// Counts the instructions of `program`: one run on each input of `plan`, each on fresh maps. Fails
/// if it cannot be linked, loaded, instrumented, or run on any input.
pub fn count_program(
    spec: &Spec,
    program: &str,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<CountedProgram, BenchError> {
    kernel::on_thread_of_its_own(plan.cpu, stop, |kernel| {
        let spec = &*target::measured(spec, plan);
        let linked = link_one(spec, &find(spec, program)?.name)?;
        if linked.program.r#type.test_run().is_some() && !linked.program.runs_on_demand() {
            let name = &linked.program.name;
            return Err(BenchError::NotMeasurable(format!("{name} cannot be run: {NOT_RUN}")));
        }
        let mut loader = Loader::new(spec)?;
        loader.make_up_contexts(std::iter::once(&linked.program));
        let contents = contents(spec, plan, &mut loader)?;
        let mut counts = Counts { executed: vec![0; linked.code.insns.len()], ..Counts::default() };
        let (mut outcomes, mut left_out) = (Vec::new(), Vec::new());
        let mut varying = Vec::new();
        let mut subject = kernel.load(&linked, (&loader, &contents))?;
        subject.add(Form::Counted);
        for input in &plan.inputs {
            if kernel.is_over() {
                break;
            }
            subject.reset()?;
            let context = subject.context(&plan.context);
            match subject.first_counts((input, context)) {
                Ok((run, found)) => {
                    counts.add(&found);
                    outcomes.push((input.name.clone(), run.return_value));
                    let first = found.instructions();
                    let is_looked_at = plan.inputs.len() <= INPUTS_MAX;
                    let found = is_looked_at
                        .then(|| again(kernel, &mut subject, (input, context), first))
                        .flatten();
                    varying.extend(found.map(|found| format!("{} ({found})", input.name)));
                }
                Err(error) if plan.inputs.len() > 1 => {
                    left_out.push(Failure::new(&input.name, error.to_string()));
                }
                Err(error) => return Err(explained(error, &linked, context)),
            }
        }
        drop(subject);
        if let (true, Some(Failure { name, reason, .. })) = (outcomes.is_empty(), left_out.first())
        {
            return Err(BenchError::NotMeasurable(format!("input {name}: {reason}")));
        }
        let mut warnings = analyse::remarks(&loader.remarks());
        let effect = "the counts shown are those of one run on each input";
        warnings.extend(analyse::counts_vary(&varying, effect));
        let types = loader.types().clone();
        Ok(CountedProgram { linked, types, counts, outcomes, left_out, warnings })
    })
}

/// Describes how the instructions of further fresh starts differ from the `first`.
fn again<'a, R: Runner<'a>>(
    runner: R,
    subject: &mut R::Subject,
    given: Given<'_>,
    first: u64,
) -> Option<String> {
    let calls = subject.unpredictable_calls();
    let wanted = if calls.is_empty() { RUNS } else { RUNS_UNPREDICTABLE } - 1;
    let again = FreshRuns { runner, wanted, limit: TIME_MAX, next: Duration::ZERO };
    let further = again.each(subject, |subject| subject.first_counts(given)).ok()?;
    let further = further.iter().map(|(_, counts)| counts.instructions());
    Some(Variation::of(&[first].into_iter().chain(further).collect::<Vec<_>>())?.text(&calls))
}

/// Maximum inputs of a program for which more than the first run is counted.
pub(super) const INPUTS_MAX: usize = 100;

/// Counted runs from a fresh start: of any program, and of one with calls whose results may differ on every run.
const RUNS: usize = 6;
const RUNS_UNPREDICTABLE: usize = 64;

/// Maximum time for these, per case.
const TIME_MAX: Duration = Duration::from_millis(100);

/// Counts the first run of a case, and more fresh starts. The inner error is the reason why there are no counts.
pub(super) fn count<'a, R: Runner<'a>>(
    session: &Session<'a, R>,
    subject: &mut R::Subject,
    given: Given<'_>,
    case: &mut RawCase,
    run_ns: f64,
) -> Result<Result<u64, String>, BenchError> {
    if let Some(reason) = subject.missing(Form::Counted) {
        return Ok(Err(reason.to_owned()));
    }
    subject.reset()?;
    let (run, counts) = subject.first_counts(given)?;
    case.unpredictable_calls = subject.unpredictable_calls();
    let is_unpredictable = !case.unpredictable_calls.is_empty();
    if !is_unpredictable && !is_same(&run, &case.first) {
        let again = FreshRuns::of_case(session, run_ns, RUNS);
        let plain = again.each(subject, |subject| subject.run(given, 1))?;
        if plain.iter().all(|plain| is_same(plain, &case.first)) {
            return Ok(Err(format!(
                "with counters it returned {} instead of {}, or wrote another packet, while without them \
                 it did the same {} times: this may be a defect of wingbeat, please report it",
                run.return_value,
                case.first.return_value,
                plain.len() + 1
            )));
        }
    }
    let has_few = session.plan.inputs.len() <= INPUTS_MAX;
    let mut instructions = vec![counts.instructions()];
    let mut return_values = vec![run.return_value];
    if has_few || is_unpredictable {
        let wanted = if has_few && is_unpredictable { RUNS_UNPREDICTABLE } else { RUNS } - 1;
        let again = FreshRuns::of_case(session, run_ns, wanted);
        for (run, counts) in again.each(subject, |subject| subject.first_counts(given))? {
            instructions.push(counts.instructions());
            return_values.push(run.return_value);
        }
    }
    case.variation = Variation::of(&instructions);
    return_values.sort_unstable();
    return_values.dedup();
    return_values.retain(|value| *value != case.first.return_value);
    case.other_return_values = return_values;
    let linked = subject.linked();
    let kfunc = |index| linked.kfunc_at(index).map(|kfunc| kfunc.name.clone());
    case.reached = Some(counts.executed.iter().filter(|count| **count > 0).count() as u64);
    case.calls = counts.calls(&linked.code, kfunc);
    case.tail_calls = subject.tail_calls(Some(&counts));
    let counts = counts.exact();
    let is_profiled = session.plan.profiles && case.variation.is_none();
    case.profile = counts.as_ref().ok().filter(|_| is_profiled).and_then(|it| subject.profile(it));
    Ok(counts.map(|counts| counts.instructions()))
}

fn is_same(run: &ProgramRun, other: &ProgramRun) -> bool {
    (run.return_value, &run.data) == (other.return_value, &other.data)
}

/// More runs, each from a fresh start, as many as fit into the time.
struct FreshRuns<R> {
    runner: R,
    wanted: usize,
    limit: Duration,
    /// Expected time of the next run.
    next: Duration,
}

impl<'a, R: Runner<'a>> FreshRuns<R> {
    fn of_case(session: &Session<'a, R>, run_ns: f64, wanted: usize) -> Self {
        let left = session.budget.left_until(session.now(), COUNTING_UNTIL);
        let inputs = u32::try_from(session.plan.inputs.len()).unwrap_or(u32::MAX);
        let limit = TIME_MAX.min(left / inputs.max(1));
        Self { runner: session.runner, wanted, limit, next: Duration::from_nanos(run_ns as u64) }
    }

    fn each<T>(
        mut self,
        subject: &mut R::Subject,
        run: impl Fn(&R::Subject) -> Result<T, BenchError>,
    ) -> Result<Vec<T>, BenchError> {
        let begun = self.runner.now();
        let mut found = Vec::with_capacity(self.wanted);
        while found.len() < self.wanted {
            let before = self.runner.now();
            if before.saturating_duration_since(begun) + self.next > self.limit {
                break;
            }
            match subject.reset().and_then(|()| run(subject)) {
                Ok(it) => found.push(it),
                Err(_) if self.runner.is_over() => break,
                Err(error) => return Err(error),
            }
            self.next = self.runner.now().saturating_duration_since(before);
        }
        Ok(found)
    }
}

/// Runs of each from fresh starts: runs are short, and few runs say little about rare paths.
const PAIRS: usize = 200;

/// Maximum time for these per case, including loading, as a share of the total and absolute.
const PAIRS_SHARE: f64 = 0.1;
const PAIRS_TIME_MAX: Duration = Duration::from_secs(2);

/// Counts two programs alternately, so that effects of clock and machine are the same for both. Returns the instruction
/// counts of each side's runs, first side first; few or none if the time is too short,
/// or a side cannot be counted. `cases` share the time.
pub(super) fn count_alternately<'a, R: Runner<'a>>(
    session: &mut Session<'a, R>,
    sides: &mut [R::Subject; 2],
    given: Given<'_>,
    cases: usize,
) -> Result<[Vec<u64>; 2], BenchError> {
    let begun = session.now();
    let share = session.budget.total().mul_f64(PAIRS_SHARE / cases.max(1) as f64);
    let limit = share.min(PAIRS_TIME_MAX);
    let runner = session.runner;
    for side in sides.iter_mut() {
        runner.within(limit, || side.add(Form::Counted));
    }
    let is_counted = sides.iter().all(|side| side.missing(Form::Counted).is_none());
    let mut found = [Vec::new(), Vec::new()];
    while is_counted && found[1].len() < PAIRS && !runner.is_over() {
        if session.now().saturating_duration_since(begun) > limit {
            break;
        }
        let first = usize::from(session.random.coin());
        let mut pair = [0; 2];
        for side in [first, 1 - first] {
            sides[side].reset()?;
            let (_, counts) = sides[side].first_counts(given)?;
            let Ok(counts) = counts.exact() else { return Ok(found) };
            pair[side] = counts.instructions();
        }
        found.iter_mut().zip(pair).for_each(|(counts, count)| counts.push(count));
    }
    for side in sides {
        side.leave_out(Form::Counted, "it has been counted".to_owned());
    }
    Ok(found)
}
