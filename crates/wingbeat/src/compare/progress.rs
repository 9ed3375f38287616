//! Progress output during the runs.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use wingbeat_text::plural;
use wingbeat_track::compare::Event;

use crate::shell::{message, progress_target, warning_text};

/// A progress bar on a terminal; with `-v` also the command's output.
pub(super) struct Shown {
    bar: ProgressBar,
    time: Duration,
    quiet: bool,
    verbose: bool,
}

impl Shown {
    pub(super) fn new(time: Duration, quiet: bool, verbose: bool) -> Self {
        let target = progress_target(quiet || verbose);
        let bar = ProgressBar::with_draw_target(Some(millis(time)), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
            bar.set_style(style);
        }
        Self { bar, time, quiet, verbose }
    }

    pub(super) fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Building(side, line) => self.say(&format!("building {}: {line}", side.name())),
            Event::Notice(text) => self.say(&warning_text(text)),
            Event::Output(side, stdout, stderr) if self.verbose => {
                message!("{}:", side.name());
                let mut terminal = io::stderr().lock();
                // Ignores a closed stderr.
                let _ = terminal.write_all(stdout).and_then(|()| terminal.write_all(stderr));
            }
            Event::Output(..) => {}
            Event::Pairs(pairs, elapsed) => {
                self.bar.set_position(millis((*elapsed).min(self.time)));
                let seconds = elapsed.as_secs();
                let most = self.time.as_secs();
                let pairs = plural(*pairs, "pair");
                self.bar.set_message(format!("{pairs}, {seconds} of {most} s at most"));
            }
        }
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            self.bar.suspend(|| message!("{text}"));
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}
