//! Child processes and what they cost: CPU time and memory as the kernel counted them.

use std::{
    fs::{self, File},
    io,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail};
use rustix::{
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal},
    time::{ClockId, clock_gettime},
};
use wait4::Wait4 as _;

use xtask::command::display;

use crate::comparison::last_line;

/// How long a tool may take before it is killed. The slowest takes half a minute to start.
pub(super) const LIMIT: Duration = Duration::from_secs(180);

/// What a process cost, with its children that it waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// User and system time.
    pub(crate) cpu_ns: u64,
    /// The most memory that was resident at a time, of any one process.
    pub(crate) rss_max_bytes: u64,
}

impl Usage {
    /// The cost of doing one after the other.
    pub(crate) fn then(self, next: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns + next.cpu_ns,
            rss_max_bytes: self.rss_max_bytes.max(next.rss_max_bytes),
        }
    }

    /// The cost of doing both at once, as in a pipeline.
    fn beside(self, other: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns + other.cpu_ns,
            rss_max_bytes: self.rss_max_bytes + other.rss_max_bytes,
        }
    }
}

/// Nanoseconds on the clock that the workloads' reports use.
pub(super) fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    secs * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Starts a program with its messages in a file.
pub(crate) fn start(
    command: &mut Command,
    stdin: Stdio,
    stdout: Stdio,
    messages: &Path,
) -> anyhow::Result<Child> {
    let stderr = File::options().create(true).append(true).open(messages);
    let stderr = stderr.with_context(|| format!("cannot write {}", messages.display()))?;
    let child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn();
    child.with_context(|| format!("cannot start `{}`", display(command)))
}

/// Waits for a program; one that fails, or takes too long and is killed, is an error.
pub(crate) fn finish(mut child: Child, name: &str, messages: &Path) -> anyhow::Result<Usage> {
    // A descriptor, not a number: the number may belong to somebody else by the time we use it.
    let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
        .with_context(|| format!("cannot watch {name}, process {}", child.id()))?;
    let (ended, end) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        let late = end.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout);
        if late {
            // It may just have ended by itself.
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
        late
    });
    let used = loop {
        match child.wait4() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            used => break used.with_context(|| format!("cannot wait for {name}"))?,
        }
    };
    drop(ended);
    if watch.join().unwrap_or(false) {
        bail!("{name} did not end within {} s and was killed", LIMIT.as_secs());
    }
    if !used.status.success() {
        let said = fs::read(messages).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        bail!("{name} failed ({}): {}", used.status, last_line(&said));
    }
    let cpu = used.rusage.utime + used.rusage.stime;
    Ok(Usage {
        cpu_ns: u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX),
        rss_max_bytes: used.rusage.maxrss,
    })
}

pub(crate) fn run(command: &mut Command, stdout: Stdio, messages: &Path) -> anyhow::Result<Usage> {
    let name = display(command);
    finish(start(command, Stdio::null(), stdout, messages)?, &name, messages)
}

/// Runs programs with each one's output as the next one's input, the last one's into a file.
pub(super) fn pipeline(
    commands: &mut [Command],
    input: Stdio,
    output: File,
    messages: &Path,
) -> anyhow::Result<Usage> {
    let mut children = Vec::new();
    let mut input = input;
    let mut output = Some(output);
    let last = commands.len().saturating_sub(1);
    for (index, command) in commands.iter_mut().enumerate() {
        let stdout = match output.take_if(|_| index == last) {
            Some(file) => file.into(),
            None => Stdio::piped(),
        };
        let mut child = start(command, input, stdout, messages)?;
        input = child.stdout.take().map_or_else(Stdio::null, Stdio::from);
        children.push((display(command), child));
    }
    // All are waited for, also after one has failed.
    let usages: Vec<_> =
        children.into_iter().map(|(name, child)| finish(child, &name, messages)).collect();
    usages.into_iter().try_fold(Usage::default(), |sum, usage| Ok(sum.beside(usage?)))
}

/// Asks a program to end, as Ctrl-C does.
pub(crate) fn interrupt(child: &Child) -> anyhow::Result<()> {
    kill_process(Pid::from_child(child), Signal::INT).context("cannot interrupt the profiler")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_is_paid_for_as_a_whole() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (messages, count) = (dir.path().join("messages"), dir.path().join("count"));
        let mut seq = Command::new("seq");
        seq.arg("500000");
        let mut wc = Command::new("wc");
        wc.arg("-l");
        let output = File::create(&count).expect("a file");
        let usage = pipeline(&mut [seq, wc], Stdio::null(), output, &messages).expect("it works");
        assert_eq!(fs::read_to_string(&count).expect("a count").trim(), "500000");
        assert!(usage.cpu_ns > 0 && usage.rss_max_bytes > 0, "{usage:?}");
    }

    #[test]
    fn failures_quote_the_last_line() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let messages = dir.path().join("messages");
        let mut command = Command::new("sh");
        command.args(["-c", "echo one >&2; echo two >&2; echo >&2; exit 4"]);
        let error = run(&mut command, Stdio::null(), &messages).expect_err("it exits with 4");
        assert!(error.to_string().ends_with("failed (exit status: 4): two"), "{error}");
    }

    #[test]
    fn one_after_the_other_and_at_once() {
        let a = Usage { cpu_ns: 1, rss_max_bytes: 10 };
        let b = Usage { cpu_ns: 2, rss_max_bytes: 7 };
        assert_eq!(a.then(b), Usage { cpu_ns: 3, rss_max_bytes: 10 });
        assert_eq!(a.beside(b), Usage { cpu_ns: 3, rss_max_bytes: 17 });
    }
}
