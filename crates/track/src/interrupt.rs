//! Interrupts a measurement, as on Ctrl-C: tracks the running command, and starts none afterwards.

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

/// State shared between a signal handler and a measurement. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    signal: Arc<AtomicUsize>,
    child: Arc<Mutex<Option<OwnedFd>>>,
    keeps_results: Arc<AtomicBool>,
}

/// A running command. Dropping it unregisters the command.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    pub(crate) child: Child,
    interrupt: &'a Interrupt,
}

impl Interrupt {
    /// The number of the received signal, or 0. A signal handler may store it at any time.
    pub fn signal(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.signal)
    }

    /// The running command as a process descriptor. No other one follows once a signal has been stored.
    pub fn child(&self) -> Option<OwnedFd> {
        self.lock().as_ref().and_then(|child| child.try_clone().ok())
    }

    /// Whether results are kept after a signal. Then only a second one ends the process.
    pub fn keeps_results(&self) -> bool {
        self.keeps_results.load(Ordering::Relaxed)
    }

    /// Makes [`keeps_results`](Self::keeps_results) true from now on.
    pub(crate) fn keep_results(&self) {
        self.keeps_results.store(true, Ordering::Relaxed);
    }

    pub fn is_raised(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != 0
    }

    /// Starts a command; `None` after a signal.
    pub(crate) fn start(&self, command: &mut Command) -> io::Result<Option<Running<'_>>> {
        // Held until the child is registered, so that a signal never finds an unknown child.
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
