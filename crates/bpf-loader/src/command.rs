//! Launches, observes and terminates the command that runs during a measurement.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{self, Read as _},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::ExitStatusExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use object::{
    Endianness, ReadCache, ReadRef, elf,
    read::elf::{ElfFile64, ProgramHeader as _},
};

use crate::{caller::Caller, sys};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

/// Grace period between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(3);

/// Why a command is not running.
#[derive(Debug)]
pub enum LaunchError {
    Start(io::Error),
    /// It was started, but could not be observed, and was killed.
    Watch(io::Error),
}

/// A running command. Dropping this kills it.
#[derive(Debug)]
pub struct Launched {
    child: Child,
    /// Becomes readable when the command ends.
    pidfd: OwnedFd,
}

/// Destination of the command's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Printing {
    /// Inherited from this process.
    #[default]
    Shown,
    /// Discarded.
    Dropped,
}

impl Launched {
    /// Starts a command with our standard streams.
    pub fn start(program: &OsString, arguments: &[OsString]) -> Result<Self, LaunchError> {
        Self::start_with(program, arguments, Printing::Shown, None)
    }

    /// Starts a command that stops before its first instruction, with only its program and the
    /// linker in memory, until it is [resumed](Self::resume).
    pub fn start_stopped(
        program: &OsString,
        arguments: &[OsString],
        printing: Printing,
        caller: Option<&Caller>,
    ) -> Result<Self, LaunchError> {
        let launched = Self::started(program, arguments, printing, |command| {
            sys::stop_at_exec(command);
            as_called(command, caller);
        })?;
        match sys::wait_for_stop(launched.pid()) {
            Ok(()) => Ok(launched),
            Err(error) => Err(LaunchError::Watch(error)),
        }
    }

    /// Resumes a command that was started stopped.
    pub fn resume(&self) -> io::Result<()> {
        sys::let_go(self.pid())
    }

    /// Starts a command with our stdin, as `caller` if given.
    pub fn start_with(
        program: &OsString,
        arguments: &[OsString],
        printing: Printing,
        caller: Option<&Caller>,
    ) -> Result<Self, LaunchError> {
        Self::started(program, arguments, printing, |command| as_called(command, caller))
    }

    fn started(
        program: &OsString,
        arguments: &[OsString],
        printing: Printing,
        change: impl Fn(&mut Command),
    ) -> Result<Self, LaunchError> {
        let spawn = |command: &mut Command| {
            command.args(arguments);
            change(command);
            if printing == Printing::Dropped {
                command.stdout(Stdio::null()).stderr(Stdio::null());
            }
            command.spawn()
        };
        let spawned = match (spawn(&mut Command::new(program)), path_of(program)) {
            // As shells do.
            (Err(error), Some(path))
                if error.raw_os_error() == Some(libc::ENOEXEC) && is_text(&path) =>
            {
                spawn(Command::new("/bin/sh").arg(path))
            }
            (Err(error), Some(path)) if error.kind() == io::ErrorKind::NotFound => {
                Err(interpreter(&path).map_or(error, |interpreter| {
                    let text = format!("its interpreter {interpreter} does not exist");
                    io::Error::new(io::ErrorKind::NotFound, text)
                }))
            }
            (spawned, _) => spawned,
        };
        let mut child = spawned.map_err(LaunchError::Start)?;
        let open = |child: &Child| {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            Ok(pidfd_open(pid.ok_or(io::ErrorKind::InvalidInput)?, PidfdFlags::empty())?)
        };
        match open(&child) {
            Ok(pidfd) => Ok(Self { child, pidfd }),
            Err(error) => {
                end_now(&mut child);
                Err(LaunchError::Watch(error))
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a command that has ended by itself, or terminates it: SIGTERM, and SIGKILL three
    /// seconds later, like `perf stat --timeout`.
    pub fn end(&mut self) -> io::Result<Ended> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(Ended { status, by_itself: true });
        }
        pidfd_send_signal(&self.pidfd, Signal::TERM)?;
        let mut ready = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let grace = Timespec::try_from(GRACE).map_err(io::Error::other)?;
        if retry_on_intr(|| poll(&mut ready, Some(&grace)))? == 0 {
            self.child.kill()?;
        }
        Ok(Ended { status: self.child.wait()?, by_itself: false })
    }
}

impl AsFd for Launched {
    /// Becomes readable when the command ends.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            end_now(&mut self.child);
        }
    }
}

/// Path of a program, found like `execvp` does.
fn path_of(program: &OsString) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return path.is_file().then(|| path.to_owned());
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| path.is_file())
}

