//! Output of a run for GitHub Actions.

use std::env;

use wingbeat_track::github::{Actions, Message, Options};

use super::args::RunArgs;
use crate::shell::{message, warning};

/// Writes summary, annotations, comment and check run in a GitHub job. Errors do not fail the run.
pub(super) fn tell_actions(args: &RunArgs, message: impl FnOnce(Option<&str>) -> Message) {
    let Some(actions) = Actions::from_env(|name| env::var(name).ok()) else { return };
    let options = Options {
        token: args.ci.github_actions.clone(),
        only_thresholds: args.ci.ci_only_thresholds,
        only_on_alert: args.ci.ci_only_on_alert,
        id: args.ci.ci_id.clone(),
        number: args.ci.ci_number,
        is_strict: args.err,
    };
    let told = actions.tell(&message(options.id.as_deref()), &options);
    // On stderr, which GitHub reads too: stdout may be data.
    for line in told.annotations.lines() {
        message!("{line}");
    }
    for warning in told.warnings {
        warning!("{warning}");
    }
    for note in told.notes {
        message!("{note}");
    }
    for (name, address) in [("comment", told.comment), ("check run", told.check)] {
        if let Some(address) = address {
            message!("{name}: {address}");
        }
    }
}
