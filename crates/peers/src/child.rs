//! Child processes: one runner for all. What still runs is killed when its runner goes out of scope.

use std::process::{Child, ChildStdin, ExitStatus};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};
use wait4::Wait4 as _;

use crate::prelude::*;

/// How long a program may take to begin, and to end. The slowest takes half a minute to start.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);
/// How long a program that was interrupted has before it is killed: what it found until then is worth seeing.
const GRACE: Duration = Duration::from_secs(5);

/// Cost of a process with its children that it waited for, by the kernel's account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) cpu_ns: u64,
    pub(crate) rss_max_bytes: u64,
}

impl Usage {
    pub(crate) fn then(self, next: Self) -> Self {
        let rss_max_bytes = self.rss_max_bytes.max(next.rss_max_bytes);
        Self { cpu_ns: self.cpu_ns + next.cpu_ns, rss_max_bytes }
    }

    fn beside(self, other: Self) -> Self {
        let rss_max_bytes = self.rss_max_bytes + other.rss_max_bytes;
        Self { cpu_ns: self.cpu_ns + other.cpu_ns, rss_max_bytes }
    }
}

#[derive(Debug)]
pub(crate) struct Ended {
    status: ExitStatus,
    pub(crate) usage: Usage,
    pub(crate) wall: Duration,
    pub(crate) is_late: bool,
}

#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    name: String,
    messages: PathBuf,
    begin: Instant,
    /// Its number may belong to another process.
    is_over: bool,
}

impl Running {
    pub(crate) fn start(command: &mut Command, messages: &Path) -> Result<Self> {
        let stdout = appended(messages)?;
        Self::connected(command, Stdio::null(), stdout.into(), messages)
    }

