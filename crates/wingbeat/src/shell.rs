//! Interaction with the shell, shared by all verbs: messages, standard output, the terminal, signals, and the command
//! after our own flags, of which a single argument is a shell command line, several are a program and its arguments.

use std::{
    ffi::{OsStr, OsString},
    io::{self, IsTerminal as _, Write as _},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
    low_level::pipe,
};
use wingbeat_text::{
    Block, Line, Look, Paint, Side, Span, Style, human, in_order, line, shortened,
};

/// Text width without a terminal.
pub(crate) const WIDTH: usize = 100;

/// Termination signals.
pub(crate) const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Prints a line to stderr. Ignores a closed stderr.
macro_rules! message {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let text = format!($($text)*);
        let _ = writeln!(anstream::stderr(), "{}", wingbeat_text::in_order(&text));
    }};
}
pub(crate) use message;

/// Prints a line to stderr that begins with `error:`.
macro_rules! error {
    ($($text:tt)*) => {
        $crate::shell::message!("{}: {}", $crate::shell::error_label(), format_args!($($text)*))
    };
}
pub(crate) use error;

/// Prints a line to stderr that begins with `warning:`.
macro_rules! warning {
    ($($text:tt)*) => {
        $crate::shell::message!("{}", $crate::shell::warning_text(format_args!($($text)*)))
    };
}
pub(crate) use warning;

pub(crate) fn error_label() -> String {
    Paint { has_colours: true }.look(&Look::Bad, "error")
}

/// The target of a recording, shortened to one line: a command may have any number of words.
pub(crate) fn target_text(target: &str) -> String {
    const WIDTH_MAX: usize = 200;
    shortened(target, WIDTH_MAX)
}

/// A warning as a line.
pub(crate) fn warning_text(text: impl std::fmt::Display) -> String {
    format!("{}: {text}", Paint { has_colours: true }.look(&Look::Warning, "warning"))
}

/// Writes to stdout, without colours if unsupported, and with names in [their order](in_order). Ignores a closed pipe.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(anstream::stdout().lock());
    match out.write_all(in_order(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            // Flushing the rest of the buffer would fail again.
            drop(out.into_parts());
            Ok(())
        }
        written => written.context("cannot write to stdout"),
    }
}

/// Prints a report, in lines that fit the terminal.
pub(crate) fn print_blocks(blocks: &[Block]) -> anyhow::Result<()> {
    let style = Style { has_colours: true, width: row_width(), ..Style::default() };
    print(&human(blocks, style))
}

/// Prints a report to stderr, in lines that fit its terminal. Ignores a closed stderr.
pub(crate) fn tell(blocks: &[Block]) {
    let stderr = io::stderr();
    let width = if stderr.is_terminal() { width_of(stderr) } else { usize::MAX };
    let text = human(blocks, Style { has_colours: true, width, ..Style::default() });
    let _ = anstream::stderr().write_all(in_order(&text).as_bytes());
}

