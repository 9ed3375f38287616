//! Determines the environment of a report from the system.

use std::{
    fs,
    path::Path,
    process::Command,
    thread::{self, JoinHandle},
};

use crate::git;
use crate::model::Environment;

/// CPU times since boot. The difference between two moments is the stolen time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moment {
    load: Option<f64>,
    steal_ticks: u64,
    all_ticks: u64,
}

impl Moment {
    pub fn now() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self::of(&read("/proc/loadavg"), &read("/proc/stat"))
    }

    /// Parses `/proc/loadavg` and `/proc/stat` (proc(5)).
    fn of(loadavg: &str, stat: &str) -> Self {
        let load = loadavg.split_whitespace().next().and_then(|word| word.parse().ok());
        let total = stat.lines().find_map(|line| line.strip_prefix("cpu "));
        // user nice system idle iowait irq softirq steal; user time already includes guest time.
        let ticks: Vec<u64> = total
            .unwrap_or_default()
            .split_whitespace()
            .take(8)
            .map(|word| word.parse().unwrap_or(0))
            .collect();
        let steal_ticks = ticks.get(7).copied().unwrap_or(0);
        Self { load, steal_ticks, all_ticks: ticks.iter().sum() }
    }

    /// The share of the CPU time since then that the hypervisor stole.
    fn steal_until(&self, now: &Self) -> Option<f64> {
        let all = now.all_ticks.checked_sub(self.all_ticks).filter(|&all| all > 0)?;
        let stolen = now.steal_ticks.saturating_sub(self.steal_ticks);
        Some(stolen as f64 / all as f64)
    }
}

/// Queries to other programs. The compiler is queried while the benchmarks run: it takes some milliseconds, which would
/// otherwise add to the end.
#[derive(Debug)]
pub struct Questions {
    compiler: JoinHandle<Option<String>>,
    git_hash: Option<String>,
    is_dirty: Option<bool>,
}

impl Questions {
    /// Starts the queries, and waits for git: the benchmarks may change files, which git would report.
    pub fn ask(directory: &Path) -> Self {
        let compiler = thread::spawn(|| first_line("rustc", &["--version"]));
        thread::scope(|scope| {
            let is_dirty = scope.spawn(|| git::is_dirty(directory));
            let git_hash = git::head(directory);
            Self { compiler, git_hash, is_dirty: is_dirty.join().ok().flatten() }
        })
    }

    /// The environment of a measurement from `before` until now.
    pub fn environment(self, before: &Moment) -> Environment {
        let cores = thread::available_parallelism().ok();
        let system = rustix::system::uname();
        let (name, release) = (system.sysname(), system.release());
        Environment {
            kernel: Some(format!("{} {}", name.to_string_lossy(), release.to_string_lossy())),
            cpu_model: fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| cpu_model(&text)),
            governor: fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
                .ok()
                .map(|text| text.trim().to_owned()),
            cores: cores.and_then(|cores| u32::try_from(cores.get()).ok()),
            load: before.load,
            steal: before.steal_until(&Moment::now()),
            compiler: self.compiler.join().ok().flatten(),
            git_hash: self.git_hash,
            is_dirty: self.is_dirty,
            wingbeat: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }
    }
}

/// The model name of the first CPU. On aarch64 there are only numbers.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |key: &str| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        })
    };
    value("model name").or_else(|| {
        let (implementer, part) = (value("CPU implementer")?, value("CPU part")?);
        Some(format!("implementer {implementer}, part {part}"))
    })
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().next().map(str::trim).filter(|line| !line.is_empty());
    line.filter(|_| output.status.success()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        let before = Moment::of("0.52 0.58 0.59 1/100 1", "cpu  10 0 10 80 0 0 0 0 5 0\ncpu0 1\n");
        let after = Moment::of("", "cpu  10 0 20 160 0 0 0 10 5 0\n");
        assert_eq!(before.load, Some(0.52));
        assert_eq!(before.steal_until(&after), Some(0.1));
        assert_eq!(before.steal_until(&before), None, "no time has passed");
        assert_eq!(Moment::of("x", "y"), Moment::default());
    }

    #[test]
    fn names_of_cpus() {
        let check = |text, expected: Option<&str>| assert_eq!(cpu_model(text).as_deref(), expected);
        check("processor\t: 0\nmodel name\t: AMD EPYC\n", Some("AMD EPYC"));
        check("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", Some("implementer 0x41, part 0xd0c"));
        check("", None);
    }
}
