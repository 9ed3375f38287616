//! The tools that are compared, for samples and for time off the CPU. How one is run is in
//! [`on_cpu`] and [`off_cpu`].

use std::{path::Path, process::Command};

use super::{
    Mode, off_cpu, on_cpu,
    record::{Outcome, Target, ToolRecord},
    workload::Job,
};
use crate::tools;

/// The tool that the others are compared with.
pub(super) const WINGBEAT: &str = "wingbeat";
/// The peer that most goals are set by.
pub(super) const PERF: &str = "perf";
/// The peer whose recording alone is a goal.
pub(super) const SAMPLY: &str = "samply";

/// A profiler with its flags, and the programs that take it to a written output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tool {
    /// Its short name, in the tables and for `--only`.
    pub(super) name: &'static str,
    /// What is run, from start to written output.
    pub(super) chain: &'static str,
    /// Programs that have to be in `PATH`; the first says the version. Without any it is wingbeat.
    needs: &'static [&'static str],
    /// Whether it can watch processes that the target starts.
    pub(super) follows_children: bool,
    pub(super) run: fn(&Job<'_>) -> anyhow::Result<(Target, Outcome)>,
}

const fn tool(
    name: &'static str,
    chain: &'static str,
    needs: &'static [&'static str],
    run: fn(&Job<'_>) -> anyhow::Result<(Target, Outcome)>,
) -> Tool {
    Tool { name, chain, needs, follows_children: true, run }
}

const ON_CPU: [Tool; 6] = [
    tool(WINGBEAT, "wingbeat profile -o FILE.svg", &[], on_cpu::wingbeat),
    tool(
        PERF,
        "perf record -g, then perf script | inferno-collapse-perf | inferno-flamegraph",
        &["perf", "inferno-collapse-perf", "inferno-flamegraph"],
        on_cpu::perf,
    ),
    tool(SAMPLY, "samply record --save-only: no names, no picture", &["samply"], on_cpu::samply),
    // It follows children by the name of the program: it has no filter for descendants.
    tool(
        "bpftrace",
        "bpftrace -e 'profile:hz:N … { @[kstack, ustack(127)] = count(); }': text, no picture",
        &["bpftrace"],
        on_cpu::bpftrace,
    ),
    Tool {
        follows_children: false,
        ..tool(
            "bcc",
            "profile-bpfcc -f, then inferno-flamegraph",
            &["profile-bpfcc", "inferno-flamegraph"],
            on_cpu::bcc,
        )
    },
    Tool {
        follows_children: false,
        ..tool("probee", "probee -o FILE.svg", &["probee"], on_cpu::probee)
    },
];

const OFF_CPU: [Tool; 6] = [
    tool(WINGBEAT, "wingbeat profile --mode off-cpu -o FILE.svg", &[], |job| {
        off_cpu::wingbeat(job, &[])
    }),
    tool(
        "wingbeat --min-block 0",
        "wingbeat profile --mode off-cpu --min-block 0 -o FILE.svg",
        &[],
        |job| off_cpu::wingbeat(job, &["--min-block", "0"]),
    ),
    tool("wingbeat --wakers", "wingbeat profile --mode off-cpu --wakers -o FILE.svg", &[], |job| {
        off_cpu::wingbeat(job, &["--wakers"])
    }),
    tool(PERF, "perf record -e sched:sched_switch -g", &["perf"], |job| off_cpu::perf(job, &[])),
    tool("perf -a", "perf record -e sched:sched_switch -g -a", &["perf"], |job| {
        off_cpu::perf(job, &["-a"])
    }),
    tool(
        "bpftrace",
        "bpftrace: tracepoint:sched:sched_switch { … @ns[kstack, ustack(127)] = sum(…) }",
        &["bpftrace"],
        off_cpu::bpftrace,
    ),
];

pub(super) fn all(mode: Mode) -> &'static [Tool] {
    match mode {
        Mode::OnCpu => &ON_CPU,
        Mode::OffCpu => &OFF_CPU,
    }
}

impl Tool {
    /// Whether it is here and in which version, or how to get it.
    pub(super) fn record(&self, programs: &Path) -> ToolRecord {
        let install = self.needs.iter().find_map(|program| tools::missing(program));
        let version = || match self.needs.first() {
            Some(program) => tools::version(program),
            None => tools::version_of(Command::new(programs.join(WINGBEAT)).arg("--version")),
        };
        ToolRecord {
            name: self.name.to_owned(),
            chain: self.chain.to_owned(),
            version: install.is_none().then(version),
            install: install.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_names_its_installation() {
        for tool in ON_CPU.iter().chain(&OFF_CPU) {
            let ToolRecord { version, install, .. } = tool.record(Path::new("/nowhere"));
            let is_here = tool.needs.iter().all(|program| tools::find(program).is_ok());
            assert_eq!((version.is_some(), install.is_none()), (is_here, is_here), "{}", tool.name);
        }
    }
}
