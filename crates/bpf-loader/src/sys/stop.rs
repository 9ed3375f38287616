//! `ptrace(2)`, to stop a command at its first instruction.

use std::{io, os::unix::process::CommandExt as _, process::Command};

/// Makes a command stop as soon as its program is in memory.
pub(crate) fn stop_at_exec(command: &mut Command) {
    // SAFETY: the child only makes one system call.
    unsafe {
        command.pre_exec(|| checked(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0)));
    }
}

/// Waits until such a command has stopped. Fails if it ended instead.
pub(crate) fn wait_for_stop(pid: u32) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: the status is a local variable.
    checked(unsafe { libc::waitpid(number(pid)?, &raw mut status, libc::__WALL) }.into())?;
    if libc::WIFSTOPPED(status) {
        return Ok(());
    }
    Err(io::Error::other("it ended before its first instruction"))
}

/// Resumes it and detaches.
pub(crate) fn let_go(pid: u32) -> io::Result<()> {
    // SAFETY: no memory is passed.
    checked(unsafe { libc::ptrace(libc::PTRACE_DETACH, number(pid)?, 0, 0) })
}

fn number(pid: u32) -> io::Result<libc::pid_t> {
    libc::pid_t::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn checked(answer: libc::c_long) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
