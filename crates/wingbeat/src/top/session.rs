//! The event loop over keys, signals, clock and kernel.

use std::{
    fs::File,
    io::{self, IsTerminal as _, Stdin, Stdout, stdin, stdout},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use ratatui::{
    Frame, Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        event::{self, Event},
        execute,
        style::force_color_output,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use signal_hook::consts::SIGWINCH;
use wingbeat_bpf_bench::live::Watch;
use wingbeat_text::Paint;

use crate::{
    shell::{ENDING, forget_signals, signal_socket, stdout_has_colours},
    top::{
        columns::Sort,
        keys::step,
        screen::draw,
        state::{Flow, State},
    },
};

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    Time,
    /// A key, or a resize of the terminal.
    Terminal,
    /// A signal, or the terminal was closed.
    End,
}

/// Signals, one socket per kind.
struct Signals {
    end: UnixStream,
    resize: UnixStream,
}

/// Shows the table until `q`, Ctrl-C or a signal. Restores the terminal first, and statistics last.
pub(super) fn run(
    mut watch: Watch,
    delay: Duration,
    sort: Sort,
    filter: String,
) -> anyhow::Result<()> {
    let signals = Signals::register().context("cannot handle signals")?;
    let paint = Paint { has_colours: stdout_has_colours() };
    let mut state = State::new(watch.first(), sort, filter);
    let mut screen = Screen::open(paint.has_colours).context("cannot take the terminal")?;
    let mut due = Instant::now() + delay;
    loop {
        screen.draw(|frame| draw(frame, &state, paint)).context("cannot draw")?;
        let wake = wait(&screen, &signals, due).context("cannot wait for keys")?;
        match wake {
            Wake::End => return Ok(()),
            Wake::Time => {
                state.take(watch.next_report()?);
                // Late readings are skipped.
                due = (due + delay).max(Instant::now());
            }
            Wake::Terminal => {
                if handle_keys(&mut state)? == Flow::Quit {
                    return Ok(());
                }
            }
        }
    }
}

impl Signals {
    fn register() -> io::Result<Self> {
        Ok(Self { end: signal_socket(&ENDING)?, resize: signal_socket(&[SIGWINCH])? })
    }
}

/// Waits until `due` at most.
fn wait(screen: &Screen, signals: &Signals, due: Instant) -> io::Result<Wake> {
    let left = due.saturating_duration_since(Instant::now());
    let left = Timespec::try_from(left).map_err(io::Error::other)?;
    let keys = screen.as_fd();
    let mut watched = [
        PollFd::new(&signals.end, PollFlags::IN),
        PollFd::from_borrowed_fd(keys, PollFlags::IN),
        PollFd::new(&signals.resize, PollFlags::IN),
    ];
    match poll(&mut watched, Some(&left)) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(Wake::Terminal),
        Err(error) => return Err(error.into()),
    }
    let [end, keys, resize] = watched.map(|fd| fd.revents());
    let is_gone = keys.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
    if !resize.is_empty() {
        // Only the next resize wakes.
        forget_signals(signals.resize.as_fd());
    }
    Ok(match () {
        () if !end.is_empty() || is_gone => Wake::End,
        () if !keys.is_empty() || !resize.is_empty() => Wake::Terminal,
        () => Wake::Time,
    })
}

/// Handles pending keys. A resize needs no more than the next redraw.
fn handle_keys(state: &mut State) -> anyhow::Result<Flow> {
    while event::poll(Duration::ZERO).context("cannot read keys")? {
        let Event::Key(key) = event::read().context("cannot read keys")? else { continue };
        if let Some(step) = step(key, state.typing_over.is_some())
            && state.apply(step) == Flow::Quit
        {
            return Ok(Flow::Quit);
        }
    }
    Ok(Flow::Continue)
}

/// The alternate screen of a terminal. Dropping it restores everything.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    keys: Keys,
}

/// Source of keys.
enum Keys {
    Stdin(Stdin),
    /// Standard input is something else.
    Terminal(File),
}

impl Screen {
    /// Takes over the terminal.
    pub(crate) fn open(has_colors: bool) -> io::Result<Self> {
        let keys = match stdin().is_terminal() {
            true => Keys::Stdin(stdin()),
            false => Keys::Terminal(File::open("/dev/tty")?),
        };
        // The flag, NO_COLOR and the terminal have been taken into account already.
        force_color_output(has_colors);
        enable_raw_mode()?;
        let open = || {
            execute!(stdout(), EnterAlternateScreen)?;
            Terminal::new(CrosstermBackend::new(stdout()))
        };
        match open() {
            Ok(terminal) => Ok(Self { terminal, keys }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    pub(crate) fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(picture).map(drop)
    }
}

/// Becomes readable when keys are pressed.
impl AsFd for Screen {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.keys {
            Keys::Stdin(stdin) => stdin.as_fd(),
            Keys::Terminal(file) => file.as_fd(),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal. Ignores errors of a closed one.
fn give_back() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}
