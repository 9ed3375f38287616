//! Runs a command line in the worktree of a side, with its output kept off the terminal.
//!
//! The output is written to files rather than pipes: no reader takes time from the benchmark, and background processes
//! of the command keep nothing open.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read as _, Seek as _},
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Child, ExitStatus, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};
use tempfile::tempfile;

use super::{CompareError, Plan, result::SideName};
use crate::{
    command::{Benchmark, failure},
    git,
};

const NOTICE: Duration = Duration::from_millis(50);

/// How long a terminated command (SIGTERM) may take to exit.
const GRACE: Duration = Duration::from_secs(2);

/// Number of lines of each output repeated in an error.
const LAST_LINES: usize = 10;

/// Besides letters and digits, the characters without a meaning in any shell.
const PLAIN: &str = " _-./=+:,@%";

#[derive(Debug)]
pub(super) struct Runner {
    pub(super) side: SideName,
    command: Benchmark,
    /// Builds the command, if that is possible without running it.
    build: Option<Benchmark>,
    directory: PathBuf,
    target: PathBuf,
}

#[derive(Debug)]
pub(super) struct Output {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl Runner {
    pub(super) fn new(side: SideName, plan: &Plan, directory: PathBuf, target: PathBuf) -> Self {
        let command = match &plan.command[..] {
            [line] => shell(line),
            words => Benchmark::Exec(words.to_vec()),
        };
        let build = match &plan.build {
            Some(line) => Some(shell(line.as_ref())),
            None => build_of(&plan.command).map(Benchmark::Exec),
        };
        Self { side, command, build, directory, target }
    }

    pub(super) fn build(&self, stop: &AtomicBool) -> Option<Result<Output, CompareError>> {
        self.build.as_ref().map(|build| self.execute(build, stop))
    }

    pub(super) fn run(&self, stop: &AtomicBool) -> Result<Output, CompareError> {
        self.execute(&self.command, stop)
    }

    /// The line that [`build`](Self::build) runs, or [`run`](Self::run) without a build.
    pub(super) fn first_line(&self) -> String {
        self.build.as_ref().unwrap_or(&self.command).display()
    }

    fn execute(&self, benchmark: &Benchmark, stop: &AtomicBool) -> Result<Output, CompareError> {
        let failed = |source| {
            let command = benchmark.display();
            CompareError::Failed(format!(
                "cannot start {command:?}: {source}; a single argument would go through the shell"
            ))
        };
        let mut files = [tempfile().map_err(failed)?, tempfile().map_err(failed)?];
        let [stdout, stderr] = &files;
        let mut command = benchmark.command();
        let child = git::forget_hook(&mut command)
            .current_dir(&self.directory)
            .env("CARGO_TARGET_DIR", &self.target)
            .stdin(Stdio::null())
            .stdout(stdout.try_clone().map_err(failed)?)
            .stderr(stderr.try_clone().map_err(failed)?)
            // Ctrl-C is handled by us: we then end the whole group.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let ended = wait(child, stop).map_err(failed)?;
        let [stdout, stderr] = &mut files;
        let output =
            Output { stdout: read(stdout).map_err(failed)?, stderr: read(stderr).map_err(failed)? };
        let Some(status) = ended else { return Err(CompareError::Interrupted) };
        let Some(how) = failure(status) else { return Ok(output) };
        let (command, side, last) = (benchmark.display(), self.side.name(), output.last_lines());
        Err(CompareError::Failed(format!("{command:?} {how} in {side}{last}")))
    }
}

impl Output {
    /// Its last lines, as the end of a sentence.
    pub(super) fn last_lines(&self) -> String {
        let mut last = Vec::new();
        for bytes in [&self.stdout, &self.stderr] {
            let text = String::from_utf8_lossy(bytes);
            let lines: Vec<&str> = text.trim_end().lines().collect();
            let from = lines.len().saturating_sub(LAST_LINES);
            last.extend(lines.iter().skip(from).map(|line| format!("  {line}")));
        }
        match last.is_empty() {
            true => " and printed nothing".to_owned(),
            false => format!("; its last lines were:\n{}", last.join("\n")),
        }
    }
}

fn shell(line: &OsStr) -> Benchmark {
    Benchmark::Shell { shell: "/bin/sh".into(), flag: "-c".into(), line: line.to_owned() }
}

/// `cargo bench` can build without running. For other commands the user has to name the build.
fn build_of(command: &[OsString]) -> Option<Vec<OsString>> {
    let mut words: Vec<OsString> = match command {
        [line] => {
            let line = line.to_str()?;
            let is_plain = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c);
            line.chars().all(is_plain).then(|| line.split(' ').map(OsString::from).collect())?
        }
        words => words.to_vec(),
    };
    words.retain(|word| !word.is_empty());
    if words.first()? != "cargo" {
        return None;
    }
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let verb = words[..end].iter().position(|word| word == "bench")?;
    // Arguments after `--` are for the benchmarks.
    words.truncate(end);
    if !words.iter().any(|word| word == "--no-run") {
        words.insert(verb + 1, "--no-run".into());
    }
    Some(words)
}

