//! Ctrl-C and its kin: the command is told, its end is awaited, and then this process dies of the same
//! signal, so that a shell's loop ends too. Where results are kept, it stores and tells them before. A
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

/// Watches for signals from now on.
pub(super) fn watch() -> anyhow::Result<Interrupt> {
    let interrupt = Interrupt::default();
    let watched: Vec<i32> = ENDING.into_iter().filter(|&signal| !is_ignored(signal)).collect();
    for &signal in &watched {
        let number = usize::try_from(signal).unwrap_or_default();
        flag::register_usize(signal, interrupt.signal(), number)
            .context("cannot handle signals")?;
    }
    // After the numbers: what reads of a signal finds its number.
    let (ours, signalled) = UnixStream::pair().context("cannot make a socket for signals")?;
    write_signals(&watched, &signalled).context("cannot handle signals")?;
    let watched = interrupt.clone();
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            // Kept open: without a signal that is watched there is nothing to read, rather than an end.
            let _signalled = signalled;
            end(&watched, ours);
        })
        .context("cannot start the thread that waits for signals")?;
    Ok(interrupt)
}

/// What was found. After a signal that is nothing, and the thread that waits for signals ends the process.
pub(super) fn or_die<T>(found: Result<T, RunError>) -> Result<T, RunError> {
    match found {
        Err(RunError::Command(CommandError::Interrupted { .. })) => loop {
            thread::park();
        },
        found => found,
    }
}

/// Dies of the signal that has come meanwhile, if results were kept in spite of it.
pub(super) fn die_if_raised(interrupt: &Interrupt) {
    if interrupt.keeps_results() && interrupt.is_raised() {
        die(interrupt);
    }
}

/// Waits for a signal, then for the end of the command, and ends the process.
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
        // The end comes by itself, or with a second signal.
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
    // It does not come back, because these signals end a process unless somebody handles them.
    let _ = emulate_default_handler(number);
}

/// A terminal tells everybody in the foreground, `kill` only the process that it names.
fn pass_on(child: &OwnedFd, signal: &Arc<AtomicUsize>) {
    let number = i32::try_from(signal.load(Ordering::Relaxed)).unwrap_or_default();
    let signal = Signal::from_named_raw(number).unwrap_or(Signal::TERM);
    // One that has ended by itself need not be told.
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

/// Whether whoever started us wants the signal to be without effect, as `nohup` does.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal - 1)) != 0
}
