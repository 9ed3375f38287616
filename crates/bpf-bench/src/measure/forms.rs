//! Additional forms of a program, each loaded if that fits into the time.

use std::time::Duration;

use wingbeat_text::duration_of;

use super::{
    runner::{Alternation, Form, Runner, Subject as _},
    session::Session,
};

/// Maximum load time relative to that of the plain program.
const LOAD_PATIENCE: f64 = 4.0;

/// Time granted to every load and its preparation: maps, the first runs.
const LOAD_MIN: Duration = Duration::from_millis(40);

/// Minimum number of samples from bursts; with fewer, batches are better.
const BURST_SAMPLES_MIN: f64 = 6.0;

/// Adds another form of a program under the rules of [`within`], or keeps the reason why that is impossible.
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

/// Runs a task that loads the program again, at `factor` times the size, if it ends before `share`
/// of the time has passed; else returns why not.
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
    // Quick tasks are allowed while there is any time.
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
