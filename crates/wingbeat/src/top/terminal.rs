//! Terminal modes, restored on every exit path.

use std::{
    fs::File,
    io::{self, IsTerminal as _, Stdin, Stdout, stdin, stdout},
    os::fd::{AsFd, BorrowedFd},
};

use ratatui::{
    Frame, Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        execute,
        style::force_color_output,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};

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
