//! The tools that wingbeat is compared with, and the programs that they watch, as `data.toml` describes
//! them. And settings of the machine that some tools need.

use std::{collections::BTreeMap, fs, path::Path, path::PathBuf, process::Command, sync::LazyLock};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use wingbeat_steps::command::{find_program, output_of, repository};

use crate::child::output;

/// What is known of tools and programs.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Data {
    tool: BTreeMap<String, Tool>,
    pub(crate) unwind: Vec<Program>,
    pub(crate) heap: Vec<Program>,
    pub(crate) reason: Vec<Reason>,
}

/// A pattern in a message, and what it means in few words.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Reason {
    pub(crate) pattern: String,
    pub(crate) text: String,
}

/// A tool that has to be in `PATH`.
#[derive(Debug, Default, Deserialize)]
struct Tool {
    install: String,
    #[serde(default)]
    version: String,
}

/// A program that tools watch.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) needs: Vec<String>,
    pub(crate) files: Vec<String>,
    pub(crate) make: String,
    pub(crate) run: String,
    /// All processes are watched.
    pub(crate) all: bool,
}

/// A test reads it.
pub(crate) static DATA: LazyLock<Data> =
    LazyLock::new(|| toml::from_str(include_str!("../data.toml")).unwrap_or_default());

impl Program {
    /// Makes it in an empty folder. Sources without a program are in `programs`.
    pub(crate) fn make(&self, folder: &Path) -> anyhow::Result<()> {
        self.needs.iter().try_for_each(|name| find(name).map(drop))?;
        for name in &self.files {
            let source = repository().join("crates/eval/programs").join(name);
            fs::copy(&source, folder.join(name))
                .with_context(|| format!("cannot copy {}", source.display()))?;
        }
        shell(folder, &self.make).map(drop).with_context(|| format!("cannot make {}", self.name))
    }
}

/// The output of a line of shell.
pub(crate) fn shell(folder: &Path, line: &str) -> anyhow::Result<String> {
    let mut shell = Command::new("sh");
    output(shell.args(["-c", line]).env("REPOSITORY", repository()).current_dir(folder))
}

/// Where a program is, or how to get it.
pub(crate) fn find(name: &str) -> anyhow::Result<PathBuf> {
    match (find_program(name), DATA.tool.get(name)) {
        (Some(found), _) => Ok(found),
        (None, Some(tool)) => bail!("{name} is not installed: `{}`", tool.install),
        (None, None) => bail!("{name} is not installed"),
    }
}

/// The name of a tool with its version, or how to get it.
pub(crate) fn described(name: &str) -> String {
    if let Err(error) = find(name) {
        return error.to_string();
    }
    let asked = DATA.tool.get(name).map_or("", |tool| &tool.version);
    let mut words = asked.split_whitespace();
    let version = words.next().map(|program| version_of(Command::new(program).args(words)));
    format!("{name} {}", version.unwrap_or_default()).trim_end().to_owned()
}

/// The last word of the first line that a command prints, without the letters before the number.
pub(crate) fn version_of(command: &mut Command) -> String {
    let said = output_of(command).unwrap_or_default();
    // "perf version 6.1.192", "bpftool v7.1.0", "bpfcc-tools\t0.26.0+ds-1", "valgrind-3.19.0"
    let word = said.lines().next().and_then(|line| line.split_whitespace().next_back());
    word.unwrap_or("?").trim_start_matches(|letter: char| !letter.is_ascii_digit()).to_owned()
}

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";
const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// A setting of the kernel, put back when this is dropped.
#[derive(Debug)]
pub(crate) struct Setting {
    file: &'static str,
    before: String,
}

impl Setting {
    /// `kernel.perf_event_paranoid` at 1 or below: samply 0.13 refuses higher levels even to root.
    pub(crate) fn for_samply() -> anyhow::Result<Self> {
        Self::new(PARANOID, |level| level.min(1))
    }

    /// The kernel measures the run time of eBPF programs.
    pub(crate) fn for_run_times() -> anyhow::Result<Self> {
        Self::new(STATISTICS, |_| 1)
    }

    fn new(file: &'static str, value: fn(i32) -> i32) -> anyhow::Result<Self> {
        let before = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
        let level = before.trim().parse().with_context(|| format!("{file}: {before}"))?;
        fs::write(file, value(level).to_string()).with_context(|| format!("cannot set {file}"))?;
        Ok(Self { file, before })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        if let Err(error) = fs::write(self.file, &self.before) {
            eprintln!("warning: {} stays set, it was {}: {error}", self.file, self.before.trim());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_the_last_word() {
        let check = |line: &str, expected: &str| {
            assert_eq!(version_of(Command::new("echo").arg(line)), expected);
        };
        check("perf version 6.1.192", "6.1.192");
        check("bpftool v7.1.0\nmore", "7.1.0");
        check("valgrind-3.19.0", "3.19.0");
        check("", "");
    }

    #[test]
    fn a_missing_tool_says_how_to_get_it() {
        assert!(find("sh").is_ok() && !DATA.heap.is_empty() && !DATA.unwind.is_empty());
        for (name, Tool { install, .. }) in &DATA.tool {
            let missing = find(name).err().map(|error| error.to_string());
            let expected = format!("{name} is not installed: `{install}`");
            assert!(missing.clone().is_none_or(|error| error == expected), "{missing:?}");
            assert!(described(name).starts_with(name.as_str()));
        }
    }
}
