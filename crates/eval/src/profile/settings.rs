//! Settings of the machine that some tools ask for. Each is put back when it goes out of use.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";
const TRACEFS: &str = "/sys/kernel/tracing";

/// A lowered `kernel.perf_event_paranoid`.
#[derive(Debug)]
pub(crate) struct Paranoia {
    before: Option<String>,
}

impl Paranoia {
    /// Lowers it to this level, unless it is there or below.
    pub(crate) fn at_most(level: i32) -> anyhow::Result<Self> {
        let before =
            fs::read_to_string(PARANOID).with_context(|| format!("cannot read {PARANOID}"))?;
        let is: i32 = before.trim().parse().with_context(|| format!("{PARANOID}: {before}"))?;
        if is <= level {
            return Ok(Self { before: None });
        }
        fs::write(PARANOID, level.to_string())
            .with_context(|| format!("cannot lower {PARANOID} from {is} to {level}"))?;
        Ok(Self { before: Some(before) })
    }
}

impl Drop for Paranoia {
    fn drop(&mut self) {
        if let Some(before) = &self.before
            && let Err(error) = fs::write(PARANOID, before)
        {
            eprintln!("warning: {PARANOID} stays lowered, it was {}: {error}", before.trim());
        }
    }
}

/// A mounted tracefs.
#[derive(Debug)]
pub(crate) struct Tracefs {
    ours: bool,
}

impl Tracefs {
    /// Mounts it, unless it is.
    pub(crate) fn mounted() -> anyhow::Result<Self> {
        let is_mounted = Path::new(TRACEFS).join("events").is_dir();
        if !is_mounted && !run("mount", &["-t", "tracefs", "tracefs", TRACEFS]) {
            bail!("cannot mount tracefs, which the tool needs, on {TRACEFS}");
        }
        Ok(Self { ours: !is_mounted })
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        if self.ours && !run("umount", &[TRACEFS]) {
            eprintln!("warning: {TRACEFS} stays mounted");
        }
    }
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
