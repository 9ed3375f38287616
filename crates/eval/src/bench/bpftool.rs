//! The peer: `bpftool prog run`, on programs that it loads and pins in a file system of its own, so
//! that nothing is left in `/sys/fs/bpf`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::comparison::output;

/// A BPF file system on a folder, taken away again at the end with all that is pinned in it.
#[derive(Debug)]
pub(super) struct Pins {
    dir: PathBuf,
}

impl Pins {
    pub(super) fn mount(dir: PathBuf) -> anyhow::Result<Self> {
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        output(Command::new("mount").args(["-t", "bpf", "none"]).arg(&dir))?;
        Ok(Self { dir })
    }

    /// Loads the only program of an object, and says where it is pinned.
    pub(super) fn load(&self, tool: &Path, object: &Path, name: &str) -> anyhow::Result<PathBuf> {
        let pin = self.dir.join(name);
        output(Command::new(tool).args(["prog", "load"]).args([object, &pin]))?;
        Ok(pin)
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        if let Err(error) = output(Command::new("umount").arg(&self.dir)) {
            eprintln!("warning: {} stays mounted: {error:#}", self.dir.display());
        }
    }
}

/// The time of a run that bpftool reports of a pinned program.
pub(super) fn duration_ns(
    bpftool: &Path,
    pin: &Path,
    packet: &Path,
    repeat: u32,
    cpu: usize,
) -> anyhow::Result<f64> {
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string()]).arg(bpftool).args(["-j", "prog", "run", "pinned"]);
    command.arg(pin).arg("data_in").arg(packet).args(["repeat", &repeat.to_string()]);
    parse(&output(&mut command)?)
}

fn parse(said: &str) -> anyhow::Result<f64> {
    let said: Value = serde_json::from_str(said)
        .with_context(|| format!("bpftool said something that is not understood: {said}"))?;
    match (said["error"].as_str(), said["duration"].as_f64()) {
        (Some(error), _) => bail!("bpftool failed: {error}"),
        (None, duration) => duration.context("bpftool gave no duration"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        let check = |text: &str, expected: Result<f64, &str>| {
            let found = parse(text).map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_owned), "{text}");
        };
        check(r#"{"data_out":["0x00"],"retval":2,"duration":34}"#, Ok(34.0));
        check(r#"{"retval":2}"#, Err("bpftool gave no duration"));
        check(r#"{"error":"failed to run"}"#, Err("bpftool failed: failed to run"));
        check("usage", Err("bpftool said something that is not understood: usage"));
    }
}
