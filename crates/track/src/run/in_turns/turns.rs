//! Compares until a signal arrives or time is up. Its worktrees are removed when it returns; a second signal kills at
//! once, and leaves them to the next comparison.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use super::LIMIT;
use crate::{
    compare::{self, CompareError, Comparison, Event},
    run::{Echo, Interrupt},
};

const NOTICE: Duration = Duration::from_millis(50);

pub(super) fn compare(
    plan: compare::Plan,
    interrupt: &Interrupt,
    echo: &mut Echo<'_>,
) -> Result<Comparison, String> {
    // Earlier measurements are to be stored in any case.
    interrupt.keep_results();
    let stop = AtomicBool::new(interrupt.is_raised());
    let (end, ended) = mpsc::channel::<()>();
    let compared = thread::scope(|scope| {
        let (stop, until) = (&stop, plan.until);
        scope.spawn(move || {
            while ended.recv_timeout(NOTICE) == Err(RecvTimeoutError::Timeout) {
                let is_late = until.is_some_and(|until| Instant::now() >= until);
                if is_late || interrupt.is_raised() {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        });
        let compared = compare::compare(&plan, stop, &mut |event| match event {
            Event::Building(side, line) => {
                echo(format!("building {}: {line}\n", side.name()).as_bytes());
            }
            Event::Notice(text) => echo(format!("{text}\n").as_bytes()),
            Event::Output(..) | Event::Pairs(..) => {}
        });
        drop(end);
        compared
    });
    compared.map_err(|error| match error {
        CompareError::Interrupted if interrupt.is_raised() => "it was interrupted".to_owned(),
        CompareError::Interrupted => {
            format!("it would take more than {} minutes", LIMIT.as_secs() / 60)
        }
        error => in_a_line(&error.to_string()),
    })
}

/// Only the last line of a command's output: more is too much for a notice.
fn in_a_line(error: &str) -> String {
    let mut lines = error.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default().trim_end_matches(['.', ':']);
    match (first.strip_suffix("; its last lines were"), lines.next_back()) {
        (Some(what), Some(last)) => format!("{what}; its last line was \"{last}\""),
        (what, _) => what.unwrap_or(first).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_in_a_line() {
        let check = |error, expected: &str| assert_eq!(in_a_line(error), expected);
        check("it failed: why.", "it failed: why");
        check(
            "it failed in head; its last lines were\n  a\n  no x\n",
            "it failed in head; its last line was \"no x\"",
        );
        check("it failed in head; its last lines were:\n", "it failed in head");
        check("", "");
    }
}
