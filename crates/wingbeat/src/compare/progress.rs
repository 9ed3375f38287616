//! What is told while the runs go on, and the signals that end them.

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};
use wingbeat_text::plural;
use wingbeat_track::compare::Event;

use crate::cli::{styled_warning, tell};

/// A bar on a terminal; with `-v` also what the command prints.
pub(super) struct Live {
    bar: ProgressBar,
    time: Duration,
    quiet: bool,
    verbose: bool,
}

impl Live {
    pub(super) fn new(time: Duration, quiet: bool, verbose: bool) -> Self {
        let is_hidden = quiet || verbose || !io::stderr().is_terminal();
        let target =
            if is_hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(millis(time)), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
            bar.set_style(style);
        }
        Self { bar, time, quiet, verbose }
    }

    pub(super) fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Building(side, line) => self.say(&format!("building {}: {line}", side.name())),
            Event::Notice(text) => self.say(&format!("{}: {text}", styled_warning())),
            Event::Output(side, stdout, stderr) if self.verbose => {
                tell!("{}:", side.name());
                let mut terminal = io::stderr().lock();
                // Whoever closed stderr does not want to see it.
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
            self.bar.suspend(|| tell!("{text}"));
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Runs something that a first signal asks to end. A second one does what it usually does.
pub(super) fn interruptible<T>(run: impl FnOnce(&AtomicBool) -> T) -> T {
    let stop = Arc::new(AtomicBool::new(false));
    let mut handlers = Vec::new();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Without handlers a signal just ends it.
        handlers.extend(flag::register_conditional_default(signal, Arc::clone(&stop)));
        handlers.extend(flag::register(signal, Arc::clone(&stop)));
    }
    let found = run(&stop);
    for handler in handlers {
        signal_hook::low_level::unregister(handler);
    }
    // From here on a signal ends the program at once.
    stop.store(true, Ordering::Relaxed);
    found
}
