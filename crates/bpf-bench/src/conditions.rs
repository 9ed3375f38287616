//! Machine conditions during a measurement: facts that explain or invalidate a figure.
//!
//! - [`Conditions`]: the contents of `/proc` and `/sys`, read once before and once after.
//! - [`Load`]: concurrent activity, from two readings of `/proc/stat`.
//! - [`warnings`]: conditions that a reader of the figures should know.
//!
//! Nothing here fails: values that cannot be read are `None`, either for lack of privileges (JIT
//! compiler settings are readable only by root) or because the machine does not have them.

mod load;
mod warning;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use serde::Serialize;
use wingbeat_bpf_loader::perf;

pub use self::{
    load::{Load, LoadReading, Shares},
    warning::{Observed, warnings},
};

/// Maximum number of listed vulnerabilities. Linux 6.18 knows 19.
const VULNERABILITIES_MAX: usize = 100;

/// Settings and properties of a machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Conditions {
    /// CPU that the measuring thread is pinned to.
    pub cpu_measured: u32,
    /// Output of `uname -r`.
    pub kernel_release: Option<String>,
    /// Output of `uname -v`: build number and date, preemption model.
    pub kernel_version: Option<String>,
    /// Output of `uname -m`.
    pub architecture: Option<String>,
    pub cpu_model: Option<String>,
    pub microcode: Option<String>,
    pub cpus_online: Option<u32>,
    /// Number of CPUs that per-CPU maps have values for.
    pub cpus_possible: Option<u32>,
    /// SMT siblings of the measuring CPU.
    pub cpu_siblings: Vec<u32>,
    /// Whether the measuring CPU is isolated from the scheduler (`isolcpus=`).
    pub is_cpu_isolated: Option<bool>,
    /// `net.core.bpf_jit_enable`: 0 off, 1 on, 2 on with debug output.
    pub bpf_jit_enable: Option<u32>,
    /// `net.core.bpf_jit_harden`: 0 off, 1 for unprivileged programs, 2 for all.
    pub bpf_jit_harden: Option<u32>,
    /// `kernel.bpf_stats_enabled`. Does not cover statistics enabled through a descriptor
    /// (`BPF_ENABLE_STATS`): `bpf_stats_handler` in kernel/bpf/syscall.c, Linux 6.18.
    pub is_bpf_stats_enabled: Option<bool>,
    /// CPU vulnerability mitigations, by vulnerability name.
    pub mitigations: BTreeMap<String, String>,
    pub clock_source: Option<String>,
    /// Frequency governor of the measuring CPU.
    pub governor: Option<String>,
    pub frequency_driver: Option<String>,
    /// Current frequency of the measuring CPU.
    pub frequency_khz: Option<u64>,
    /// Minimum frequency that the governor may choose.
    pub frequency_min_khz: Option<u64>,
    /// Maximum frequency that the governor may choose.
    pub frequency_max_khz: Option<u64>,
    /// Whether turbo frequencies are enabled.
    pub is_turbo_on: Option<bool>,
    /// Load average over one minute.
    pub load_average_1min: Option<f64>,
    /// Process ids of other wingbeat processes that measure on the same CPU.
    pub rivals: Vec<u32>,
    pub is_virtualised: Option<bool>,
    /// Vendor and model of the machine.
    pub machine: Option<String>,
}

impl Conditions {
    /// Reads the files below `root`, which is `/` outside of tests. `cpu` is the measuring CPU.
    pub fn read(root: &Path, cpu: u32) -> Self {
        let files = Files::new(root);
        let in_cpu = |file: &str| files.text(&format!("sys/devices/system/cpu/cpu{cpu}/{file}"));
        let frequency = |file: &str| in_cpu(&format!("cpufreq/{file}"));
        let khz = |file: &str| frequency(file)?.parse().ok();
        let cpus = |file: &str| files.cpus(&format!("sys/devices/system/cpu/{file}"));
        let count = |file: &str| u32::try_from(cpus(file)?.len()).ok();
        let cpu_info = CpuInfo::parse(&files.text("proc/cpuinfo").unwrap_or_default());
        let siblings = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let mut cpu_siblings = files.cpus(&siblings).unwrap_or_default();
        cpu_siblings.retain(|sibling| *sibling != cpu);
        let sysctl = |name: &str| files.text(&format!("proc/sys/{name}"))?.parse::<u32>().ok();
        Self {
            cpu_measured: cpu,
            kernel_release: files.text("proc/sys/kernel/osrelease"),
            kernel_version: files.text("proc/sys/kernel/version"),
            // The file exists since Linux 6.1.
            architecture: files
                .text("proc/sys/kernel/arch")
                .or_else(|| Some(std::env::consts::ARCH.to_owned())),
            cpus_online: count("online"),
            cpus_possible: count("possible"),
            cpu_siblings,
            is_cpu_isolated: cpus("isolated").map(|isolated| isolated.contains(&cpu)),
            bpf_jit_enable: sysctl("net/core/bpf_jit_enable"),
            bpf_jit_harden: sysctl("net/core/bpf_jit_harden"),
            is_bpf_stats_enabled: sysctl("kernel/bpf_stats_enabled").map(|value| value != 0),
            mitigations: files
                .folder("sys/devices/system/cpu/vulnerabilities", VULNERABILITIES_MAX),
            clock_source: files
                .text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            governor: frequency("scaling_governor"),
            frequency_driver: frequency("scaling_driver"),
            frequency_khz: khz("scaling_cur_freq"),
            frequency_min_khz: khz("scaling_min_freq"),
            frequency_max_khz: khz("scaling_max_freq"),
            is_turbo_on: is_turbo_on(&files),
            load_average_1min: files
                .text("proc/loadavg")
                .and_then(|text| text.split(' ').next()?.parse().ok())
                .filter(|load: &f64| load.is_finite()),
            rivals: rivals_on(files, cpu),
            is_virtualised: cpu_info
                .has_hypervisor
                .or_else(|| files.text("sys/hypervisor/type").map(|_| true)),
            cpu_model: cpu_info.model,
            microcode: cpu_info.microcode,
            machine: machine(&files),
        }
    }
}

