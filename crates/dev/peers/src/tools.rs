//! The tools that are compared, and what each needs. How one is run is in a file of its own.

mod attach;
mod bcc;
mod bpftrace;
mod launch;
mod perf;
mod probee;
mod samply;
pub(super) mod settings;
mod wingbeat;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::bail;

use super::{
    record::{Outcome, Target, ToolRecord},
    workload::Workload,
};
use wingbeat_steps::command::{find_program, output_of, repository};

/// The tool that the others are compared with.
pub(super) const WINGBEAT: &str = "wingbeat";
/// The peer that most goals are set by.
pub(super) const PERF: &str = "perf";
/// The peer whose recording alone is a goal.
pub(super) const SAMPLY: &str = "samply";

/// One run that is to be made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) workload: Workload,
    pub(super) units: u64,
    /// Samples per second.
    pub(super) frequency_hz: u32,
    /// An empty folder for all files of this run.
    pub(super) dir: &'a Path,
}

impl Job<'_> {
    /// A file of this run.
    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Where all programs of this run leave their messages.
    fn messages(&self) -> PathBuf {
        self.file("messages")
    }

    /// The frequency as an argument.
    fn hz(&self) -> String {
        self.frequency_hz.to_string()
    }
}

/// A profiler, with the programs that take it to a written output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tool {
    /// Its short name, in the tables and for `--only`.
    pub(super) name: &'static str,
    /// What is run, from start to written output.
    pub(super) chain: &'static str,
    /// Programs that have to be in `PATH`, each with the command that installs it.
    needs: &'static [(&'static str, &'static str)],
    /// The command whose first line tells the version.
    version: &'static [&'static str],
    /// Whether it can sample processes that the target starts.
    pub(super) follows_children: bool,
    pub(super) run: fn(&Job<'_>) -> anyhow::Result<(Target, Outcome)>,
}

const INFERNO: &str = "cargo install inferno --locked";

const TOOLS: [Tool; 6] = [
    Tool {
        name: WINGBEAT,
        chain: "wingbeat profile -o FILE.svg",
        needs: &[],
        version: &[wingbeat::PROGRAM, "--version"],
        follows_children: true,
        run: wingbeat::run,
    },
    Tool {
        name: PERF,
        chain: "perf record -g, then perf script | inferno-collapse-perf | inferno-flamegraph",
        needs: &[
            ("perf", "apt-get install linux-perf"),
            ("inferno-collapse-perf", INFERNO),
            ("inferno-flamegraph", INFERNO),
        ],
        version: &["perf", "--version"],
        follows_children: true,
        run: perf::run,
    },
    Tool {
        name: SAMPLY,
        chain: "samply record --save-only: no names, no picture",
        needs: &[("samply", "cargo install samply --locked")],
        version: &["samply", "--version"],
        follows_children: true,
        run: samply::run,
    },
    Tool {
        name: "bpftrace",
        chain: "bpftrace -e 'profile:hz:N … { @[kstack, ustack(127)] = count(); }': text, no picture",
        needs: &[("bpftrace", "apt-get install bpftrace")],
        version: &["bpftrace", "--version"],
        // By the name of the program: it has no filter for descendants.
        follows_children: true,
        run: bpftrace::run,
    },
    Tool {
        name: "bcc",
        chain: "profile-bpfcc -f, then inferno-flamegraph",
        needs: &[
            ("profile-bpfcc", "apt-get install bpfcc-tools linux-headers-amd64"),
            ("inferno-flamegraph", INFERNO),
        ],
        version: &["dpkg-query", "--show", "bpfcc-tools"],
        follows_children: false,
        run: bcc::run,
    },
    Tool {
        name: "probee",
        chain: "probee -o FILE.svg",
        needs: &[(
            "probee",
            "cargo install profile-bee --version 0.3.13 --no-default-features --locked",
        )],
        version: &["probee", "--version"],
        follows_children: false,
        run: probee::run,
    },
];

/// The tools of these names; all when there are none.
pub(super) fn chosen(names: &[String]) -> anyhow::Result<Vec<Tool>> {
    let known = TOOLS.map(|tool| tool.name);
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no tool \"{name}\": choose from {}", known.join(", "));
    }
    let is_chosen = |tool: &Tool| names.is_empty() || names.iter().any(|name| name == tool.name);
    Ok(TOOLS.into_iter().filter(is_chosen).collect())
}

impl Tool {
    /// Whether it is here and in which version, or how to get it.
    pub(super) fn record(&self) -> ToolRecord {
        let missing = self.needs.iter().find(|(program, _)| find_program(program).is_none());
        let version = missing.is_none().then(|| self.ask_version());
        ToolRecord {
            name: self.name.to_owned(),
            chain: self.chain.to_owned(),
            version,
            install: missing.map(|(_, install)| (*install).to_owned()),
        }
    }

    fn ask_version(&self) -> String {
        let said = self.version.split_first().and_then(|(program, arguments)| {
            output_of(Command::new(program).args(arguments).current_dir(repository()))
        });
        let line = said.as_deref().and_then(|said| said.lines().next()).unwrap_or("");
        // "perf version 6.1.192", "bpftrace v0.17.0", "bpfcc-tools\t0.26.0+ds-1"
        let version = line.split_whitespace().next_back().unwrap_or("unknown");
        version.trim_start_matches('v').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_refused() {
        let error = chosen(&["prof".to_owned()]).expect_err("no such tool").to_string();
        assert!(error.starts_with("there is no tool \"prof\": choose from wingbeat, "), "{error}");
        let names: Vec<_> = chosen(&[]).expect("all").iter().map(|tool| tool.name).collect();
        assert_eq!(names[..2], [WINGBEAT, PERF]);
    }

    #[test]
    fn a_missing_tool_names_its_installation() {
        let tool = Tool { needs: &[("no-such-program", "apt-get install it")], ..TOOLS[1] };
        let record = tool.record();
        assert_eq!((record.version, record.install.as_deref()), (None, Some("apt-get install it")));
    }
}
