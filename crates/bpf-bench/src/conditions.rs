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
mod tests {
    use std::fs;

    use super::*;
    use crate::Warning;

    /// A fake file tree of a machine.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn empty() -> Self {
            Self(tempfile::tempdir().expect("folder"))
        }

        /// A machine without problems: two cores of two threads each, statistics off, performance governor.
        fn quiet() -> Self {
            let cpu0 = "sys/devices/system/cpu/cpu0";
            Self::empty()
                .with("proc/sys/kernel/osrelease", "6.18.0\n")
                .with("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC\n")
                .with("proc/sys/kernel/arch", "x86_64\n")
                .with("proc/sys/kernel/bpf_stats_enabled", "0\n")
                .with("proc/sys/net/core/bpf_jit_enable", "1\n")
                .with("proc/sys/net/core/bpf_jit_harden", "0\n")
                .with("proc/cpuinfo", CPU_INFO)
                .with("proc/loadavg", "0.25 0.5 1.0 1/100 4242\n")
                .with("sys/devices/system/cpu/online", "0-3\n")
                .with("sys/devices/system/cpu/possible", "0-7\n")
                .with("sys/devices/system/cpu/isolated", "\n")
                .with("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n")
                .with("sys/devices/system/cpu/vulnerabilities/retbleed", "Mitigation: IBRS\n")
                .with("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n")
                .with("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")
                .with("sys/class/dmi/id/sys_vendor", "Maker\n")
                .with("sys/class/dmi/id/product_name", "Model 1\n")
                .with(&format!("{cpu0}/topology/thread_siblings_list"), "0,2\n")
                .with(&format!("{cpu0}/cpufreq/scaling_governor"), "performance\n")
                .with(&format!("{cpu0}/cpufreq/scaling_driver"), "intel_pstate\n")
                .with(&format!("{cpu0}/cpufreq/scaling_cur_freq"), "2400000\n")
                .with(&format!("{cpu0}/cpufreq/scaling_min_freq"), "800000\n")
                .with(&format!("{cpu0}/cpufreq/scaling_max_freq"), "2500000\n")
        }

        fn with(self, path: &str, text: &str) -> Self {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
            fs::write(path, text).expect("write");
            self
        }

        fn read(&self) -> Conditions {
            Conditions::read(self.0.path(), 0)
        }
    }

    const CPU_INFO: &str = "processor\t: 0\nmodel name\t: Some CPU @ 2.50GHz\nmicrocode\t: 0x1\n\
        flags\t\t: fpu tsc\n\nprocessor\t: 1\nmodel name\t: Another\nflags\t\t: fpu hypervisor\n";

    #[test]
    fn reads_all_that_there_is() {
        let text = |text: &str| Some(text.to_owned());
        let mitigations = [("meltdown", "Not affected"), ("retbleed", "Mitigation: IBRS")];
        let expected = Conditions {
            cpu_measured: 0,
            kernel_release: text("6.18.0"),
            kernel_version: text("#1 SMP PREEMPT_DYNAMIC"),
            architecture: text("x86_64"),
            cpu_model: text("Some CPU @ 2.50GHz"),
            microcode: text("0x1"),
            cpus_online: Some(4),
            cpus_possible: Some(8),
            cpu_siblings: vec![2],
            is_cpu_isolated: Some(false),
            bpf_jit_enable: Some(1),
            bpf_jit_harden: Some(0),
            is_bpf_stats_enabled: Some(false),
            mitigations: mitigations.map(|(name, what)| (name.to_owned(), what.to_owned())).into(),
            clock_source: text("tsc"),
            governor: text("performance"),
            frequency_driver: text("intel_pstate"),
            frequency_khz: Some(2_400_000),
            frequency_min_khz: Some(800_000),
            frequency_max_khz: Some(2_500_000),
            is_turbo_on: Some(false),
            load_average_1min: Some(0.25),
            rivals: Vec::new(),
            is_virtualised: Some(false),
            machine: text("Maker Model 1"),
        };
        assert_eq!(Machine::quiet().read(), expected);
    }

    #[test]
    fn what_is_missing_or_strange_is_nothing() {
        let architecture = Some(std::env::consts::ARCH.to_owned());
        let nothing = Conditions { architecture, ..Conditions::default() };
        assert_eq!(Machine::empty().read(), nothing);
        let strange = Machine::empty()
            .with("proc/sys/kernel/bpf_stats_enabled", "yes")
            .with("proc/sys/net/core/bpf_jit_enable", "-1")
            .with("proc/loadavg", "NaN 1 1")
            .with("proc/cpuinfo", "model name\nflags")
            .with("sys/devices/system/cpu/online", "all")
            .with("sys/devices/system/cpu/vulnerabilities/folder/file", "");
        assert_eq!(strange.read(), nothing);
    }

    #[test]
    fn other_machines_tell_other_things() {
        let with_cpu = |text| Machine::empty().with("proc/cpuinfo", text).read();
        let arm = with_cpu("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n");
        assert_eq!(arm.cpu_model.as_deref(), Some("0x41 part 0xd0c"));
        assert_eq!(arm.is_virtualised, None);
        let risc_v = with_cpu("processor\t: 0\nuarch\t\t: sifive,u74-mc\n");
        assert_eq!(risc_v.cpu_model.as_deref(), Some("sifive,u74-mc"));
        assert_eq!(with_cpu("flags : fpu hypervisor\n").is_virtualised, Some(true));
        let boost = |switch| Machine::empty().with("sys/devices/system/cpu/cpufreq/boost", switch);
        assert_eq!(boost("1").read().is_turbo_on, Some(true));
        assert_eq!(boost("0").read().is_turbo_on, Some(false));
        let isolated = Machine::empty().with("sys/devices/system/cpu/isolated", "0,2-3");
        assert_eq!(isolated.read().is_cpu_isolated, Some(true));
        assert_eq!(
            Machine::empty().with("sys/hypervisor/type", "xen").read().is_virtualised,
            Some(true)
        );
    }

    #[test]
    fn reads_this_machine() {
        let conditions = Conditions::read(Path::new("/"), 0);
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("release");
        assert_eq!(conditions.kernel_release.as_deref(), Some(release.trim()));
        assert!(conditions.cpus_online > Some(0));
        let json = serde_json::to_value(&conditions).expect("JSON");
        assert_eq!(json["kernel_release"], release.trim());
    }

    /// Checks the warnings of an unchanging machine that differs from the quiet one in one file.
    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let conditions = Machine::quiet().with(path, text).read();
        assert_told(&warnings(&conditions, &conditions, None, &Observed::default()), expected);
    }

    /// Checks the warnings, each given as its code and a part of its text.
    #[track_caller]
    fn assert_told(found: &[Warning], expected: &[&str]) {
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (warning, expected) in found.iter().zip(expected) {
            let (code, part) = expected.split_once(": ").unwrap_or((expected, ""));
            assert_eq!(warning.code, code);
            assert!(warning.to_string().contains(part), "{warning}");
        }
    }

    #[test]
    fn a_quiet_machine_deserves_no_warning() {
        check("unrelated", "", &[]);
        let nothing = Machine::empty().read();
        let load = Load { tick_ms: 10, ..Load::default() };
        assert_eq!(warnings(&nothing, &nothing, Some(&load), &Observed::default()), []);
    }

    #[test]
    fn warns_of_settings() {
        check("proc/sys/kernel/bpf_stats_enabled", "1", &["statistics-on"]);
        check("proc/sys/net/core/bpf_jit_enable", "0", &["jit-off"]);
        check("proc/sys/net/core/bpf_jit_enable", "2", &[]);
        check("proc/sys/net/core/bpf_jit_harden", "1", &[]);
        check("proc/sys/net/core/bpf_jit_harden", "2", &["jit-hardened"]);
        let source = "sys/devices/system/clocksource/clocksource0/current_clocksource";
        check(source, "arch_sys_counter", &[]);
        check(source, "hpet\n", &["slow-clock: hpet"]);
        let path = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
        check(path, "powersave", &["governor: powersave"]);
        // Not the measuring CPU.
        check("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave", &[]);
    }

    #[test]
    fn warns_of_what_changed() {
        #[track_caller]
        fn check(path: &str, before: &str, after: &str, expected: &[&str]) {
            let before = Machine::quiet().with(path, before).read();
            let after = Machine::quiet().with(path, after).read();
            assert_told(&warnings(&before, &after, None, &Observed::default()), expected);
        }
        let path = "proc/sys/kernel/bpf_stats_enabled";
        check(path, "0", "1", &["statistics-changed: turned on"]);
        check(path, "1", "0", &["statistics-changed: turned off"]);
        let path = "proc/sys/net/core/bpf_jit_enable";
        check(path, "0", "1", &["jit-off", "changed: net.core.bpf_jit_enable changed from 0 to 1"]);
        let path = "proc/sys/net/core/bpf_jit_harden";
        check(path, "0", "1", &["changed: net.core.bpf_jit_harden changed from 0 to 1"]);
        let cpus = "changed: the number of CPUs changed from 4 to 3";
        check("sys/devices/system/cpu/online", "0-3", "0-2", &[cpus]);
        let path = "sys/devices/system/clocksource/clocksource0/current_clocksource";
        check(path, "hpet", "tsc", &["changed: the clock source changed from hpet to tsc"]);
        let path = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
        let governor = "changed: the frequency governor changed from schedutil to performance";
        check(path, "schedutil", "performance", &[governor]);
        let path = "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq";
        check(path, "2000000", "1900000", &[]);
        let slower = "frequency-changed: at 2000 MHz in the beginning and at 1800 MHz";
        check(path, "2000000", "1800000", &[slower]);
        // Other load varies all the time.
        check("proc/loadavg", "0.1 0 0", "9.0 0 0", &[]);
    }

    #[test]
    fn warns_of_load() {
        #[track_caller]
        fn check(measured: Shares, sibling_cpus: Shares, expected: &[&str]) {
            let machine = Machine::quiet().read();
            let measured_cpu = Shares { total_ms: 10_000, ..measured };
            let load =
                Load { measured_cpu, sibling_cpus, all_cpus: Shares::default(), tick_ms: 10 };
            let found = warnings(&machine, &machine, Some(&load), &Observed::default());
            assert_told(&found, expected);
        }
        let none = Shares::default();
        check(Shares { steal_ms: 100, ..none }, none, &[]);
        check(Shares { steal_ms: 110, ..none }, none, &["steal: 1.1 %"]);
        check(Shares { others_ms: 200, ..none }, none, &[]);
        check(Shares { others_ms: 2500, ..none }, none, &["other-load: 25.0 %"]);
        let interrupts = Shares { irq_ms: 200, softirq_ms: 100, ..none };
        check(interrupts, none, &["interrupts: 3.0 %"]);
        // User and system time of the measurement itself is not load.
        check(Shares { user_ms: 5000, system_ms: 5000, ..none }, none, &[]);
        let siblings = |others_ms| Shares { others_ms, total_ms: 1000, ..none };
        check(none, siblings(100), &[]);
        check(none, siblings(500), &["shared-core: for 50 %"]);
    }

    /// In a short period one tick is a large share, and may be noise.
    #[test]
    fn two_ticks_are_no_load() {
        let machine = Machine::quiet().read();
        let found = |steal_ms| {
            let measured_cpu = Shares { steal_ms, total_ms: 100, ..Shares::default() };
            let load = Load { measured_cpu, tick_ms: 10, ..Load::default() };
            warnings(&machine, &machine, Some(&load), &Observed::default()).len()
        };
        assert_eq!((found(20), found(30)), (0, 1));
    }

    #[test]
    fn warns_of_what_the_measurement_noticed() {
        #[track_caller]
        fn check(observed: Observed, expected: &[&str]) {
            let machine = Machine::quiet().read();
            assert_told(&warnings(&machine, &machine, None, &observed), expected);
        }
        let observed =
            Observed { calls: 100, samples: 60, samples_wanted: 60, ..Observed::default() };
        check(observed, &[]);
        check(Observed { retries: 3, ..observed }, &["retries: 3 of 100 calls"]);
        let few = "few-samples: only 59 samples were taken; a reliable interval needs 60";
        check(Observed { samples: 59, ..observed }, &[few]);
        check(Observed { were_runs_counted: true, ..observed }, &["statistics-held"]);
        // The enabled switch is the reason.
        let on = Machine::quiet().with("proc/sys/kernel/bpf_stats_enabled", "1").read();
        let counted = Observed { were_runs_counted: true, ..observed };
        assert_told(&warnings(&on, &on, None, &counted), &["statistics-on"]);
    }

    #[test]
    fn other_measurements_on_the_same_cpu() {
        let check = |name: &str, allowed: &str, expected: &[u32]| {
            let status = format!("Name:\twingbeat\nCpus_allowed_list:\t{allowed}\n");
            let machine = Machine::quiet()
                .with("proc/4294967295/comm", name)
                .with("proc/4294967295/task/77/status", &status);
            assert_eq!(machine.read().rivals, expected, "{name} {allowed}");
        };
        check("wingbeat\n", "0", &[u32::MAX]);
        check("wingbeat\n", "0-3", &[]);
        check("wingbeat\n", "1", &[]);
        check("cargo\n", "0", &[]);
        let busy = Conditions { rivals: vec![7], ..Machine::quiet().read() };
        let observed = Observed { samples: 60, samples_wanted: 60, ..Observed::default() };
        let found = warnings(&busy, &Machine::quiet().read(), None, &observed);
        assert_told(&found, &["rivals: on CPU 0 too (process 7)"]);
    }
}
