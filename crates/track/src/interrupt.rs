//! Ends a measurement from outside, as Ctrl-C does: its command is known while it runs, and none is
//! started afterwards.

use std::{
    io,
    os::fd::OwnedFd,
    process::{Child, Command},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// What a signal handler and a measurement share. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    signal: Arc<AtomicUsize>,
    child: Arc<Mutex<Option<OwnedFd>>>,
    keeps_results: Arc<AtomicBool>,
}

/// A command that runs. At its end it is forgotten.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    pub(crate) child: Child,
    interrupt: &'a Interrupt,
}

impl Interrupt {
    /// The number of the signal that came, 0 for none: a signal handler may store it at any moment.
    pub fn signal(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.signal)
    }

    /// The command that runs, as a process descriptor. Once a signal has been stored no other follows.
    pub fn child(&self) -> Option<OwnedFd> {
        self.lock().as_ref().and_then(|child| child.try_clone().ok())
    }

    /// Whether what was measured is kept after a signal. Then only a second one ends the process.
    pub fn keeps_results(&self) -> bool {
        self.keeps_results.load(Ordering::Relaxed)
    }

    /// From now on [`keeps_results`](Self::keeps_results) holds.
    pub(crate) fn keep_results(&self) {
        self.keeps_results.store(true, Ordering::Relaxed);
    }

    pub fn is_raised(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != 0
    }

    /// Starts a command; `None` after a signal.
    pub(crate) fn start(&self, command: &mut Command) -> io::Result<Option<Running<'_>>> {
        // Held until the child is known, so that no signal finds a child that it cannot end.
        let mut running = self.lock();
        if self.is_raised() {
            return Ok(None);
        }
        let child = command.spawn()?;
        *running = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
        Ok(Some(Running { child, interrupt: self }))
    }

    fn lock(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.interrupt.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_known_while_it_runs() {
        let interrupt = Interrupt::default();
        let started = interrupt.start(&mut Command::new("true")).expect("it starts");
        let mut running = started.expect("no signal came");
        assert!(interrupt.clone().child().is_some());
        running.child.wait().expect("it ends");
        drop(running);
        assert!(interrupt.child().is_none());
    }

    #[test]
    fn nothing_is_started_after_a_signal() {
        let interrupt = Interrupt::default();
        interrupt.signal().store(2, Ordering::Relaxed);
        assert!(interrupt.start(&mut Command::new("true")).expect("no error").is_none());
    }
}