    pub(crate) fn connected(
        command: &mut Command,
        stdin: Stdio,
        stdout: Stdio,
        messages: &Path,
    ) -> Result<Self> {
        let name = name_of(command);
        let child = command.stdin(stdin).stdout(stdout).stderr(appended(messages)?).spawn();
        let child = child.with_context(|| format!("cannot start {name}"))?;
        let (messages, begin) = (messages.to_owned(), Instant::now());
        Ok(Self { child, name, messages, begin, is_over: false })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    pub(crate) fn messages(&self) -> String {
        text_of(&self.messages)
    }

    pub(crate) fn ends_within(&self, time: Duration) -> Result<bool> {
        let handle = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())?;
        let time = Timespec::try_from(time)?;
        // Ctrl-C begins the time anew.
        let poll = || poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&time));
        Ok(retry_on_intr(poll)? > 0)
    }

    /// Waits until something is so, which has to be while it runs.
    pub(crate) fn wait_until(&self, what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
        while !is_so() {
            let name = &self.name;
            if self.ends_within(Duration::from_millis(20))? {
                let said = self.messages();
                bail!("{name} ended before {what}: {}", last_line(&said));
            }
            ensure!(self.begin.elapsed() < LIMIT, "{name}: no sign in 3 minutes that {what}");
        }
        Ok(())
    }

    pub(crate) fn interrupt(&self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::INT).context("cannot interrupt")
    }

    /// Waits for its end. After `limit` it is interrupted, and killed if that does not help.
    pub(crate) fn end(&mut self, limit: Duration) -> Result<Ended> {
        let is_late = !self.ends_within(limit)?;
        if is_late {
            self.interrupt()?;
            if !self.ends_within(GRACE)? {
                self.child.kill()?;
                self.ends_within(GRACE)?;
            }
        }
        let wall = self.begin.elapsed();
        // It has ended: this does not wait.
        let used = self.child.wait4().with_context(|| format!("cannot wait for {}", self.name))?;
        self.is_over = true;
        let cpu = used.rusage.utime + used.rusage.stime;
        let usage = Usage { cpu_ns: cpu.as_nanos() as u64, rss_max_bytes: used.rusage.maxrss };
        Ok(Ended { status: used.status, usage, wall, is_late })
    }

    /// Waits for its end; an error quotes its last message.
    pub(crate) fn finish(mut self) -> Result<Usage> {
        let Ended { status, usage, is_late, .. } = self.end(LIMIT)?;
        let (name, said) = (&self.name, self.messages());
        ensure!(!is_late, "{name} did not end within 3 minutes and was stopped");
        ensure!(status.success(), "{name} failed ({status}): {}", last_line(&said));
        Ok(usage)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A command of words, in which each `{}` stands for another.
pub(crate) fn command(words: &str, others: &[&dyn AsRef<OsStr>]) -> Command {
    let mut others = others.iter();
    let mut words = words.split_whitespace().map(|word| match word {
        "{}" => others.next().map_or(OsStr::new(""), |other| other.as_ref()),
        word => OsStr::new(word),
    });
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}

/// Runs a program to its end, with its output in one file and its messages in another.
pub(crate) fn run(command: &mut Command, stdout: Stdio, messages: &Path) -> Result<Usage> {
    Running::connected(command, Stdio::null(), stdout, messages)?.finish()
}

/// Runs programs with each one's output as the next one's input, the last one's into a file.
pub(crate) fn pipeline(commands: &mut [Command], output: File, messages: &Path) -> Result<Usage> {
    let (mut children, mut input, mut output) = (Vec::new(), Stdio::null(), Some(output));
    let last = commands.len().saturating_sub(1);
    for (index, command) in commands.iter_mut().enumerate() {
        let stdout = output.take_if(|_| index == last).map_or_else(Stdio::piped, Stdio::from);
        let mut child = Running::connected(command, input, stdout, messages)?;
        input = child.child.stdout.take().map_or_else(Stdio::null, Stdio::from);
        children.push(child);
    }
    // All are waited for, also after one has failed.
    let usages: Vec<_> = children.into_iter().map(Running::finish).collect();
    usages.into_iter().try_fold(Usage::default(), |sum, usage| Ok(sum.beside(usage?)))
}

pub(crate) fn both_outputs(command: &mut Command) -> Result<(String, String)> {
    let name = name_of(command);
    let said = command.output().with_context(|| format!("cannot start {name}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&said.stdout), text(&said.stderr));
    let all = format!("{stdout}{stderr}");
    ensure!(said.status.success(), "{name} failed ({}): {}", said.status, last_line(&all));
    Ok((stdout, stderr))
}

pub(crate) fn output(command: &mut Command) -> Result<String> {
    Ok(both_outputs(command)?.0)
}

/// A file that is there, or "".
pub(crate) fn text_of(file: &Path) -> String {
    String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned()
}

pub(crate) fn create(file: &Path) -> Result<File> {
    File::create(file).with_context(|| format!("cannot write {}", file.display()))
}

fn appended(file: &Path) -> Result<File> {
    let opened = File::options().create(true).append(true).open(file);
    opened.with_context(|| format!("cannot write {}", file.display()))
}

fn name_of(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name();
    name.unwrap_or_default().to_string_lossy().into_owned()
}

fn last_line(text: &str) -> &str {
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("it printed nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn programs_are_paid_for_and_quoted() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (messages, count) = (dir.path().join("messages"), dir.path().join("count"));
        let mut chain = [shell("exec seq 500000"), shell("exec wc -l")];
        let usage = pipeline(&mut chain, create(&count).expect("a file"), &messages);
        let usage = usage.expect("it works");
        assert_eq!(text_of(&count).trim(), "500000");
        assert!(usage.cpu_ns > 0 && usage.rss_max_bytes > 0, "{usage:?}");
        let fail = || shell("echo one >&2; echo two >&2; echo >&2; exit 4");
        let expected = "sh failed (exit status: 4): two";
        let error = run(&mut fail(), Stdio::null(), &messages).expect_err("it exits with 4");
        assert_eq!(error.to_string(), expected);
        assert_eq!(output(&mut fail()).expect_err("it exits with 4").to_string(), expected);
    }

    #[test]
    fn what_does_not_end_is_stopped() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let messages = dir.path().join("messages");
        let check = |script: &str, said: &str, is_late: bool| {
            let mut running = Running::start(&mut shell(script), &messages).expect("sh runs");
            if is_late {
                let is_ready = || running.messages().ends_with("ready\n");
                running.wait_until("it is ready", is_ready).expect("ready");
            }
            let ended = running.end(Duration::from_millis(300)).expect("it ends");
            assert_eq!((ended.is_late, running.messages().ends_with(said)), (is_late, true));
            assert!(ended.wall < GRACE, "{ended:?}");
        };
        check("echo a; exit 3", "a\n", false);
        check(
            "trap 'echo stopped; exit' INT; echo ready; while :; do sleep 0.01; done",
            "stopped\n",
            true,
        );
        let running = Running::start(&mut shell("echo ready; sleep 60"), &messages).expect("sh");
        running.wait_until("it is ready", || running.messages().contains("ready")).expect("ready");
        let folder = format!("/proc/{}", running.pid());
        drop(running);
        assert!(!Path::new(&folder).exists(), "it is killed");
    }
}
