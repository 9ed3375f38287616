//! The targets, and how each tool is let loose on one. All start the target themselves.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};
use serde::Deserialize;

use super::{
    super::{process, workload},
    record::{Outcome, Report},
};
use wingbeat_steps::command::{find_program, output_of};

/// The tool that the others are compared with.
pub(super) const WINGBEAT: &str = "wingbeat";
/// The peer that the goals are set by.
pub(super) const PERF: &str = "perf";

/// The tracepoint, as perf names it.
pub(super) const SWITCH: &str = "sched:sched_switch";

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

/// The target that hardly switches.
pub(super) const SLEEPY: &str = "sleepy";

const TARGETS: [Target; 3] = [
    Target {
        name: "token-one-cpu",
        about: "two threads on one CPU pass a token",
        program: "work-token",
        arguments: &["--one-cpu"],
    },
    Target {
        name: "token",
        about: "two threads pass a token, on any CPU",
        program: "work-token",
        arguments: &[],
    },
    Target {
        name: SLEEPY,
        about: "three threads that hold a mutex for 7 ms and rest for 20 ms",
        program: "work-sleepy",
        arguments: &[],
    },
];

/// A tool with its flags.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tool {
    /// Its name, in the tables and for `--only`.
    pub(super) name: &'static str,
    pub(super) folder: &'static str,
    pub(super) chain: &'static str,
    kind: Kind,
    flags: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Wingbeat,
    Perf,
    Bpftrace,
}

const TOOLS: [Tool; 6] = [
    Tool {
        name: WINGBEAT,
        folder: "wingbeat",
        chain: "wingbeat profile --mode off-cpu -o FILE.svg",
        kind: Kind::Wingbeat,
        flags: &[],
    },
    Tool {
        name: "wingbeat --min-block 0",
        folder: "wingbeat-all",
        chain: "wingbeat profile --mode off-cpu --min-block 0 -o FILE.svg",
        kind: Kind::Wingbeat,
        flags: &["--min-block", "0"],
    },
    Tool {
        name: "wingbeat --wakers",
        folder: "wingbeat-wakers",
        chain: "wingbeat profile --mode off-cpu --wakers -o FILE.svg",
        kind: Kind::Wingbeat,
        flags: &["--wakers"],
    },
    Tool {
        name: PERF,
        folder: "perf",
        chain: "perf record -e sched:sched_switch -g",
        kind: Kind::Perf,
        flags: &[],
    },
    Tool {
        name: "perf -a",
        folder: "perf-a",
        chain: "perf record -e sched:sched_switch -g -a",
        kind: Kind::Perf,
        flags: &["-a"],
    },
    Tool {
        name: "bpftrace",
        folder: "bpftrace",
        chain: "bpftrace: tracepoint:sched:sched_switch { … @ns[kstack, ustack(127)] = sum(…) }",
        kind: Kind::Bpftrace,
        flags: &[],
    },
];

/// A map of durations per stack. The stack is taken when the thread goes, and used when it comes back.
const BPFTRACE: &str = "
tracepoint:sched:sched_switch {
    if (pid == cpid) { @out[tid] = nsecs; @kernel[tid] = kstack; @user[tid] = ustack(127); }
    $out = @out[args->next_pid];
    if ($out) {
        @ns[@kernel[args->next_pid], @user[args->next_pid]] = sum(nsecs - $out);
        delete(@out[args->next_pid]);
    }
}
END { clear(@out); clear(@kernel); clear(@user); }";

/// The targets of these names; all when there are none.
pub(super) fn targets(names: &[String]) -> anyhow::Result<Vec<Target>> {
    let known = TARGETS.map(|target| target.name);
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no workload \"{name}\" off the CPU: choose from {}", known.join(", "));
    }
    let is_chosen = |target: &Target| names.is_empty() || names.iter().any(|n| n == target.name);
    Ok(TARGETS.into_iter().filter(is_chosen).collect())
}

/// The tools of these names; all when there are none.
pub(super) fn chosen(names: &[String]) -> anyhow::Result<Vec<Tool>> {
    let known = TOOLS.map(|tool| tool.name);
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no tool \"{name}\" off the CPU: choose from {}", known.join(", "));
    }
    let is_chosen = |tool: &Tool| names.is_empty() || names.iter().any(|name| name == tool.name);
    Ok(TOOLS.into_iter().filter(is_chosen).collect())
}

/// What a target is, by its name; for headings.
pub(super) fn about(name: &str) -> &'static str {
    TARGETS.iter().find(|target| target.name == name).map_or("", |target| target.about)
}

impl Target {
    /// Whether it is the one that the sums are compared on.
    pub(super) fn is_sleepy(self) -> bool {
        self.name == SLEEPY
    }

    /// Whether a tool is run on it: variants show nothing where there is hardly a switch.
    pub(super) fn is_for(self, tool: &Tool) -> bool {
        !self.is_sleepy() || tool.flags.is_empty()
    }
}

