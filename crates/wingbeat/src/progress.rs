//! Progress output on a terminal.

use std::{
    io::{self, IsTerminal as _},
    sync::mpsc,
    thread,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use wingbeat_profiler::{debuginfod, session::Progress, targets::Targets};
use wingbeat_text::bytes;

/// Delay before showing progress of symbolization.
const PATIENCE: Duration = Duration::from_millis(500);
/// Redraw interval afterwards.
const TICK: Duration = Duration::from_millis(100);

/// A line about what is going on, on a terminal.
pub(crate) struct StatusLine(ProgressBar);

impl StatusLine {
    pub(crate) fn new(hidden: bool) -> Self {
        Self(bar("{spinner} {msg}", None, hidden))
    }

    pub(crate) fn show(&self, text: String) {
        self.0.set_message(text);
        self.0.tick();
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The line during a recording. A launched command shares the terminal, and its output must not be garbled: there is no
/// line then.
pub(crate) fn recording(targets: &Targets, quiet: bool) -> impl Fn(Progress) + use<> {
    let line = StatusLine::new(quiet || matches!(targets, Targets::Command(_)));
    move |Progress { elapsed, samples, lost, .. }| {
        let seconds = elapsed.as_secs_f64();
        line.show(format!(
            "recording {seconds:.1} s, {samples} samples, {lost} lost; Ctrl-C ends it"
        ));
    }
}

/// The line during downloads of debug information.
pub(crate) fn downloading(quiet: bool) -> impl Fn(debuginfod::Progress) {
    let line = StatusLine::new(quiet);
    move |debuginfod::Progress { done, files, bytes: received }| {
        line.show(format!(
            "downloading debug information: {done} of {files} files, {}; Ctrl-C skips the rest",
            bytes(received)
        ));
    }
}

/// The bar during symbolization.
pub(crate) struct Symbolizing {
    bar: ProgressBar,
    /// Shows the bar after the delay; ends when the sender is dropped.
    timer: Option<(mpsc::Sender<()>, thread::JoinHandle<()>)>,
}

impl Symbolizing {
    pub(crate) fn new(hidden: bool) -> Self {
        Self::of("{spinner} symbolizing {pos}/{len} addresses", hidden)
    }

    /// The same for another long operation.
    pub(crate) fn of(text: &'static str, hidden: bool) -> Self {
        let bar = bar(text, Some(0), true);
        let timer = (!hidden).then(|| {
            let (sender, receiver) = mpsc::channel();
            let bar = bar.clone();
            // On a separate thread: reading the debug information of a large file may take seconds before the first
            // symbol.
            let timer = thread::spawn(move || {
                if receiver.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                    bar.enable_steady_tick(TICK);
                }
            });
            (sender, timer)
        });
        Self { bar, timer }
    }

    pub(crate) fn show(&self, done: usize, total: usize) {
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
    }
}

impl Drop for Symbolizing {
    fn drop(&mut self) {
        if let Some((sender, timer)) = self.timer.take() {
            drop(sender);
            // Cannot panic, and if it did there would be no bar to clear.
            let _ = timer.join();
        }
        self.bar.finish_and_clear();
    }
}

/// A bar on a terminal.
pub(crate) fn bar(template: &str, length: Option<u64>, hidden: bool) -> ProgressBar {
    let target = match hidden || !io::stderr().is_terminal() {
        true => ProgressDrawTarget::hidden(),
        false => ProgressDrawTarget::stderr(),
    };
    ProgressBar::with_draw_target(length, target).with_style(style(template))
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
