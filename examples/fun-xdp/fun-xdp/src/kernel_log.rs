//! Handing on what the kernel half logs.
//!
//! In a thread of its own: the log is read until it is empty, and packets may come faster than lines
//! are written. Classes are printed and signals are seen all the same.

use std::{io, os::unix::net::UnixStream, thread};

use anyhow::Context;
use aya_log::EbpfLogger;
use log::{Log, error};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

/// The thread that hands on the log. It waits without using the CPU.
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

    /// Hands on what is there, and ends. The programs must have been detached: as long as they log,
    /// this goes on.
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