impl Tool {
    /// The command that installs it, when it is not there.
    pub(super) fn missing(&self) -> Option<&'static str> {
        let (program, install) = match self.kind {
            Kind::Wingbeat => return None,
            Kind::Perf => ("perf", "apt-get install linux-perf"),
            Kind::Bpftrace => ("bpftrace", "apt-get install bpftrace"),
        };
        find_program(program).is_none().then_some(install)
    }

    /// What it says about its version; nothing when it is missing.
    pub(super) fn version(&self, programs: &Path) -> Option<String> {
        let mut command = match self.kind {
            Kind::Wingbeat => Command::new(programs.join("wingbeat")),
            Kind::Perf => Command::new("perf"),
            Kind::Bpftrace => Command::new("bpftrace"),
        };
        let said = output_of(command.arg("--version"))?;
        // "perf version 6.1.192", "bpftrace v0.17.0"
        let version = said.lines().next()?.split_whitespace().next_back()?;
        Some(version.trim_start_matches('v').to_owned())
    }
}

/// One run that is to be made.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) target: Target,
    pub(super) seconds: u32,
    /// Where wingbeat and the targets are.
    pub(super) programs: &'a Path,
    /// An empty folder for all files of this run.
    pub(super) dir: PathBuf,
}

impl Job<'_> {
    /// A file of this run.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The words of the target's command line.
    fn words(&self) -> Vec<String> {
        let program = self.programs.join(self.target.program).to_string_lossy().into_owned();
        let first = [program, format!("{}s", self.seconds)];
        first.into_iter().chain(self.target.arguments.iter().map(|&word| word.to_owned())).collect()
    }

    /// wingbeat's command line, which ends with the target's.
    pub(super) fn wingbeat(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(self.programs.join("wingbeat"));
        command.args(["profile", "--mode", "off-cpu", "--quiet"]).args(flags);
        command.arg("--output").arg(self.file("blocked.svg"));
        command.arg("--summary-json").arg(self.file("summary.json"));
        command.arg("--").args(self.words());
        command
    }

    /// Runs the target with nobody watching: its report, and the CPU time by the kernel's account.
    pub(super) fn alone(&self) -> anyhow::Result<(Report, u64)> {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        self.finish(&mut command)
    }

    /// Runs a command that runs the target.
    pub(super) fn finish(&self, command: &mut Command) -> anyhow::Result<(Report, u64)> {
        workload::report_into(command, &self.dir);
        let said = self.file("output.txt");
        let stdout =
            File::create(&said).with_context(|| format!("cannot write {}", said.display()))?;
        let usage = process::run(command, stdout.into(), &self.file("messages"))?;
        let file = self.file("target.json");
        let text = fs::read_to_string(&file)
            .with_context(|| format!("the target left no report in {}", file.display()))?;
        let report = serde_json::from_str(&text)
            .with_context(|| format!("{} is no report: {text}", file.display()))?;
        Ok((report, usage.cpu_ns))
    }

    /// Runs the target under a tool.
    pub(super) fn watched(&self, tool: &Tool) -> anyhow::Result<(Report, Outcome)> {
        match tool.kind {
            Kind::Wingbeat => self.under_wingbeat(tool.flags),
            Kind::Perf => self.under_perf(tool.flags),
            Kind::Bpftrace => self.under_bpftrace(),
        }
    }

    fn under_wingbeat(&self, flags: &[&str]) -> anyhow::Result<(Report, Outcome)> {
        let (report, cpu_ns) = self.finish(&mut self.wingbeat(flags))?;
        let switches = Summary::read(&self.file("summary.json"))?.off_cpu.switches;
        let outcome = Outcome {
            cpu_ns,
            reading_cpu_ns: None,
            file_bytes: size(&self.file("blocked.svg"))?,
            seen: Some(switches.out),
            lost: Some(switches.lost()),
        };
        Ok((report, outcome))
    }

    fn under_perf(&self, flags: &[&str]) -> anyhow::Result<(Report, Outcome)> {
        let data = self.file("perf.data");
        let mut record = Command::new("perf");
        record.args(["record", "--quiet", "-e", SWITCH, "-g", "-o"]).arg(&data).args(flags);
        record.arg("--").args(self.words());
        let (report, cpu_ns) = self.finish(&mut record)?;
        let stats = output_of(Command::new("perf").args(["report", "--stats", "-i"]).arg(&data));
        let stats = stats.context("`perf report --stats` does not read what perf recorded")?;
        let (seen, lost) = perf_stats(&stats)?;
        let read = || process::run(&mut script(&data), Stdio::null(), &self.file("messages"));
        // With -a the others' are among them.
        let ours_only = flags.is_empty();
        let outcome = Outcome {
            cpu_ns,
            reading_cpu_ns: ours_only.then(read).transpose()?.map(|usage| usage.cpu_ns),
            file_bytes: size(&data)?,
            seen: ours_only.then_some(seen),
            lost: Some(lost),
        };
        // Hundreds of megabytes, and all that is wanted of them is known.
        fs::remove_file(&data).with_context(|| format!("cannot remove {}", data.display()))?;
        Ok((report, outcome))
    }

    fn under_bpftrace(&self) -> anyhow::Result<(Report, Outcome)> {
        let mut command = Command::new("bpftrace");
        command.args(["-c", &self.words().join(" "), "-e", BPFTRACE]);
        // By default it reads the program's symbols anew for each frame.
        command.env("BPFTRACE_CACHE_USER_SYMBOLS", "1");
        let (report, cpu_ns) = self.finish(&mut command)?;
        let file_bytes = size(&self.file("output.txt"))?;
        Ok((report, Outcome { cpu_ns, file_bytes, ..Outcome::default() }))
    }
}

