//! `wingbeat heap` as a process: what it says, and while it watches.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};

use crate::{
    comparison::{create, last_line},
    profile::process::interrupt,
};

/// So that nothing is refused: how much slower a target becomes is what is measured.
pub(super) const ANY_BUDGET: [&str; 2] = ["--budget", "100000"];

/// How long a tool may take to begin, or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The name of a program, without the machine's folders.
fn name(command: &Command) -> String {
    let program = Path::new(command.get_program());
    program.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Runs a command to its end: what it says on both.
pub(super) fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {}", name(command)))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    ensure!(
        output.status.success(),
        "{} failed ({}): {}",
        name(command),
        output.status,
        last_line(&text)
    );
    Ok(text)
}

/// A tool that watches a process until it is told to stop.
#[derive(Debug)]
pub(super) struct Watcher {
    child: Child,
    name: String,
    said: PathBuf,
}

impl Watcher {
    /// Starts it, with what it says in a file.
    pub(super) fn start(command: &mut Command, said: &Path) -> anyhow::Result<Self> {
        let file = create(said)?;
        let both = file.try_clone().context("cannot share a file")?;
        command.stdin(Stdio::null()).stdout(file).stderr(both);
        let name = name(command);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Self { child, name, said: said.to_owned() })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn said(&self) -> String {
        let bytes = fs::read(&self.said).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until something is true.
    pub(super) fn wait_until(
        &mut self,
        mut is_true: impl FnMut(&Self) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let begin = Instant::now();
        while !is_true(self)? {
            if let Some(status) = self.child.try_wait().context("cannot wait")? {
                bail!("{} ended early ({status}): {}", self.name, last_line(&self.said()));
            }
            ensure!(begin.elapsed() < PATIENCE, "{} does not begin", self.name);
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Ends it as Ctrl-C does: what it said.
    pub(super) fn stop(mut self) -> anyhow::Result<String> {
        interrupt(&self.child)?;
        self.wait_for_end()
    }

    /// Waits for it to end by itself.
    pub(super) fn wait_for_end(&mut self) -> anyhow::Result<String> {
        let begin = Instant::now();
        while self.child.try_wait().context("cannot wait")?.is_none() {
            ensure!(begin.elapsed() < 2 * PATIENCE, "{} does not end", self.name);
            thread::sleep(Duration::from_millis(10));
        }
        Ok(self.said())
    }

    /// `kill -9`.
    pub(super) fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().with_context(|| format!("cannot kill {}", self.name))?;
        self.child.wait().map(drop).context("cannot wait")
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
