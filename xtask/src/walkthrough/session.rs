//! One shell in which the document's commands run, like in the terminal of a reader who copies them: variables and
//! background jobs persist between commands.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process_group};

/// Time limit of one command.
const LIMIT: Duration = Duration::from_secs(600);

/// Prefix of the line that the shell prints after each command, followed by the exit code.
const MARK: &str = "-- end of command, exit code ";

/// A shell that waits for commands.
#[derive(Debug)]
pub(super) struct Session {
    shell: Child,
    commands: ChildStdin,
    lines: Receiver<String>,
}

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) output: String,
    pub(super) code: i32,
}

impl Session {
    /// Starts bash in a folder.
    pub(super) fn start(mut bash: Command, folder: &Path) -> anyhow::Result<Self> {
        let mut shell = bash
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A separate process group, so that leftovers can be killed together.
            .process_group(0)
            .spawn()
            .context("cannot start bash")?;
        let mut commands = shell.stdin.take().context("bash has no input")?;
        let stdout = shell.stdout.take().context("bash has no output")?;
        writeln!(commands, "exec 2>&1")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            let mut line = Vec::new();
            while stdout.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
                line.clear();
            }
        });
        Ok(Self { shell, commands, lines })
    }

    /// Runs a command and waits for its end.
    pub(super) fn run(&mut self, command: &str) -> anyhow::Result<Ended> {
        // Braces instead of parentheses: no subshell. The newline before the mark terminates an incomplete last line.
        writeln!(self.commands, "{{\n{command}\n}} </dev/null\nprintf '\\n{MARK}%d\\n' $?")
            .context("bash is gone")?;
        let start = Instant::now();
        let mut output = String::new();
        loop {
            match self.lines.recv_timeout(LIMIT.saturating_sub(start.elapsed())) {
                Ok(line) => {
                    if let Some(code) = line.strip_prefix(MARK) {
                        output.pop();
                        let code = code.trim().parse().context("an exit code")?;
                        return Ok(Ended { output, code });
                    }
                    output.push_str(&line);
                }
                Err(RecvTimeoutError::Timeout) => {
                    bail!("it did not end within {} s, after:\n{output}", LIMIT.as_secs())
                }
                Err(RecvTimeoutError::Disconnected) => bail!("bash ended, after:\n{output}"),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let group = i32::try_from(self.shell.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::TERM);
            // Interrupted profilers detach and write; whatever remains then is stuck.
            thread::sleep(Duration::from_millis(300));
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn commands_share_a_shell() {
        let folder = env::temp_dir();
        let mut session = Session::start(Command::new("bash"), &folder).expect("bash");
        let mut check = |command: &str, output: &str, code| {
            let expected = Ended { output: output.to_owned(), code };
            assert_eq!(session.run(command).expect(command), expected);
        };
        check("a=5", "", 0);
        check("echo $a; echo late >&2", "5\nlate\n", 0);
        check("printf 'no end'", "no end", 0);
        check("cat; (exit 3)", "", 3);
        check("sleep 60 & echo", "\n", 0);
        check("kill -0 $! && echo lives", "lives\n", 0);
        check("echo a \\\n    b", "a b\n", 0);
    }
}