/// perf's recording as text: times in nanoseconds, and names without those of inlined functions,
/// which take it minutes.
pub(super) fn script(data: &Path) -> Command {
    let mut command = Command::new("perf");
    command.args(["script", "--ns", "--no-inline", "-F", "comm,tid,time,event,trace,ip,sym", "-i"]);
    command.arg(data);
    command
}

fn size(file: &Path) -> anyhow::Result<u64> {
    Ok(fs::metadata(file).with_context(|| format!("{} was not written", file.display()))?.len())
}

/// Switches in and lost to a recording, from what `perf report --stats` prints.
pub(super) fn perf_stats(text: &str) -> anyhow::Result<(u64, u64)> {
    // First come the records of the file, then each event. A record may tell of many lost samples.
    let (records, events) = text
        .split_once("sched:sched_switch stats:")
        .context("`perf report --stats` knows no sched_switch")?;
    let number = |part: &str, name: &str| {
        let line = part.lines().find(|line| line.trim_start().starts_with(name))?;
        line.split(':').nth(1)?.split_whitespace().next()?.parse::<u64>().ok()
    };
    // Kernels before 6.0 do not count lost samples, only the occasions.
    let lost = number(events, "LOST_SAMPLES events").or_else(|| number(records, "LOST events"));
    Ok((number(events, "SAMPLE events").unwrap_or(0), lost.unwrap_or(0)))
}

/// What `wingbeat profile --mode off-cpu --summary-json` tells, as far as it is wanted here.
#[derive(Debug, Deserialize)]
pub(super) struct Summary {
    pub(super) off_cpu: OffCpu,
}

/// Its part about time off the CPU.
#[derive(Debug, Deserialize)]
pub(super) struct OffCpu {
    pub(super) switches: Switches,
    /// Blocks by stack.
    pub(super) stacks: Vec<BlockedStack>,
    pub(super) threads: Vec<ThreadTime>,
}

/// Switches of the target's threads.
#[derive(Debug, Deserialize)]
pub(super) struct Switches {
    out: u64,
    lost: BTreeMap<String, u64>,
}

impl Switches {
    /// Blocks that were lost, whatever the reason.
    pub(super) fn lost(&self) -> u64 {
        self.lost.values().sum()
    }
}

/// Blocks with one stack.
#[derive(Debug, Deserialize)]
pub(super) struct BlockedStack {
    /// Names of the frames, outermost first.
    pub(super) stack: Vec<String>,
    pub(super) total_ns: u64,
}

/// The time of one thread.
#[derive(Debug, Deserialize)]
pub(super) struct ThreadTime {
    pub(super) tid: u32,
    pub(super) off_cpu_ns: u64,
    pub(super) below_limit_ns: u64,
}

impl Summary {
    /// Reads the file.
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(file).context("wingbeat left no summary")?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} tells nothing of time off the CPU", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_refused() {
        let error = chosen(&["samply".to_owned()]).expect_err("not for this").to_string();
        assert!(
            error.starts_with("there is no tool \"samply\" off the CPU: choose from wingbeat, ")
        );
        let error = targets(&["deep".to_owned()]).expect_err("not for this").to_string();
        assert!(error.ends_with("choose from token-one-cpu, token, sleepy"), "{error}");
        assert_eq!(targets(&[]).expect("all").len(), 3);
    }

    #[test]
    fn variants_are_for_many_switches() {
        let tools = chosen(&[]).expect("all");
        let names = |target: Target| -> Vec<&str> {
            tools.iter().filter(|tool| target.is_for(tool)).map(|tool| tool.name).collect()
        };
        assert_eq!(names(TARGETS[0]).len(), 6);
        assert_eq!(names(TARGETS[2]), [WINGBEAT, PERF, "bpftrace"]);
    }

    #[test]
    fn statistics_of_perf() {
        let check = |text: &str, expected| assert_eq!(perf_stats(text).ok(), expected, "{text}");
        let records = "Aggregated stats:\n  TOTAL events:  9\n  LOST events:  2 (1%)\n";
        let events = "sched:sched_switch stats:\n  SAMPLE events:  70 ( 8.0%)\n";
        check(&format!("{records}{events}"), Some((70, 2)));
        check(&format!("{records}{events}  LOST_SAMPLES events:  5\n"), Some((70, 5)));
        check(records, None);
    }
}
