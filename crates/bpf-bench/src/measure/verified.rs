//! Programs that only an event can run: loaded for their verifier figures, and not run.

use wingbeat_bpf_loader::spec::Linked;

use super::{runner::Runner, session::Session};
use crate::result::{Failure, Verified};

/// Why a program has only verifier figures. The same for all types, so that it is reported once.
pub(super) const NOT_RUN: &str = "only its event runs such a program; attach it and use `wingbeat live` for \
                       its times";

/// Results of these programs.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) verified: Vec<Verified>,
    pub(super) skipped: Vec<Failure>,
    pub(super) failures: Vec<Failure>,
}

/// Loads `programs`. Programs requested by name count as failures rather than skipped, and so do
/// those that the verifier rejects or that ran out of time.
pub(super) fn load<'a, R: Runner<'a>>(
    programs: &[&'a Linked],
    source: R::Source,
    session: &Session<'a, R>,
) -> Found {
    let mut found = Found::default();
    for linked in programs {
        let name = &linked.program.name;
        if let Some(reason) = session.why_over("it was loaded") {
            found.failures.push(Failure::new(name, reason));
            continue;
        }
        session.show(&format!("{name}: loading"));
        let left_out = match session.runner.verify(linked, source) {
            Ok(facts) => {
                found.verified.push(facts.loaded_only(linked, NOT_RUN));
                Failure::new(name, NOT_RUN)
            }
            Err(error) => {
                let failure = error.failure(name);
                if failure.is_rejected || session.runner.is_over() {
                    found.failures.push(failure);
                    continue;
                }
                let reason =
                    format!("{NOT_RUN}; and the verifier has no figures: {}", failure.reason);
                Failure::new(name, reason)
            }
        };
        match session.plan.programs.is_empty() {
            true => found.skipped.push(left_out),
            false => found.failures.push(left_out),
        }
    }
    found
}
