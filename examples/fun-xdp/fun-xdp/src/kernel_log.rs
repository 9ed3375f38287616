//! Forwards the log of the kernel half.
//!
//! Runs in its own thread: the log is read until it is empty, and packets may arrive faster than
//! lines are written. Meanwhile classes are still printed and signals handled.

use std::{io, os::unix::net::UnixStream, thread};

use anyhow::Context;
use aya_log::EbpfLogger;
use log::{Log, error};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

/// The thread that forwards the log. Waits without using the CPU.
pub(crate) struct Forwarding {
    thread: thread::JoinHandle<()>,
    running: UnixStream,
}

impl Forwarding {
    pub(crate) fn start(log: EbpfLogger<&'static dyn Log>) -> anyhow::Result<Self> {
        let start = || -> io::Result<Self> {
            let (running, ended) = UnixStream::pair()?;
            let thread = thread::Builder::new()
                .name("kernel log".into())
                .spawn(move || forward(log, &ended))?;
            Ok(Self { thread, running })
        };
        start().context("cannot start a thread for the log of the eBPF program")
    }

    /// Forwards the remaining log, and ends the thread. The programs must be detached: while they
    /// log, this does not return.
    pub(crate) fn finish(self) {
        let Self { thread, running } = self;
        drop(running);
        if thread.join().is_err() {
            error!("the log of the eBPF program is incomplete: its thread has panicked");
        }
    }
}

fn forward(mut log: EbpfLogger<&'static dyn Log>, ended: &UnixStream) {
    loop {
        let mut watched = [PollFd::new(&log, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        let outcome = poll(&mut watched, None);
        let [_, end] = watched;
        let is_over = !end.revents().is_empty();
        log.flush();
        match outcome {
            Ok(_) if is_over => return,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => {
                error!("cannot wait for the log of the eBPF program ({errno}): it stays unread");
                return;
            }
        }
    }
}
