//! The peer: libbpf, by `veristat`, which loads each program of an object by itself. And running a
//! command that may not end: until it does, or until its time is over.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use xtask::command::display;

/// What libbpf makes of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Loaded {
    /// Its programs, and whether each was loaded; none if libbpf cannot open the object.
    pub(super) programs: BTreeMap<String, bool>,
    pub(super) is_late: bool,
}

impl Loaded {
    pub(super) fn loads(&self, program: &str) -> bool {
        self.programs.get(program) == Some(&true)
    }
}

pub(super) fn load(veristat: &Path, object: &Path, limit: Duration) -> anyhow::Result<Loaded> {
    let mut command = Command::new(veristat);
    command.args(["-o", "csv", "-e", "prog,verdict"]).arg(object);
    let ended = run(&command, limit)?;
    Ok(Loaded { programs: parse(&ended.stdout), is_late: ended.is_late })
}

fn parse(csv: &str) -> BTreeMap<String, bool> {
    let rows = csv.lines().skip(1).filter_map(|line| line.rsplit_once(','));
    rows.map(|(program, verdict)| (program.to_owned(), verdict == "success")).collect()
}

/// Seconds that a command that was asked to end has for it, before it is killed: what it has found until
/// then is worth seeing.
const GRACE_S: &str = "5";

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) wall: Duration,
    pub(super) is_late: bool,
}

/// Runs it to its end, or for so long.
pub(super) fn run(command: &Command, limit: Duration) -> anyhow::Result<Ended> {
    let mut timed = Command::new("timeout");
    // In the foreground, so that Ctrl-C reaches the command as well.
    timed.args(["--foreground", "--signal=INT", "--kill-after", GRACE_S]);
    timed.arg(limit.as_secs_f64().to_string()).arg(command.get_program()).args(command.get_args());
    let begin = Instant::now();
    let said = timed.stdin(Stdio::null()).output();
    let said = said.with_context(|| format!("cannot start `{}`", display(&timed)))?;
    let wall = begin.elapsed();
    let is_late = match said.status.code() {
        // What timeout(1) says of a command that cannot be run.
        Some(126 | 127) => bail!("cannot start `{}`", display(command)),
        // It was interrupted, or killed.
        Some(124 | 137) => true,
        _ => false,
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ended { stdout: text(said.stdout), stderr: text(said.stderr), wall, is_late })
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
            assert!(ended.wall < Duration::from_secs(5), "{ended:?}");
        };
        check("echo a; echo b >&2; exit 3", "a\n", "b\n", false);
        check("trap 'echo stopped; exit' INT; while :; do sleep 0.01; done", "stopped\n", "", true);
        assert!(run(&Command::new("/no/such/program"), Duration::from_secs(1)).is_err());
    }

    #[test]
    fn verdicts_are_read() {
        let check = |text: &str, expected: &[(&str, bool)]| {
            let expected = expected.iter().map(|&(name, loads)| (name.to_owned(), loads));
            assert_eq!(parse(text), expected.collect(), "{text}");
        };
        check("prog_name,verdict\na,success\nb,failure\n\n", &[("a", true), ("b", false)]);
        check("prog_name,verdict\n\n", &[]);
        check("", &[]);
    }
}
