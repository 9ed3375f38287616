//! What a reader of figures should know about the machine that they come from. Each warning says what
//! was found, what that does to the figures, and what to do next.

use std::fmt;

use serde::Serialize;

use super::{Conditions, Load, Shares};

/// Shares of the period above which something is worth a word, percent.
const STEAL_MIN_PERCENT: f64 = 1.0;
const OTHERS_MIN_PERCENT: f64 = 2.0;
const INTERRUPTS_MIN_PERCENT: f64 = 2.0;
const SIBLINGS_MIN_PERCENT: f64 = 10.0;

/// Times below so many ticks are rounding.
const TICKS_MIN: u64 = 3;

/// Differences of two readings of a frequency above this share of the higher one are no jitter, percent.
const FREQUENCY_MIN_PERCENT: u64 = 5;

/// Sources of time that user and kernel read in one instruction, on x86 and elsewhere.
const QUICK_CLOCKS: [&str; 5] = ["tsc", "arch_sys_counter", "riscv_clocksource", "timebase", "tod"];

/// Level of `bpf_jit_harden` that reaches programs of those who have CAP_BPF
/// (`bpf_jit_blinding_enabled` in include/linux/filter.h, Linux 5.8 and later).
const HARDENED_FOR_ALL: u32 = 2;

/// What the measurement itself noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Observed {
    /// Calls of `BPF_PROG_TEST_RUN`.
    pub calls: u64,
    /// Those of them that a signal interrupted, and that were repeated.
    pub retries: u64,
    /// Samples of the program with the fewest.
    pub samples: u64,
    /// Samples that a sound interval needs.
    pub samples_wanted: u64,
    /// The kernel counted runs of a measured program (`run_cnt` of its info grew) that were not meant
    /// to be counted. It does so only while statistics are on, by the switch or by a descriptor.
    pub were_runs_counted: bool,
}

/// Something to know about the machine, or about what happened on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// Run-time statistics were on all the time.
    StatisticsOn,
    /// Somebody turned the switch of the statistics.
    StatisticsChanged {
        /// Were they on in the end?
        is_on: bool,
    },
    /// Somebody held statistics on by a descriptor, which the switch does not show.
    StatisticsHeld,
    /// Programs were interpreted.
    JitOff,
    /// Constants of programs were blinded.
    JitHardened,
    /// A setting is not what it was in the beginning.
    Changed {
        setting: &'static str,
        before: String,
        after: String,
    },
    /// Reading the clock is slow.
    SlowClock {
        source: String,
    },
    /// The frequency follows the load.
    Governor {
        governor: String,
    },
    /// The frequency was another one in the end.
    FrequencyChanged {
        before_khz: u64,
        after_khz: u64,
    },
    /// The hypervisor took the CPU away.
    Steal {
        percent: f64,
    },
    /// Other processes ran on the measuring CPU.
    OtherLoad {
        percent: f64,
    },
    /// Another measurement had the same CPU.
    Rivals {
        processes: Vec<u32>,
        cpu: u32,
    },
    /// Interrupts took much time on the measuring CPU.
    Interrupts {
        percent: f64,
    },
    SharedCore {
        /// Of the time of the CPUs on the same core.
        percent: f64,
    },
    /// Signals interrupted calls.
    Retries {
        retries: u64,
        calls: u64,
    },
    FewSamples {
        samples: u64,
        wanted: u64,
    },
}

/// The warnings that a measurement deserves, the gravest first. `load` is `None` where the system does
/// not tell it.
pub fn warnings(
    before: &Conditions,
    after: &Conditions,
    load: Option<&Load>,
    observed: &Observed,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    warnings.extend(statistics(before, after, observed));
    warnings.extend(settings(before, after));
    let rivals = if before.rivals.is_empty() { after } else { before };
    if !rivals.rivals.is_empty() {
        let (processes, cpu) = (rivals.rivals.clone(), rivals.cpu_measured);
        warnings.push(Warning::Rivals { processes, cpu });
    }
    warnings.extend(load.into_iter().flat_map(loads));
    warnings.extend(clocks(before, after));
    let Observed { calls, retries, samples, samples_wanted: wanted, .. } = *observed;
    if samples < wanted {
        warnings.push(Warning::FewSamples { samples, wanted });
    }
    if retries > 0 {
        warnings.push(Warning::Retries { retries, calls });
    }
    warnings
}

fn statistics(before: &Conditions, after: &Conditions, observed: &Observed) -> Option<Warning> {
    match (before.is_bpf_stats_enabled, after.is_bpf_stats_enabled) {
        (Some(true), Some(true)) => Some(Warning::StatisticsOn),
        (Some(first), Some(is_on)) if first != is_on => Some(Warning::StatisticsChanged { is_on }),
        _ => observed.were_runs_counted.then_some(Warning::StatisticsHeld),
    }
}

