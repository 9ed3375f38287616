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
use xtask::command::display;

use super::{
    process::{self, LIMIT, Usage},
    record::Target,
    workload::Job,
};
use crate::comparison::create;

/// The environment variable that makes a workload wait before and after its work.
const HOLD_VARIABLE: &str = "WINGBEAT_WORKLOAD_HOLD";

/// How a tool shows that it samples.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ready {
    /// It holds a perf event open for each CPU. What such tools print about being ready comes too early.
    Events,
    Says(&'static str),
}

/// How often a tool is asked whether it samples already. The target waits meanwhile.
const POLL: Duration = Duration::from_millis(20);

/// For how long a tool must have been ready before it counts as such.
const SETTLE: Duration = Duration::from_millis(500);

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
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let folder = format!("/proc/{}/fd", tool.id());
    let is_ready = || match ready {
        Ready::Says(words) => {
            String::from_utf8_lossy(&fs::read(output).unwrap_or_default()).contains(words)
        }
        Ready::Events => perf_events(&folder) >= cpus,
    };
    let begin = Instant::now();
    let mut ready_since = None;
    while begin.elapsed() < LIMIT {
        if let Some(status) = tool.try_wait()? {
            bail!("{name} ended before it sampled anything ({status})");
        }
        ready_since = is_ready().then(|| ready_since.unwrap_or_else(Instant::now));
        if ready_since.is_some_and(|since: Instant| since.elapsed() >= SETTLE) {
            return Ok(());
        }
        thread::sleep(POLL);
    }
    bail!("{name} was not ready ({ready:?}) within {} s", LIMIT.as_secs())
}

/// Its events that are open.
fn perf_events(folder: &str) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().contains("[perf_event]")).count()
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
