//! Counts two programs alternately if their counts may vary, so that effects of clock and machine
//! are the same for both.

use std::time::Duration;

use super::{
    BenchError,
    runner::{Form, Given, Runner, Subject},
    session::Session,
};

/// Runs of each from fresh starts: runs are short, and few runs say little about rare paths.
const PAIRS: usize = 200;

/// Maximum time for these per case, including loading, as a share of the total and absolute.
const SHARE: f64 = 0.1;
const TIME_MAX: Duration = Duration::from_secs(2);

/// Instruction counts of each side's runs, first side first; few or none if the time is too short,
/// or a side cannot be counted. `cases` share the time.
pub(super) fn count<'a, R: Runner<'a>>(
    session: &mut Session<'a, R>,
    sides: &mut [R::Subject; 2],
    given: Given<'_>,
    cases: usize,
) -> Result<[Vec<u64>; 2], BenchError> {
    let begun = session.now();
    let share = session.budget.total().mul_f64(SHARE / cases.max(1) as f64);
    let limit = share.min(TIME_MAX);
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
