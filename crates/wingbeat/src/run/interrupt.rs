//! Handling of Ctrl-C and other signals: passes the signal to the command, waits for its end, and then terminates this
//! process by the same signal, so that a shell's loop ends too. If results are kept, stores and prints them first. A
//! second signal does not wait.

use std::{
    fs,
    io::Read as _,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::Context as _;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{Signal, pidfd_send_signal},
};
use signal_hook::{consts::SIGTERM, flag, low_level::emulate_default_handler};
use wingbeat_track::run::{CommandError, Interrupt, RunError};

use crate::shell::{ENDING, error, message, write_signals};

/// Handles signals from now on.
pub(super) fn watch() -> anyhow::Result<Interrupt> {
    let interrupt = Interrupt::default();
    let watched: Vec<i32> = ENDING.into_iter().filter(|&signal| !is_ignored(signal)).collect();
    for &signal in &watched {
        let number = usize::try_from(signal).unwrap_or_default();
        flag::register_usize(signal, interrupt.signal(), number)
            .context("cannot handle signals")?;
    }
    // Registered after the numbers: a reader of the socket finds the signal's number.
    let (ours, signalled) = UnixStream::pair().context("cannot make a socket for signals")?;
    write_signals(&watched, &signalled).context("cannot handle signals")?;
    let watched = interrupt.clone();
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            // Kept open, so that a read blocks instead of returning EOF when no signal is handled.
            let _signalled = signalled;
            end(&watched, ours);
        })
        .context("cannot start the thread that waits for signals")?;
    Ok(interrupt)
}

/// The result. After a signal it never returns, and the signal thread ends the process.
pub(super) fn or_die<T>(found: Result<T, RunError>) -> Result<T, RunError> {
    match found {
        Err(RunError::Command(CommandError::Interrupted { .. })) => loop {
            thread::park();
        },
        found => found,
    }
}

/// Terminates by a signal received in the meantime, if results were kept despite it.
pub(super) fn die_if_raised(interrupt: &Interrupt) {
    if interrupt.keeps_results() && interrupt.is_raised() {
        die(interrupt);
    }
}

/// Waits for a signal, then for the end of the command, and terminates the process.
fn end(interrupt: &Interrupt, mut signals: UnixStream) {
    let mut one = [0];
    if signals.read_exact(&mut one).is_err() {
        return;
    }
    let signal = interrupt.signal();
    if interrupt.keeps_results() {
        message!("interrupted; earlier results are kept");
        if let Some(child) = interrupt.child() {
            pass_on(&child, &signal);
        }
        // Terminated by itself, or by a second signal.
        if signals.read_exact(&mut one).is_err() {
            return;
        }
    } else if let Some(child) = interrupt.child() {
        pass_on(&child, &signal);
        if !has_ended(&child, &signals) {
            let _ = pidfd_send_signal(&child, Signal::KILL);
        }
        error!("interrupted; nothing was stored");
    }
    die(interrupt);
}

fn die(interrupt: &Interrupt) {
    let number = i32::try_from(interrupt.signal().load(Ordering::Relaxed)).unwrap_or(SIGTERM);
    // Does not return: the default action of these signals is termination.
    let _ = emulate_default_handler(number);
}

/// A terminal signals the whole foreground process group, `kill` only the given process.
fn pass_on(child: &OwnedFd, signal: &Arc<AtomicUsize>) {
    let number = i32::try_from(signal.load(Ordering::Relaxed)).unwrap_or_default();
    let signal = Signal::from_named_raw(number).unwrap_or(Signal::TERM);
    // The command may have ended already.
    let _ = pidfd_send_signal(child, signal);
}

/// Waits for the end of the command. `false` if another signal comes first.
fn has_ended(child: &OwnedFd, signals: &UnixStream) -> bool {
    let mut waiting = [
        PollFd::from_borrowed_fd(child.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
    ];
    loop {
        match poll(&mut waiting, None) {
            Ok(_) => return !waiting[0].revents().is_empty(),
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Whether the parent set the signal to be ignored, like `nohup`.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal - 1)) != 0
}