fn settings(before: &Conditions, after: &Conditions) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if before.bpf_jit_enable == Some(0) || after.bpf_jit_enable == Some(0) {
        warnings.push(Warning::JitOff);
    }
    let is_hardened = |conditions: &Conditions| {
        conditions.bpf_jit_harden.is_some_and(|level| level >= HARDENED_FOR_ALL)
    };
    if is_hardened(before) || is_hardened(after) {
        warnings.push(Warning::JitHardened);
    }
    let number = |number: &Option<u32>| number.map(|number| number.to_string());
    let changed = [
        ("net.core.bpf_jit_enable", number(&before.bpf_jit_enable), number(&after.bpf_jit_enable)),
        ("net.core.bpf_jit_harden", number(&before.bpf_jit_harden), number(&after.bpf_jit_harden)),
        ("the number of CPUs", number(&before.cpus_online), number(&after.cpus_online)),
        ("the clock source", before.clock_source.clone(), after.clock_source.clone()),
        ("the frequency governor", before.governor.clone(), after.governor.clone()),
    ];
    for (setting, before, after) in changed {
        if let (Some(before), Some(after)) = (before, after)
            && before != after
        {
            warnings.push(Warning::Changed { setting, before, after });
        }
    }
    warnings
}

fn loads(load: &Load) -> Vec<Warning> {
    let Load { measured_cpu: measured, sibling_cpus: siblings, .. } = load;
    let percent = |part_ms: u64, of: &Shares, percent_min: f64| {
        let percent = 100.0 * part_ms as f64 / of.total_ms.max(1) as f64;
        let is_more = part_ms >= load.tick_ms.saturating_mul(TICKS_MIN) && percent > percent_min;
        is_more.then_some(percent)
    };
    let interrupts_ms = measured.irq_ms.saturating_add(measured.softirq_ms);
    let found = [
        percent(measured.steal_ms, measured, STEAL_MIN_PERCENT)
            .map(|percent| Warning::Steal { percent }),
        percent(measured.others_ms, measured, OTHERS_MIN_PERCENT)
            .map(|percent| Warning::OtherLoad { percent }),
        percent(interrupts_ms, measured, INTERRUPTS_MIN_PERCENT)
            .map(|percent| Warning::Interrupts { percent }),
        percent(siblings.others_ms, siblings, SIBLINGS_MIN_PERCENT)
            .map(|percent| Warning::SharedCore { percent }),
    ];
    found.into_iter().flatten().collect()
}

fn clocks(before: &Conditions, after: &Conditions) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let (Some(before_khz), Some(after_khz)) = (before.frequency_khz, after.frequency_khz)
        && before_khz.abs_diff(after_khz).saturating_mul(100)
            > before_khz.max(after_khz).saturating_mul(FREQUENCY_MIN_PERCENT)
    {
        warnings.push(Warning::FrequencyChanged { before_khz, after_khz });
    }
    if let Some(governor) = after.governor.clone().filter(|governor| governor != "performance") {
        warnings.push(Warning::Governor { governor });
    }
    let slow = after.clock_source.clone().filter(|source| !QUICK_CLOCKS.contains(&source.as_str()));
    if let Some(source) = slow {
        warnings.push(Warning::SlowClock { source });
    }
    warnings
}

impl Warning {
    /// What was found.
    pub fn cause(&self) -> String {
        match self {
            Self::StatisticsOn => {
                "run-time statistics are on (sysctl kernel.bpf_stats_enabled = 1)".to_owned()
            }
            Self::StatisticsChanged { is_on } => format!(
                "run-time statistics were turned {} during the measurement \
                 (sysctl kernel.bpf_stats_enabled)",
                if *is_on { "on" } else { "off" }
            ),
            Self::StatisticsHeld => {
                "another program keeps run-time statistics on (the kernel counted runs although \
                 sysctl kernel.bpf_stats_enabled is 0)"
                    .to_owned()
            }
            Self::JitOff => {
                "the JIT compiler is off (sysctl net.core.bpf_jit_enable = 0)".to_owned()
            }
            Self::JitHardened => {
                "the JIT compiler blinds constants (sysctl net.core.bpf_jit_harden = 2)".to_owned()
            }
            Self::Changed { setting, before, after } => {
                format!("{setting} changed from {before} to {after} during the measurement")
            }
            Self::SlowClock { source } => format!("the kernel's clock source is {source}"),
            Self::Governor { governor } => format!("the CPU's frequency governor is {governor}"),
            Self::FrequencyChanged { before_khz, after_khz } => format!(
                "the CPU ran at {} MHz in the beginning and at {} MHz in the end",
                before_khz / 1000,
                after_khz / 1000
            ),
            Self::Steal { percent } => {
                format!("the hypervisor gave {percent:.1} % of the measuring CPU's time to others")
            }
            Self::OtherLoad { percent } => {
                format!("other processes took {percent:.1} % of the measuring CPU's time")
            }
            Self::Rivals { processes, cpu } => {
                let processes: Vec<_> = processes.iter().map(ToString::to_string).collect();
                format!(
                    "another wingbeat measures on CPU {cpu} too (process {})",
                    processes.join(", ")
                )
            }
            Self::Interrupts { percent } => {
                format!("interrupts took {percent:.1} % of the measuring CPU's time")
            }
            Self::SharedCore { percent } => format!(
                "the other hardware thread of the measuring core was busy for {percent:.0} % of the \
                 time"
            ),
            Self::Retries { retries, calls } => {
                format!("signals interrupted {retries} of {calls} calls, which were repeated")
            }
            Self::FewSamples { samples, wanted } => {
                let taken = match samples {
                    0 => "no sample was taken".to_owned(),
                    1 => "only 1 sample was taken".to_owned(),
                    _ => format!("only {samples} samples were taken"),
                };
                format!("{taken}, {wanted} make a sound interval")
            }
        }
    }

