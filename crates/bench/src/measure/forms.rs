//! More forms of a program, each loaded if that fits into the time.

use std::time::Duration;

use wingbeat_text::duration_of;

use super::{
    runner::{Alternation, Form, Runner, Subject as _},
    session::Session,
};

/// A load that takes so many times as long as the plain program's is given up.
const LOAD_PATIENCE: f64 = 4.0;

/// What every load may take, and what comes with it: maps, the first runs.
const LOAD_MIN: Duration = Duration::from_millis(40);

/// Samples that bursts have to be good for, or batches are better.
const BURST_SAMPLES_MIN: f64 = 6.0;

/// Brings in another form of a program, as [`within`] has it, or keeps the reason why that cannot be.
pub(super) fn add<'a, R: Runner<'a>>(
    session: &Session<'a, R>,
    subject: &mut R::Subject,
    form: Form,
    factor: f64,
    share: f64,
) {
    if let Err(reason) = within(session, subject, factor, share, |subject| subject.add(form)) {
        subject.leave_out(form, reason);
    }
}

/// Does something that loads the program once more, `factor` times as large, if that is over before
/// `share` of the time has passed; else says why not.
pub(super) fn within<'a, R: Runner<'a>, T>(
    session: &Session<'a, R>,
    subject: &mut R::Subject,
    factor: f64,
    share: f64,
    job: impl FnOnce(&mut R::Subject) -> T,
) -> Result<T, String> {
    let estimate = subject.load_time().mul_f64(factor);
    if session.runner.is_stopped() {
        return Err("interrupted before".to_owned());
    }
    // What takes no time is done while there is any.
    let share = if estimate < LOAD_MIN { 1.0 } else { share };
    let begun = session.now();
    if !session.budget.allows(begun, estimate, share) {
        return Err(format!(
            "loading it for that takes about {}, for which the time is too short; increase --time",
            duration_of(estimate)
        ));
    }
    let maps_time = subject.whole_load_time().saturating_sub(subject.load_time());
    let limit = (subject.load_time().mul_f64(LOAD_PATIENCE) + LOAD_MIN + maps_time)
        .min(session.budget.left_until(begun, share).max(estimate));
    let done = session.runner.within(limit, || job(subject));
    match session.now().saturating_duration_since(begun) > limit {
        true => Err(format!(
            "it takes more than {}, several times as long as the program alone",
            duration_of(limit)
        )),
        false => Ok(done),
    }
}

/// Whether there is time for enough samples.
pub(super) fn pays<A: Alternation>(alternation: A, left: Duration) -> Result<A, String> {
    let sample = alternation.sample_time();
    let samples = left.as_secs_f64() / sample.as_secs_f64().max(1e-6);
    match samples >= BURST_SAMPLES_MIN {
        true => Ok(alternation),
        false => Err(format!(
            "loading and running it with the empty program takes {}, of which too few fit into the \
             time",
            duration_of(sample)
        )),
    }
}
