//! Running a command that may not end: until it does, or until its time is over.

use std::{
    fs,
    io::{Read as _, Seek as _},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;

use wingbeat_steps::command::display;

use crate::profile::process;

/// How often it is asked whether it has ended. Small beside all times that are told.
const POLL: Duration = Duration::from_millis(5);

/// What a command that was asked to end has for it, before it is killed: what it has found until then
/// is worth seeing.
const GRACE: Duration = Duration::from_secs(5);

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) wall: Duration,
    pub(super) is_late: bool,
}

/// Runs it to its end, or for so long.
pub(super) fn run(command: &mut Command, limit: Duration) -> anyhow::Result<Ended> {
    // Files, not pipes: a pipe that nobody reads would stop it.
    let [mut stdout, mut stderr] = [file()?, file()?];
    command.stdin(Stdio::null());
    command.stdout(stdout.try_clone().context("cannot copy a descriptor")?);
    command.stderr(stderr.try_clone().context("cannot copy a descriptor")?);
    let begin = Instant::now();
    let child = command.spawn();
    let mut child = child.with_context(|| format!("cannot start `{}`", display(command)))?;
    let is_late = !has_ended(&mut child, limit)?;
    if is_late {
        process::interrupt(&child)?;
        if !has_ended(&mut child, GRACE)? {
            child.kill().context("cannot kill it")?;
            child.wait().context("cannot wait for it")?;
        }
    }
    let wall = begin.elapsed();
    let [stdout, stderr] = [text(&mut stdout)?, text(&mut stderr)?];
    Ok(Ended { stdout, stderr, wall, is_late })
}

fn has_ended(child: &mut Child, within: Duration) -> anyhow::Result<bool> {
    let begin = Instant::now();
    while child.try_wait().context("cannot wait for it")?.is_none() {
        if begin.elapsed() >= within {
            return Ok(false);
        }
        thread::sleep(POLL);
    }
    Ok(true)
}

fn file() -> anyhow::Result<fs::File> {
    tempfile::tempfile().context("cannot create a temporary file")
}

fn text(file: &mut fs::File) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    file.rewind().context("cannot read a temporary file")?;
    file.read_to_end(&mut bytes).context("cannot read a temporary file")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_end_is_asked_to() {
        let check = |script: &str, stdout: &str, stderr: &str, is_late: bool| {
            let ended = run(Command::new("sh").args(["-c", script]), Duration::from_millis(300));
            let ended = ended.expect("sh runs");
            let found = (&*ended.stdout, &*ended.stderr, ended.is_late);
            assert_eq!(found, (stdout, stderr, is_late), "{script}");
            assert!(ended.wall < GRACE, "{ended:?}");
        };
        check("echo a; echo b >&2; exit 3", "a\n", "b\n", false);
        check("trap 'echo stopped; exit' INT; while :; do sleep 0.01; done", "stopped\n", "", true);
        assert!(run(&mut Command::new("/no/such/program"), Duration::ZERO).is_err());
    }
}