    /// What it does to the figures.
    pub fn effect(&self) -> &'static str {
        match self {
            Self::StatisticsOn | Self::StatisticsHeld => {
                "each run takes longer, by some 45 ns on a server of 2.5 GHz, which is several times \
                 the cost of a short program"
            }
            Self::StatisticsChanged { .. } => {
                "a part of the samples is longer, by some 45 ns per run on a server of 2.5 GHz"
            }
            Self::JitOff => "programs are interpreted, which takes many times as long as it should",
            Self::JitHardened => {
                "programs are larger and slower than on machines without hardening"
            }
            Self::Changed { .. } => "samples from before and after do not belong together",
            Self::SlowClock { .. } => {
                "each reading of the clock takes longer, up to a microsecond: percentiles per \
                 invocation and programs that read the clock themselves suffer"
            }
            Self::Governor { .. } => {
                "the frequency follows the load, so the same program takes longer after a pause"
            }
            Self::FrequencyChanged { .. } => {
                "the same program takes another time at another frequency; means mix both"
            }
            Self::Steal { .. } => {
                "samples that were interrupted are longer, above all high percentiles and maxima; \
                 caches were emptied"
            }
            Self::OtherLoad { .. } => {
                "caches and branch predictors were filled by others in between; times spread more, \
                 towards longer ones"
            }
            Self::Rivals { .. } => {
                "the two compete for the CPU: each gets half of the samples, and finds caches that the \
                 other has filled"
            }
            Self::Interrupts { .. } => {
                "their time is contained in the samples that they interrupted"
            }
            Self::SharedCore { .. } => {
                "both threads share caches and execution units, so programs took longer than alone"
            }
            Self::Retries { .. } => {
                "what an interrupted call had measured is lost, and what its program did to maps is \
                 not undone"
            }
            Self::FewSamples { .. } => "intervals are wide, and high percentiles are guesses",
        }
    }

    /// What to do about it.
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::StatisticsOn => "turn them off with `sysctl kernel.bpf_stats_enabled=0`",
            Self::StatisticsChanged { .. } => {
                "measure again while no other tool for eBPF statistics runs"
            }
            Self::StatisticsHeld => {
                "end other tools that show run times of eBPF programs (bpftop, wingbeat top)"
            }
            Self::JitOff => "turn it on with `sysctl net.core.bpf_jit_enable=1`",
            Self::JitHardened => {
                "set `sysctl net.core.bpf_jit_harden=0`, unless the machines of production are \
                 hardened too"
            }
            Self::Changed { .. } => "find out what changed it, and measure again",
            Self::SlowClock { .. } => {
                "choose tsc in /sys/devices/system/clocksource/clocksource0/current_clocksource if it \
                 is available, else trust means more than percentiles"
            }
            Self::Governor { .. } => "set it with `cpupower frequency-set -g performance`",
            Self::FrequencyChanged { .. } => {
                "set the governor to performance and turn turbo off, then measure again"
            }
            Self::Steal { .. } => {
                "measure on a machine whose CPUs are not shared, or gate on exact counts only"
            }
            Self::OtherLoad { .. } | Self::SharedCore { .. } => {
                "stop other work, or measure on another CPU"
            }
            Self::Rivals { .. } => "let one end first, or give each a CPU of its own with --cpu",
            Self::Interrupts { .. } => {
                "stop network traffic and the like, or measure on a CPU that serves fewer interrupts \
                 (/proc/interrupts)"
            }
            Self::Retries { .. } => "stop what sends signals, such as profilers and timers",
            Self::FewSamples { .. } => "give more time, or fewer programs and inputs at once",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.cause(), self.effect(), self.next_step())
    }
}
