//! Runs other programs: command lines for display, the tail of a failed command's output, privileges, timed steps.

use std::{
    env,
    ffi::OsStr,
    fs::{self, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use wingbeat_text::shell_word;

/// Lines of a failed command's output to show.
const TAIL_LINES: usize = 8;

/// The command line, with the variables set for it.
pub fn display(command: &Command) -> String {
    // Rustup and cargo pass their full path.
    let ours = env::var_os("CARGO").is_some_and(|cargo| cargo == command.get_program());
    let program = if ours { OsStr::new("cargo") } else { command.get_program() };
    let quoted = |word: &OsStr| shell_word(&word.to_string_lossy()).into_owned();
    let variables = command
        .get_envs()
        .filter_map(|(key, value)| Some(format!("{}={}", key.to_string_lossy(), quoted(value?))));
    let words = [program].into_iter().chain(command.get_args()).map(quoted);
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

/// Runs a command with its output appended to a log file instead of the terminal: how it ended, and its output.
pub fn logged(command: &mut Command, log: &Path) -> io::Result<(ExitStatus, String)> {
    let mut file = OpenOptions::new().create(true).append(true).read(true).open(log)?;
    writeln!(file, "$ {}", display(command))?;
    let start = file.stream_position()?;
    let streams = (file.try_clone()?, file.try_clone()?);
    let status = command.stdin(Stdio::null()).stdout(streams.0).stderr(streams.1).status()?;
    let mut output = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.read_to_end(&mut output)?;
    Ok((status, String::from_utf8_lossy(&output).into_owned()))
}

/// The same; an error, also if the command fails, has the last lines.
pub fn run_logged(command: &mut Command, log: &Path) -> anyhow::Result<()> {
    let line = display(command);
    let (status, output) = logged(command, log).with_context(|| format!("cannot run `{line}`"))?;
    let lines: Vec<_> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n    ");
    ensure!(status.success(), "`{line}` failed ({status})\n    {tail}");
    Ok(())
}

/// Standard output of a command; `None` if it does not start or fails.
pub fn output_of(command: &mut Command) -> Option<String> {
    let Output { status, stdout, .. } = command.stdin(Stdio::null()).output().ok()?;
    status.success().then(|| String::from_utf8_lossy(&stdout).into_owned())
}

/// Standard output of a command run in the repository root, with stderr on the terminal; an error if it fails.
pub fn captured(command: &mut Command) -> anyhow::Result<String> {
    let streams = command.current_dir(repository()).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = streams.output().with_context(|| format!("cannot run `{}`", display(command)))?;
    ensure!(output.status.success(), "`{}` failed ({})", display(command), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Finds a program in `PATH` or root's directories, which Debian leaves out of users' `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let of_root = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let is_program = |it: &fs::Metadata| it.is_file() && it.permissions().mode() & 0o111 != 0;
    let mut files = env::split_paths(&path).chain(of_root).map(|dir| dir.join(name));
    files.find(|file| file.metadata().is_ok_and(|it| is_program(&it)))
}

/// Privileges of the current user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Root.
    Root,
    /// Not root, but sudo is installed.
    Sudo,
    /// Neither root nor sudo.
    None,
}

impl Rights {
    /// Detects the current privileges.
    pub fn now() -> Self {
        if rustix::process::geteuid().is_root() {
            Self::Root
        } else if find_program("sudo").is_some() {
            Self::Sudo
        } else {
            Self::None
        }
    }

    /// The current privileges; an error without root and sudo.
    pub fn required() -> anyhow::Result<Self> {
        let rights = Self::now();
        ensure!(rights != Self::None, "this loads eBPF programs: run it as root, or install sudo");
        Ok(rights)
    }

    /// A command that runs `program` as root and keeps the environment. Without sudo it runs unprivileged; the caller
    /// has already reported that.
    pub fn command(self, program: &OsStr) -> Command {
        match self {
            Self::Root | Self::None => Command::new(program),
            Self::Sudo => {
                let mut command = Command::new("sudo");
                command.arg("-E").arg(program);
                command
            }
        }
    }
}

/// The cargo that runs this process, without the variables that it set for it.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    without_package(&mut command);
    command
}

/// Removes the variables that cargo set for this process: build scripts that watch one would rerun in a nested cargo.
pub fn without_package(command: &mut Command) {
    for (key, _) in env::vars_os() {
        let name = key.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&key);
        }
    }
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Runs commands in order on the terminal, and records how long each takes.
#[derive(Debug, Default)]
pub struct Steps {
    done: Vec<(String, Duration)>,
}

impl Steps {
    /// Runs a command in the repository root; a failure names the command.
    pub fn run(&mut self, command: &mut Command) -> anyhow::Result<()> {
        self.time(&display(command), |name| {
            let status = command.current_dir(repository()).status();
            let status = status.with_context(|| format!("cannot run `{name}`"))?;
            ensure!(status.success(), "`{name}` failed ({status})");
            Ok(())
        })
    }

    /// Runs a step that is not a command.
    pub fn time<T>(
        &mut self,
        name: &str,
        step: impl FnOnce(&str) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        eprintln!("==> {name}");
        let start = Instant::now();
        let outcome = step(name)?;
        let took = start.elapsed();
        eprintln!("    {:.1} s\n", took.as_secs_f64());
        self.done.push((name.to_owned(), took));
        Ok(outcome)
    }

    /// Prints the time of each step and their sum.
    pub fn report(&self) {
        let sum = ("in all".to_owned(), self.done.iter().map(|(_, took)| *took).sum());
        for (name, took) in self.done.iter().chain([&sum]) {
            eprintln!("{:>8.1} s  {name}", took.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_read_as_typed() {
        let check = |command: &mut Command, expected| assert_eq!(display(command), expected);
        check(Command::new("cargo").args(["test", "-p", "a"]), "cargo test -p a");
        check(Command::new("sh").args(["-c", "it's"]), r"sh -c 'it'\''s'");
        check(Command::new("a").arg("").env("B", "c d").env_remove("E"), "B='c d' a ''");
    }

    #[test]
    fn a_failure_has_the_last_lines() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let log = dir.path().join("log");
        let run = |script: &str| run_logged(Command::new("sh").args(["-c", script]), &log);
        run("echo earlier").expect("echo works");
        let failure = run("seq 30; echo >&2 gone wrong; exit 3").expect_err("it exits with 3");
        let expected = "exit 3'` failed (exit status: 3)\n    24\n    25\n";
        let failure = failure.to_string();
        assert!(failure.contains(expected) && failure.ends_with("\n    gone wrong"), "{failure}");
        let failure = run_logged(&mut Command::new("/no/such/program"), &log);
        let failure = format!("{:#}", failure.expect_err("no program"));
        assert!(failure.starts_with("cannot run `/no/such/program`: No such file"), "{failure}");
    }
}