/// Name of this program's processes.
const PROCESS_NAME: &str = "wingbeat";

/// Process ids of other wingbeat processes with a thread pinned to `cpu`.
fn rivals_on(files: Files<'_>, cpu: u32) -> Vec<u32> {
    let is_bound = |status: &str| {
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        allowed.is_some_and(|allowed| allowed.trim() == cpu.to_string())
    };
    let mut processes = files.numbers("proc");
    processes.retain(|process| {
        *process != std::process::id()
            && files.text(&format!("proc/{process}/comm")).is_some_and(|name| name == PROCESS_NAME)
            && files.numbers(&format!("proc/{process}/task")).into_iter().any(|thread| {
                let status = files.text(&format!("proc/{process}/task/{thread}/status"));
                status.is_some_and(|status| is_bound(&status))
            })
    });
    processes.sort_unstable();
    processes
}

/// Number of online CPUs, regardless of this process's affinity; at least 1.
pub fn cpus_online() -> u32 {
    let online = Files::new(Path::new("/")).cpus("sys/devices/system/cpu/online");
    online.and_then(|cpus| u32::try_from(cpus.len()).ok()).unwrap_or(1).max(1)
}

/// Two drivers have their own switch.
fn is_turbo_on(files: &Files) -> Option<bool> {
    let switch = |path: &str| files.text(&format!("sys/devices/system/cpu/{path}"));
    match switch("intel_pstate/no_turbo") {
        Some(no_turbo) => Some(no_turbo == "0"),
        None => Some(switch("cpufreq/boost")? == "1"),
    }
}

/// Vendor and model as reported by the firmware.
fn machine(files: &Files) -> Option<String> {
    let parts = ["sys_vendor", "product_name"].map(|name| {
        files.text(&format!("sys/class/dmi/id/{name}")).filter(|text| !text.is_empty())
    });
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// `/proc/cpuinfo` fields of the first CPU.
#[derive(Debug, Default, PartialEq, Eq)]
struct CpuInfo {
    model: Option<String>,
    microcode: Option<String>,
    /// Only available on x86.
    has_hypervisor: Option<bool>,
}

impl CpuInfo {
    fn parse(text: &str) -> Self {
        let field = |wanted: &str| {
            let fields = text.lines().filter_map(|line| line.split_once(':'));
            let mut values = fields.filter(|(name, _)| name.trim() == wanted);
            values
                .next()
                .map(|(_, value)| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        // Arm reports only numbers, RISC-V the name of its core.
        let arm = || Some(format!("{} part {}", field("CPU implementer")?, field("CPU part")?));
        Self {
            model: field("model name").or_else(|| field("uarch")).or_else(arm),
            microcode: field("microcode"),
            has_hypervisor: field("flags")
                .map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
        }
    }
}

/// Maximum bytes read. `/proc/cpuinfo` has 1.5 KB per CPU.
const BYTES_MAX: u64 = 4 << 20;

/// A tree of files.
#[derive(Debug, Clone, Copy)]
struct Files<'a> {
    root: &'a Path,
}

impl<'a> Files<'a> {
    fn new(root: &'a Path) -> Self {
        Self { root }
    }

    /// Trimmed text of a file.
    fn text(self, path: &str) -> Option<String> {
        read(&self.root.join(path))
    }

    /// Parses a list of CPUs such as `0-3,8`.
    fn cpus(self, path: &str) -> Option<Vec<u32>> {
        perf::cpu_list(&self.text(path)?)
    }

    /// Numeric entries of a folder.
    fn numbers(self, path: &str) -> Vec<u32> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    /// Files of a folder with their contents.
    fn folder(self, path: &str, files_max: usize) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten();
        let paths = entries.take(files_max).filter_map(|entry| Some(entry.ok()?.path()));
        let named = |path: PathBuf| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            Some((name, read(&path)?))
        };
        paths.filter_map(named).collect()
    }
}

fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

#[cfg(test)]
mod tests;
