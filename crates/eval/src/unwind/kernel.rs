//! What a sample costs in the kernel, by the kernel's own clock: the run time that it keeps of each
//! program while `kernel.bpf_stats_enabled` is set.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail};

use crate::{
    comparison::out,
    profile::{
        parse::{number, summary},
        process,
    },
};

const ENABLED: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// The number of programs that perf events run, `BPF_PROG_TYPE_PERF_EVENT`: wingbeat's `sample`.
const PERF_EVENT: u64 = 7;

/// Two seconds of work or so.
const UNITS: &str = "120000";

/// How often the kernel is asked; the program's figures are gone when it has ended.
const POLL: Duration = Duration::from_millis(20);

/// Statistics that are kept, until this goes out of use.
#[derive(Debug)]
pub(super) struct Statistics {
    before: String,
}

impl Statistics {
    pub(super) fn kept() -> anyhow::Result<Self> {
        let before =
            fs::read_to_string(ENABLED).with_context(|| format!("cannot read {ENABLED}"))?;
        fs::write(ENABLED, "1").with_context(|| format!("cannot set {ENABLED}"))?;
        Ok(Self { before })
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        if let Err(error) = fs::write(ENABLED, &self.before) {
            eprintln!("warning: {ENABLED} stays set, it was {}: {error}", self.before.trim());
        }
    }
}

/// Nanoseconds in the kernel for each sample of `work-deep`, all of whose stacks have 26 frames.
pub(super) fn ns_per_sample(
    wingbeat: &Path,
    workload: &Path,
    unwind: &str,
    hz: u32,
) -> anyhow::Result<f64> {
    let folder = out("kernel")?;
    let (told, messages) = (folder.join("summary.json"), folder.join("messages"));
    let mut command = Command::new(wingbeat);
    command.args(["profile", "--quiet", "--unwind", unwind, "-F", &hz.to_string(), "-o"]);
    command.arg(folder.join("stacks.folded")).arg("--summary-json").arg(&told).arg("--");
    command.arg(workload).args([UNITS, "19", "19"]);
    let mut child = process::start(&mut command, Stdio::null(), Stdio::null(), &messages)?;
    let mut last = None;
    let status = loop {
        if let Some(status) = child.try_wait().context("cannot wait for wingbeat")? {
            break status;
        }
        last = run_time(&format!("/proc/{}/fdinfo", child.id())).or(last);
        thread::sleep(POLL);
    };
    let Some((time_ns, runs)) = last.filter(|_| status.success()) else {
        bail!("wingbeat failed or ran no program on {} ({status})", workload.display());
    };
    // It also runs at ticks that are not the target's, and then takes next to no time.
    let told = summary(&told)?;
    let ticks =
        ["sampled", "idle", "other", "lost"].map(|it| number(&told, &format!("/ticks/{it}")));
    let ticks = ticks.into_iter().sum::<anyhow::Result<u64>>()?;
    let sampled = number(&told, "/ticks/sampled")?;
    Ok(time_ns as f64 / runs as f64 * ticks as f64 / sampled as f64)
}

/// Run time and runs of the program that a process holds for its perf events.
fn run_time(folder: &str) -> Option<(u64, u64)> {
    let texts = fs::read_dir(folder).ok()?.flatten().map(|file| fs::read_to_string(file.path()));
    texts.filter_map(|text| run_time_of(&text.ok()?)).next()
}

fn run_time_of(fdinfo: &str) -> Option<(u64, u64)> {
    let field = |name: &str| {
        let mut lines = fdinfo.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| *found == name)?.1.trim().parse::<u64>().ok()
    };
    let runs = field("run_cnt").filter(|&runs| runs > 0)?;
    (field("prog_type")? == PERF_EVENT).then_some((field("run_time_ns")?, runs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_times_are_read() {
        let check = |text: &str, expected| assert_eq!(run_time_of(text), expected, "{text}");
        check("pos:\t0\nprog_type:\t7\nrun_time_ns:\t900\nrun_cnt:\t3\n", Some((900, 3)));
        check("pos:\t0\nprog_type:\t17\nrun_time_ns:\t900\nrun_cnt:\t3\n", None);
        check("prog_type:\t7\nrun_time_ns:\t0\nrun_cnt:\t0\n", None);
        check("pos:\t0\nflags:\t02\n", None);
    }
}