fn read(file: &mut File) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Waits for a process to exit and kills the rest of its group. `None` if it was stopped.
fn wait(mut child: Child, stop: &AtomicBool) -> io::Result<Option<ExitStatus>> {
    let pid = Pid::from_child(&child);
    let was_stopped = thread::scope(|scope| {
        let (sender, ended) = mpsc::channel::<()>();
        scope.spawn(move || {
            // Leaves it a zombie, so that its PID is not reused before its group is killed.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while waitid(WaitId::Pid(pid), options).is_err_and(|error| error == Errno::INTR) {}
            drop(sender);
        });
        let mut asked: Option<Instant> = None;
        while ended.recv_timeout(NOTICE) == Err(RecvTimeoutError::Timeout) {
            match asked {
                None if stop.load(Ordering::Relaxed) => {
                    signal(pid, Signal::TERM);
                    asked = Some(Instant::now());
                }
                Some(since) if since.elapsed() > GRACE => signal(pid, Signal::KILL),
                _ => {}
            }
        }
        asked.is_some()
    });
    // Processes left in the background would disturb the next run.
    signal(pid, Signal::KILL);
    let status = child.wait()?;
    Ok((!was_stopped).then_some(status))
}

/// Signals a whole group. An empty group is not an error.
fn signal(group: Pid, signal: Signal) {
    let _ = kill_process_group(group, signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_bench_can_build_without_running() {
        let check = |command: &[&str], expected: Option<&str>| {
            let words: Vec<OsString> = command.iter().map(OsString::from).collect();
            let build = build_of(&words).map(|words| Benchmark::Exec(words).display());
            assert_eq!(build.as_deref(), expected);
        };
        check(&["cargo", "bench"], Some("cargo bench --no-run"));
        check(&["cargo bench -p a -- --quick"], Some("cargo bench --no-run -p a"));
        check(&["cargo", "+nightly", "bench", "--no-run"], Some("cargo +nightly bench --no-run"));
        check(&["cargo", "bench", "--", "a b"], Some("cargo bench --no-run"));
        check(&["cargo bench | tee log"], None);
        check(&["cargo", "run", "--", "bench"], None);
        check(&["make bench"], None);
        check(&["./bench.sh"], None);
    }

    fn runner(line: &str) -> (Runner, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let command = shell(line.as_ref());
        let (directory, target) = (folder.path().to_owned(), folder.path().to_owned());
        (Runner { side: SideName::Head, command, build: None, directory, target }, folder)
    }

    #[test]
    fn failures_say_how_it_ended_and_what_was_printed_last() {
        let check = |line: &str, expected: &str| {
            let error = runner(line).0.run(&AtomicBool::new(false)).expect_err("a failure");
            assert_eq!(error.to_string(), expected);
        };
        let printed =
            "\"echo out; echo bad >&2; exit 3\" failed with status 3 in head; its last lines were:";
        check("echo out; echo bad >&2; exit 3", &format!("{printed}\n  out\n  bad"));
        check("kill -9 $$", "\"kill -9 $$\" was killed by signal 9 in head and printed nothing");
    }

    #[test]
    fn what_runs_on_in_the_background_is_ended_and_not_waited_for() {
        let (runner, folder) = runner("sleep 60 & echo $! > pid; echo done");
        let start = Instant::now();
        let output = runner.run(&AtomicBool::new(false)).expect("it runs");
        assert_eq!(output.stdout, b"done\n");
        assert!(start.elapsed() < Duration::from_secs(30));
        let pid = std::fs::read_to_string(folder.path().join("pid")).expect("a file");
        // Gone, or a zombie that has not been reaped.
        assert!(is_gone(pid.trim()), "{pid}");
    }

    fn is_gone(pid: &str) -> bool {
        (0..100).any(|_| {
            thread::sleep(Duration::from_millis(20));
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            state.map_or(true, |state| state.contains(") Z "))
        })
    }

    #[test]
    fn a_stop_ends_also_who_does_not_listen() {
        let (runner, _folder) = runner("trap '' TERM; while true; do sleep 1; done");
        let stop = AtomicBool::new(true);
        let start = Instant::now();
        assert!(matches!(runner.run(&stop), Err(CompareError::Interrupted)));
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
