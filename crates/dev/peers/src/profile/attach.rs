//! Tools that attach to a process that runs already, and that need it alive to name its functions.
//!
//! The target waits before its work until the tool samples, and after its work until the tool has
//! written. It costs nothing while it waits, and it is not the tool's child, so that the kernel keeps
//! the two apart.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use wingbeat_steps::command::display;

use super::{
    process::{self, Usage},
    record::Target,
    workload::Job,
};
use crate::comparison::create;

/// The environment variable that makes a workload wait before and after its work.
const HOLD_VARIABLE: &str = "WINGBEAT_WORKLOAD_HOLD";

/// How a tool shows that it samples.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ready {
    /// It holds a perf event open for each CPU.
    Events,
    Says(&'static str),
}

/// How long a tool may take to say that it is ready.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs the target under a tool that takes the target's process id.
///
/// The tool's output goes into `output`. When this returns, both have ended.
pub(super) fn attach(
    job: &Job<'_>,
    ready: Ready,
    output: &Path,
    command: impl FnOnce(u32) -> Command,
) -> anyhow::Result<(Target, Usage)> {
    let messages = job.messages();
    let mut target = job.target();
    target.env(HOLD_VARIABLE, "1");
    let mut target = process::start(&mut target, Stdio::piped(), Stdio::piped(), &messages)?;
    let command = command(target.id());
    let outcome = beside(job, &mut target, ready, output, command);
    if outcome.is_err() {
        // It still waits for the start, or works for nobody.
        let _ = target.kill();
    }
    // The end of its input lets it go.
    drop(target.stdin.take());
    let ended = target.wait().context("cannot wait for the target")?;
    let usage = outcome?;
    if !ended.success() {
        bail!("the target failed ({ended})");
    }
    Ok((job.report()?, usage))
}

fn beside(
    job: &Job<'_>,
    target: &mut Child,
    ready: Ready,
    output: &Path,
    mut command: Command,
) -> anyhow::Result<Usage> {
    let (name, messages) = (display(&command), job.messages());
    let stdout = create(output)?.into();
    let mut tool = process::start(&mut command, Stdio::null(), stdout, &messages)?;
    let sampled = wait_until(ready, &mut tool, &name, output).and_then(|()| work(target));
    // Whatever happened, it must not go on.
    let asked = process::interrupt(&tool);
    let usage = process::finish(tool, &name, &messages);
    sampled?;
    asked?;
    usage
}

fn wait_until(ready: Ready, tool: &mut Child, name: &str, output: &Path) -> anyhow::Result<()> {
    let Ready::Says(words) = ready else {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        return process::wait_for_events(tool, name, cpus);
    };
    let begin = Instant::now();
    while begin.elapsed() < LIMIT {
        let said = fs::read(output).unwrap_or_default();
        if String::from_utf8_lossy(&said).contains(words) {
            return Ok(());
        }
        if let Some(status) = tool.try_wait()? {
            bail!("{name} ended before it sampled anything ({status})");
        }
        thread::sleep(Duration::from_millis(20));
    }
    bail!("{name} did not say \"{words}\" within {} s", LIMIT.as_secs())
}

/// Lets the target work, and returns at once when it has done so.
fn work(target: &mut Child) -> anyhow::Result<()> {
    let stdin = target.stdin.as_mut().context("the target has no input")?;
    stdin.write_all(b"\n").context("cannot start the target's work")?;
    let stdout = target.stdout.take().context("the target has no output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).context("cannot hear from the target")?;
    if line.trim_end() != "done" {
        bail!("the target ended before its work was done");
    }
    Ok(())
}