/// The head of a recording, with its facts below: labels, and texts.
pub(crate) fn recorded(verb: &str, head: &str, facts: Vec<(&'static str, String)>) -> Block {
    let facts = facts.into_iter().map(|(label, text)| (Span::text(label), line(text)));
    Block::Section(vec![
        Block::Paragraph(vec![Span::strong(verb), Span::text(format!(" {head}"))]),
        Block::Indented(vec![Block::Labelled(facts.collect())]),
    ])
}

/// A list with a title; nothing without rows.
pub(crate) fn titled(
    title: impl ToString,
    head: &[(&'static str, Side)],
    rows: Vec<Vec<Line>>,
) -> Block {
    let rows = Block::Indented(vec![Block::Rows(head.to_vec(), rows)]);
    Block::under(title, rows)
}

/// A JSON document: the schema version, followed by the members of the content.
#[derive(serde::Serialize)]
struct Document<T> {
    schema_version: u32,
    #[serde(flatten)]
    content: T,
}

/// A JSON document as text, with `schema_version` as its first member.
pub(crate) fn json_text(
    schema_version: u32,
    content: &impl serde::Serialize,
) -> anyhow::Result<String> {
    let document = Document { schema_version, content };
    let text = serde_json::to_string_pretty(&document).context("cannot write JSON")?;
    Ok(text + "\n")
}

pub(crate) fn print_json(
    schema_version: u32,
    content: &impl serde::Serialize,
) -> anyhow::Result<()> {
    print(&json_text(schema_version, content)?)
}

/// Whether stdout is coloured: by `--color`, otherwise by NO_COLOR and the terminal.
pub(crate) fn stdout_has_colours() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// Style of a report on stdout. [`print()`] and files remove unsupported colours.
pub(crate) fn report_style(is_verbose: bool) -> Style {
    Style { has_colours: true, is_verbose, width: width_of(io::stdout()) }
}

/// Columns of a stream's terminal, or the default width of tables.
pub(crate) fn width_of(stream: impl AsFd) -> usize {
    match rustix::termios::tcgetwinsize(stream) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => WIDTH,
    }
}

/// Columns of stdout's terminal; otherwise unlimited, so that a row stays one line for `grep`.
pub(crate) fn row_width() -> usize {
    if io::stdout().is_terminal() { width_of(io::stdout()) } else { usize::MAX }
}

/// Runs something that the first signal asks to stop. A second signal has its default action, and so has each one
/// afterwards: a program calls this once.
pub(crate) fn interruptible<T>(run: impl FnOnce(&AtomicBool) -> T) -> T {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in ENDING {
        // If registration fails, signals terminate. Handlers stay registered: without any, signal-hook ignores a
        // signal.
        let _ = flag::register_conditional_default(signal, Arc::clone(&stop));
        let _ = flag::register(signal, Arc::clone(&stop));
    }
    let found = run(&stop);
    stop.store(true, Ordering::Relaxed);
    found
}

/// Runs something that stops when its socket becomes readable, which each signal causes. Afterwards, signals have their
/// default action.
pub(crate) fn interruptible_by_socket<T>(
    run: impl FnOnce(BorrowedFd<'_>) -> T,
) -> anyhow::Result<T> {
    interruptible_by(&ENDING, run)
}

/// The same for some signals.
pub(crate) fn interruptible_by<T>(
    signals: &[i32],
    run: impl FnOnce(BorrowedFd<'_>) -> T,
) -> anyhow::Result<T> {
    let is_over = Arc::new(AtomicBool::new(false));
    for &signal in signals {
        flag::register_conditional_default(signal, Arc::clone(&is_over))
            .context("cannot handle signals")?;
    }
    let stop = signal_socket(signals).context("cannot handle signals")?;
    let found = run(stop.as_fd());
    is_over.store(true, Ordering::Relaxed);
    Ok(found)
}

/// Drains received signals from such a socket, so that the next one makes it readable.
pub(crate) fn forget_signals(stop: BorrowedFd<'_>) {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let is_readable = || {
        let mut fds = [PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
    };
    let mut bytes = [0; 64];
    while is_readable() && rustix::io::read(stop, &mut bytes).is_ok_and(|read| read > 0) {}
}

/// A socket to which each of these signals writes a byte from now on.
pub(crate) fn signal_socket(signals: &[i32]) -> io::Result<UnixStream> {
    let (socket, writer) = UnixStream::pair()?;
    write_signals(signals, &writer).map(|()| socket)
}

/// Makes each of these signals write a byte.
pub(crate) fn write_signals(signals: &[i32], writer: &UnixStream) -> io::Result<()> {
    signals.iter().try_for_each(|&signal| pipe::register(signal, writer.try_clone()?).map(drop))
}

/// Rejects a shell command line followed by a flag, which was probably intended for wingbeat.
pub(crate) fn refuse_flags_behind(command: &[OsString]) -> anyhow::Result<()> {
    let [line, flag, ..] = command else { return Ok(()) };
    if is_line(line) && is_flag(flag) {
        bail!(
            "{} follows the command {:?}: put flags of wingbeat before the command, and pass the \
             arguments of a program one by one, or with the program in one string",
            flag.display(),
            line.display()
        );
    }
    Ok(())
}

/// Whether a word is a shell command line instead of a program.
fn is_line(word: &OsStr) -> bool {
    word.to_string_lossy().contains(char::is_whitespace) && !Path::new(word).exists()
}

fn is_flag(word: &OsStr) -> bool {
    word.to_string_lossy().starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_behind_a_line_are_refused() {
        let check = |words: &[&str], expected: bool| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(refuse_flags_behind(&words).is_ok(), expected, "{words:?}");
        };
        check(&[], true);
        check(&["cargo bench"], true);
        check(&["cargo", "bench", "--quiet"], true);
        check(&["cargo bench", "--err"], false);
        check(&["cargo bench", "fast", "--err"], true);
    }
}
