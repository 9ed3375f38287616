//! Counts the first run of a case, and checks whether other fresh starts give the same count.

use std::time::Duration;

use wingbeat_bpf_loader::loader::ProgramRun;

use super::{
    BenchError,
    budget::COUNTING_UNTIL,
    runner::{Form, Given, Runner, Subject},
    session::Session,
};
use crate::{analyse::RawCase, counts::Variation};

/// Maximum inputs of a program for which more than the first run is counted.
pub(super) const INPUTS_MAX: usize = 100;

/// Counted runs from a fresh start: of any program, and of one with calls whose results may differ on every run.
pub(super) const RUNS: usize = 6;
pub(super) const RUNS_UNPREDICTABLE: usize = 64;

/// Maximum time for these, per case.
pub(super) const TIME_MAX: Duration = Duration::from_millis(100);

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
        let again = Again { session, run_ns, wanted: RUNS };
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
        let again = Again { session, run_ns, wanted };
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

/// More runs from a fresh start, as many as fit into the time.
struct Again<'s, 'a, R: Runner<'a>> {
    session: &'s Session<'a, R>,
    run_ns: f64,
    wanted: usize,
}

impl<'a, R: Runner<'a>> Again<'_, 'a, R> {
    fn each<T>(
        self,
        subject: &mut R::Subject,
        run: impl Fn(&R::Subject) -> Result<T, BenchError>,
    ) -> Result<Vec<T>, BenchError> {
        let Self { session, run_ns, wanted } = self;
        let begun = session.now();
        let left = session.budget.left_until(begun, COUNTING_UNTIL);
        let inputs = u32::try_from(session.plan.inputs.len()).unwrap_or(u32::MAX);
        let limit = TIME_MAX.min(left / inputs.max(1));
        let mut found = Vec::with_capacity(wanted);
        let mut next = Duration::from_nanos(run_ns as u64);
        while found.len() < wanted {
            let before = session.now();
            if before.saturating_duration_since(begun) + next > limit {
                break;
            }
            match subject.reset().and_then(|()| run(subject)) {
                Ok(it) => found.push(it),
                Err(_) if session.runner.is_over() => break,
                Err(error) => return Err(error),
            }
            next = session.now().saturating_duration_since(before);
        }
        Ok(found)
    }
}
