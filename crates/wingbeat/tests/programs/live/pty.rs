//! A pseudo-terminal with a program on it.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    num::NonZeroU16,
    os::fd::OwnedFd,
    process::{Child, Command, ExitStatus},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{Termios, Winsize, tcgetattr, tcsetwinsize},
};
use vt100::Parser;

/// A program on its own terminal. Killed on drop.
pub(crate) struct Terminal {
    keyboard: File,
    /// Kept open to read the modes after the program has ended.
    peer: OwnedFd,
    modes_before: Termios,
    parser: Arc<Mutex<Parser>>,
    child: Child,
}

impl Terminal {
    /// Starts `command` on a terminal of this size.
    pub(crate) fn start(command: &Command, rows: u16, columns: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags).expect("a pseudo-terminal");
        grantpt(&controller).and_then(|()| unlockpt(&controller)).expect("a pseudo-terminal");
        let peer = ioctl_tiocgptpeer(&controller, flags).expect("its other end");
        tcsetwinsize(&peer, winsize(rows, columns)).expect("a size");
        let modes_before = tcgetattr(&peer).expect("modes");
        let stream = || peer.try_clone().expect("another descriptor");
        // Makes this the controlling terminal, so that it is /dev/tty wherever the tests run.
        let child = Command::new("setsid")
            .args(["--ctty", "--wait"])
            .arg(command.get_program())
            .args(command.get_args())
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("TERM", "xterm-256color")
            .stdin(stream())
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .expect("start");
        let (rows, columns) = (cells(rows), cells(columns));
        let parser = Arc::new(Mutex::new(Parser::new(rows, columns, 0)));
        let screen = Arc::clone(&parser);
        let mut output = File::from(controller.try_clone().expect("another descriptor"));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = output.read(&mut bytes) {
                screen.lock().unwrap_or_else(PoisonError::into_inner).process(&bytes[..len]);
            }
        });
        Self { keyboard: controller.into(), peer, modes_before, parser, child }
    }

    pub(crate) fn screen<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.parser.lock().unwrap_or_else(PoisonError::into_inner).screen())
    }

    /// Contents of the screen.
    pub(crate) fn text(&self) -> String {
        self.screen(vt100::Screen::contents)
    }

    /// Waits until the screen satisfies a condition, for up to ten seconds.
    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, is_there: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !is_there(&self.text()) {
            assert!(Instant::now() < deadline, "waited for {what}, but there is\n{}", self.text());
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("typed");
    }

    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        let mut parser = self.parser.lock().unwrap_or_else(PoisonError::into_inner);
        parser.set_size(cells(rows), cells(columns));
        tcsetwinsize(&self.keyboard, winsize(rows, columns)).expect("another size");
    }

    /// Asserts that screen, cursor and modes are as they were before the program started.
    #[track_caller]
    pub(crate) fn check_restored(&self) {
        let modes =
            |of: &Termios| (of.local_modes, of.input_modes, of.output_modes, of.control_modes);
        let now = tcgetattr(&self.peer).expect("modes");
        assert_eq!(modes(&now), modes(&self.modes_before));
        assert!(!self.screen(vt100::Screen::alternate_screen));
        assert!(!self.screen(vt100::Screen::hide_cursor));
    }

    /// PID of the program, which `setsid` exec'ed.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().cast_signed()).expect("a PID");
        kill_process(pid, signal).expect("sent");
    }

    /// Waits for its end, for up to ten seconds.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                // Its last output may still be in flight.
                thread::sleep(Duration::from_millis(100));
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end:\n{}", self.text());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn winsize(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).expect("a size")
}
