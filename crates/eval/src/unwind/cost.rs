//! What a run costs: CPU time of the target by its shell's account, and memory of the tool by looking.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, atomic::AtomicBool, atomic::Ordering},
    thread,
    time::Duration,
};

use anyhow::Context as _;

use crate::profile::process::{self, Usage};

/// How often the memory of a tool is looked at: the kernel's sum when all has ended would be the target's
/// where that takes more.
const POLL: Duration = Duration::from_millis(10);

/// Runs `$0` and leaves in `$1` what it took: bash counts finer than other shells.
const TIMED: &str = r#"sh -c "$0"; status=$?; times > "$1"; exit $status"#;

/// A run of a target, alone or under a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// CPU time of all, memory of the tool.
    pub(super) usage: Usage,
    /// CPU time of the target and all that it waited for.
    pub(super) target_ns: u64,
}

impl Cost {
    /// With what a tool took before or after, or beside.
    pub(super) fn then(self, next: Usage) -> Self {
        Self { usage: self.usage.then(next), ..self }
    }

    /// CPU time beyond the target's, which a run alone has as well: that of shells, and of exits.
    pub(super) fn own_ns(&self, alone: &Self) -> u64 {
        let beyond = |cost: &Self| cost.usage.cpu_ns.saturating_sub(cost.target_ns);
        beyond(self).saturating_sub(beyond(alone))
    }

    /// How much longer the target took, as a share.
    pub(super) fn slowdown(&self, alone: &Self) -> Option<f64> {
        (alone.target_ns > 0).then(|| self.target_ns as f64 / alone.target_ns as f64 - 1.0)
    }
}

/// Runs a line of shell below a command, which takes it as its last words; `times` is a file for what the
/// target takes.
pub(super) fn run(
    mut command: Command,
    line: &str,
    times: &Path,
    messages: &Path,
) -> anyhow::Result<Cost> {
    command.args(["bash", "-c", TIMED, line]).arg(times);
    let child = process::start(&mut command, Stdio::null(), Stdio::null(), messages)?;
    let status = format!("/proc/{}/status", child.id());
    let has_ended = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&has_ended);
    let look = thread::spawn(move || {
        let mut rss_max_bytes = 0;
        while !is_over.load(Ordering::Relaxed) {
            let text = fs::read_to_string(&status).unwrap_or_default();
            rss_max_bytes = rss_max_bytes.max(rss_max_of(&text).unwrap_or(0));
            thread::sleep(POLL);
        }
        rss_max_bytes
    });
    let finished = process::finish(child, "the target", messages);
    has_ended.store(true, Ordering::Relaxed);
    let rss_max_bytes = look.join().unwrap_or(0);
    let usage = Usage { rss_max_bytes, ..finished? };
    let text = fs::read_to_string(times).context("the target left no times")?;
    Ok(Cost { usage, target_ns: times_ns(&text).context("the target's times make no sense")? })
}

fn rss_max_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// The sum of `0m1.234s 0m0.010s`, a line for the shell and one for its children.
fn times_ns(text: &str) -> Option<u64> {
    let time = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    let sum_s: f64 = text.split_whitespace().map(time).sum::<Option<f64>>()?;
    Some((sum_s * 1e9).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let check = |text: &str, expected| assert_eq!(times_ns(text), expected, "{text}");
        check("0m0.001s 0m0.002s\n1m1.500s 0m0.010s\n", Some(61_513_000_000));
        check("", Some(0));
        check("1.5 0.1\n", None);
    }

    #[test]
    fn memory_is_read() {
        assert_eq!(rss_max_of("VmPeak:\t 9 kB\nVmHWM:\t    12 kB\n"), Some(12 << 10));
        assert_eq!(rss_max_of("Name:\tgone\n"), None);
    }

    #[test]
    fn what_is_the_target_s_is_not_the_tool_s() {
        let cost =
            |cpu_ns, target_ns| Cost { usage: Usage { cpu_ns, rss_max_bytes: 0 }, target_ns };
        let (alone, under) = (cost(103, 100), cost(130, 110));
        assert_eq!((under.own_ns(&alone), alone.own_ns(&under)), (17, 0));
        assert!((under.slowdown(&alone).expect("a time") - 0.1).abs() < 1e-9);
        assert_eq!(under.slowdown(&Cost::default()), None);
    }

    #[test]
    fn a_line_of_shell_is_measured() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (times, messages) = (dir.path().join("times"), dir.path().join("messages"));
        let line = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let cost = run(Command::new("env"), line, &times, &messages).expect("it runs");
        assert!(cost.target_ns > 0 && cost.usage.cpu_ns >= cost.target_ns / 2, "{cost:?}");
        assert!(cost.usage.rss_max_bytes > 0, "{cost:?}");
        let error = run(Command::new("env"), "exit 3", &times, &messages);
        assert!(error.is_err(), "{error:?}");
    }
}
