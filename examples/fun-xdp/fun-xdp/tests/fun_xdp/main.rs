//! The loader, in a private network namespace with packets from a real interface, and the programs alone in the real
//! kernel.

mod arguments;
#[path = "../../testbed/counters.rs"]
mod counters;
#[path = "../../testbed/network.rs"]
mod network;
mod packets;
#[path = "../../../../testbed/program.rs"]
mod program;
mod programs;

use std::{
    io,
    process::{Command, Stdio},
};

use aya::programs::ProgramType;
use rustix::process::Signal;

use crate::{
    network::Network,
    program::{Line, Run, skip},
};

pub(crate) fn loader() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fun-xdp"));
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// Whether XDP programs can be loaded; prints the reason if not.
pub(crate) fn kernel_permits() -> bool {
    program::kernel_permits(ProgramType::Xdp)
}

/// A network for this test; `None` if XDP programs cannot be loaded or there can be no network,
/// with the reason printed.
pub(crate) fn enter_network() -> Option<Network> {
    if !kernel_permits() {
        return None;
    }
    Network::enter().inspect_err(|error| skip(format!("{error:#}"))).ok()
}

impl Run {
    /// Starts the loader in this thread's network, and waits until it is attached.
    pub(crate) fn start(iface: &str, version: &str) -> Self {
        Self::launch(loader().args(["--iface", iface, "--version", version]))
    }

    /// The same, with a closed pipe as stdout.
    pub(crate) fn start_without_reader(iface: &str, version: &str) -> Self {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut command = loader();
        command.args(["--iface", iface, "--version", version]).stdout(writer);
        Self::attached(&mut command)
    }

    /// Starts a command that executes the loader, and waits until it is attached.
    pub(crate) fn launch(command: &mut Command) -> Self {
        Self::attached(command.stdout(Stdio::piped()))
    }

    fn attached(command: &mut Command) -> Self {
        let mut run = Self::follow(command);
        run.wait_for_log("attachment", |line| line.contains(" attached to "));
        run
    }

    /// Waits for `count` lines on stdout.
    pub(crate) fn wait_for_classes(&mut self, count: usize) {
        let mut found = self.out().len();
        if found < count {
            self.wait_for("further classes", |line| {
                found += usize::from(matches!(line, Line::Out(_)));
                found == count
            });
        }
    }

    pub(crate) fn out(&self) -> Vec<&str> {
        let texts = self.seen.iter().filter_map(|line| match line {
            Line::Out(text) => Some(text.as_str()),
            Line::Err(_) => None,
        });
        texts.collect()
    }

    /// Terminates it by a signal like a user; it must exit successfully and print the tally.
    pub(crate) fn end(&mut self, signal: Signal, tally: &str) {
        self.signal(signal);
        self.ends_well(tally);
    }
}
