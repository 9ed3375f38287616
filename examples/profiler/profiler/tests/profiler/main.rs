//! Runs the profiler on the real kernel, on processes to sample.

mod arguments;
#[path = "../../../../testbed/program.rs"]
mod program;
mod sampling;

use std::{
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use aya::programs::ProgramType;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::program::Run;

/// The profiler's command, in a folder for its output files.
pub(crate) fn profiler(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
    command.current_dir(folder).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// Whether programs of the profiler's type can be loaded; prints the reason if not.
pub(crate) fn kernel_permits() -> bool {
    program::kernel_permits(ProgramType::PerfEvent)
}

impl Run {
    pub(crate) fn start(folder: &Path, pid: u32) -> Self {
        Self::follow(profiler(folder).arg(pid.to_string()))
    }
}

/// A shell script to sample. Killed with its children when dropped.
pub(crate) struct Busy(Child);

impl Busy {
    pub(crate) fn start(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).process_group(0);
        Self(command.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Writes a line to the script's input.
    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}