/// The first bytes of a file.
fn head(path: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(256).read_to_end(&mut head).ok()?;
    Some(head)
}

/// Whether it may be a script, rather than a binary for another processor.
fn is_text(path: &Path) -> bool {
    head(path).is_some_and(|head| !head.contains(&0))
}

/// The interpreter of a script or a program, if it does not exist.
fn interpreter(path: &Path) -> Option<String> {
    let head = head(path)?;
    let name = match head.strip_prefix(b"#!") {
        Some(line) => {
            let line = line.split(|byte| *byte == b'\n').next()?;
            String::from_utf8_lossy(line).split_whitespace().next()?.to_owned()
        }
        None => linker(&ReadCache::new(File::open(path).ok()?))?,
    };
    (!Path::new(&name).exists()).then_some(name)
}

/// The dynamic linker named by a program; `None` if the file is not a program, or names none. The
/// reader limits how much of an untrusted file is read.
pub fn linker<'data>(program: impl ReadRef<'data>) -> Option<String> {
    const PATH_BYTES_MAX: u64 = 4096;
    let elf = ElfFile64::<Endianness, _>::parse(program).ok()?;
    let endian = elf.endian();
    let header = elf.elf_program_headers().iter().find(|it| it.p_type(endian) == elf::PT_INTERP)?;
    if header.p_filesz(endian) > PATH_BYTES_MAX {
        return None;
    }
    let path = header.data(endian, program).ok()?.split(|&byte| byte == 0).next()?;
    Some(std::str::from_utf8(path).ok()?.to_owned())
}

fn as_called(command: &mut Command, caller: Option<&Caller>) {
    if let Some(caller) = caller {
        caller.lend_to(command);
    }
}

fn end_now(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub status: ExitStatus,
    /// False if the time ran out first and the command was terminated.
    pub by_itself: bool,
}

impl Ended {
    /// Exit code as in a shell: 128 + signal for a command terminated by a signal.
    pub fn code(&self) -> i32 {
        self.status.code().or_else(|| self.status.signal().map(|signal| 128 + signal)).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_command_waits() {
        let words = ["sh", "-c", "exit 7"].map(OsString::from);
        let mut launched =
            Launched::start_stopped(&words[0], &words[1..], Printing::Shown, None).expect("starts");
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", launched.pid()));
        let maps = maps.expect("it is there");
        assert!(!maps.contains("libc.so") && !maps.contains("libc-"), "{maps}");
        launched.resume().expect("resumed");
        poll(&mut [PollFd::new(&launched, PollFlags::IN)], None).expect("poll");
        assert_eq!(launched.end().expect("ends").code(), 7);
        let dropped = Launched::start_stopped(&words[0], &words[1..], Printing::Shown, None);
        let pid = dropped.expect("starts").pid();
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
        let folder = tempfile::tempdir().expect("a folder");
        let check = |head: &str, expected: Result<i32, &str>| {
            let path = folder.path().join("script");
            std::fs::write(&path, format!("{head}\nexit $1\n")).expect("written");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, mode).expect("executable");
            match Launched::start(&path.into(), &["7".into()]) {
                Ok(mut launched) => {
                    poll(&mut [PollFd::new(&launched, PollFlags::IN)], None).expect("poll");
                    assert_eq!(Ok(launched.end().expect("ends").code()), expected, "{head}");
                }
                Err(LaunchError::Start(error)) => {
                    assert!(error.to_string().contains(expected.expect_err(head)), "{error}");
                }
                Err(error) => panic!("{error:?}"),
            }
        };
        check("", Ok(7));
        check("#!/bin/sh", Ok(7));
        check("#! /no/such/sh -e", Err("its interpreter /no/such/sh does not exist"));
        check("\0", Err("Exec format"));
        let nothing =
            Launched::start_stopped(&"no-such-command".into(), &[], Printing::Shown, None);
        assert!(matches!(nothing, Err(LaunchError::Start(_))));
    }

    #[test]
    fn how_commands_end() {
        let check = |words: &[&str], code, by_itself| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let mut launched = Launched::start(&words[0], &words[1..]).expect("starts");
            if by_itself {
                poll(&mut [PollFd::new(&launched, PollFlags::IN)], None).expect("poll");
            }
            let ended = launched.end().expect("ends");
            assert_eq!((ended.code(), ended.by_itself), (code, by_itself), "{words:?}");
        };
        check(&["true"], 0, true);
        check(&["sh", "-c", "exit 7"], 7, true);
        check(&["sh", "-c", "kill -9 $$"], 137, true);
        check(&["sleep", "60"], 143, false);
    }
}
