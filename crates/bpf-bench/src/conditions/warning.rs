//! Warnings about the machine on which the figures were measured.

use super::{Conditions, Load, Shares};
use crate::Warning;

/// Minimum shares of the period for a warning, in percent.
const STEAL_MIN_PERCENT: f64 = 1.0;
const OTHERS_MIN_PERCENT: f64 = 2.0;
const INTERRUPTS_MIN_PERCENT: f64 = 2.0;
const SIBLINGS_MIN_PERCENT: f64 = 10.0;

/// Times of fewer ticks are rounding errors.
const TICKS_MIN: u64 = 3;

/// Relative frequency difference between two readings above which it is not jitter, in percent of the higher one.
const FREQUENCY_MIN_PERCENT: u64 = 5;

/// Clock sources that user space and the kernel read with one instruction, on x86 and other architectures.
const QUICK_CLOCKS: [&str; 5] = ["tsc", "arch_sys_counter", "riscv_clocksource", "timebase", "tod"];

/// Level of `bpf_jit_harden` that applies to programs loaded with CAP_BPF
/// (`bpf_jit_blinding_enabled` in include/linux/filter.h, Linux 5.8 and later).
const HARDENED_FOR_ALL: u32 = 2;

/// Observations of the measurement itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Observed {
    /// Calls of `BPF_PROG_TEST_RUN`.
    pub calls: u64,
    /// Calls that were interrupted by a signal and repeated.
    pub retries: u64,
    /// Minimum sample count over all programs.
    pub samples: u64,
    /// Samples needed for a reliable interval.
    pub samples_wanted: u64,
    /// Whether the kernel counted runs of a measured program (`run_cnt` of its info increased)
    /// unintentionally. It counts only while statistics are enabled, by the switch or through a
    /// descriptor.
    pub were_runs_counted: bool,
}

/// Warnings about a measurement, most severe first. `load` is `None` if the system does not report it.
pub fn warnings(
    before: &Conditions,
    after: &Conditions,
    load: Option<&Load>,
    observed: &Observed,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    warnings.extend(statistics(before, after, observed));
    warnings.extend(settings(before, after));
    warnings.extend(rivals(if before.rivals.is_empty() { after } else { before }));
    warnings.extend(load.into_iter().flat_map(loads));
    warnings.extend(clocks(before, after));
    warnings.extend(few_samples(observed));
    warnings.extend(retries(observed));
    warnings
}

fn statistics(before: &Conditions, after: &Conditions, observed: &Observed) -> Option<Warning> {
    let longer = "each run takes longer, by about 45 ns on a server of 2.5 GHz, which is several times the \
                  cost of a short program";
    match (before.is_bpf_stats_enabled, after.is_bpf_stats_enabled) {
        (Some(true), Some(true)) => Some(Warning::new(
            "statistics-on",
            "run-time statistics are on (sysctl kernel.bpf_stats_enabled = 1)",
            longer,
            "turn them off with `sysctl kernel.bpf_stats_enabled=0`",
        )),
        (Some(first), Some(is_on)) if first != is_on => Some(Warning::new(
            "statistics-changed",
            format!(
                "run-time statistics were turned {} during the measurement \
                 (sysctl kernel.bpf_stats_enabled)",
                if is_on { "on" } else { "off" }
            ),
            "some samples are longer, by about 45 ns per run on a server of 2.5 GHz",
            "measure again while no other tool for eBPF statistics runs",
        )),
        _ if observed.were_runs_counted => Some(Warning::new(
            "statistics-held",
            "another program keeps run-time statistics on (the kernel counted runs although sysctl \
             kernel.bpf_stats_enabled is 0)",
            longer,
            "end other tools that show run times of eBPF programs (bpftop, wingbeat top)",
        )),
        _ => None,
    }
}

fn settings(before: &Conditions, after: &Conditions) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if before.bpf_jit_enable == Some(0) || after.bpf_jit_enable == Some(0) {
        warnings.push(Warning::new(
            "jit-off",
            "the JIT compiler is off (sysctl net.core.bpf_jit_enable = 0)",
            "programs are interpreted, which takes many times as long as it should",
            "turn it on with `sysctl net.core.bpf_jit_enable=1`",
        ));
    }
    let is_hardened = |conditions: &Conditions| {
        conditions.bpf_jit_harden.is_some_and(|level| level >= HARDENED_FOR_ALL)
    };
    if is_hardened(before) || is_hardened(after) {
        warnings.push(Warning::new(
            "jit-hardened",
            "the JIT compiler blinds constants (sysctl net.core.bpf_jit_harden = 2)",
            "programs are larger and slower than on machines without hardening",
            "set `sysctl net.core.bpf_jit_harden=0`, unless the machines of production are hardened too",
        ));
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
            warnings.push(Warning::new(
                "changed",
                format!("{setting} changed from {before} to {after} during the measurement"),
                "samples from before and after are not comparable",
                "find out what changed it, and measure again",
            ));
        }
    }
    warnings
}

fn rivals(conditions: &Conditions) -> Option<Warning> {
    let processes: Vec<_> = conditions.rivals.iter().map(ToString::to_string).collect();
    let (cpu, list) = (conditions.cpu_measured, processes.join(", "));
    (!processes.is_empty()).then(|| {
        Warning::new(
            "rivals",
            format!("another wingbeat measures on CPU {cpu} too (process {list})"),
            "the two compete for the CPU: each gets half of the samples, and finds caches that the other \
             has filled",
            "wait for one to end, or use another CPU for each with --cpu",
        )
    })
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
        (
            "steal",
            percent(measured.steal_ms, measured, STEAL_MIN_PERCENT),
            "the hypervisor gave {} % of the measuring CPU's time to others",
            "samples that were interrupted are longer, above all high percentiles and maxima; caches were \
             emptied",
            "measure on a machine whose CPUs are not shared, or gate on exact counts only",
        ),
        (
            "other-load",
            percent(measured.others_ms, measured, OTHERS_MIN_PERCENT),
            "other processes took {} % of the measuring CPU's time",
            "caches and branch predictors were filled by others in between; times spread more, towards \
             longer ones",
            "stop other work, or measure on another CPU",
        ),
        (
            "interrupts",
            percent(interrupts_ms, measured, INTERRUPTS_MIN_PERCENT),
            "interrupts took {} % of the measuring CPU's time",
            "their time is contained in the samples that they interrupted",
            "stop network traffic and the like, or measure on a CPU that serves fewer interrupts \
             (/proc/interrupts)",
        ),
        (
            "shared-core",
            percent(siblings.others_ms, siblings, SIBLINGS_MIN_PERCENT),
            "the other hardware thread of the measuring core was busy for {} % of the time",
            "both threads share caches and execution units, so programs took longer than alone",
            "stop other work, or measure on another CPU",
        ),
    ];
    let warning = |(code, percent, cause, effect, next): (_, Option<f64>, &str, _, _)| {
        let decimals = if code == "shared-core" { 0 } else { 1 };
        let cause = cause.replace("{}", &format!("{:.decimals$}", percent?));
        Some(Warning::new(code, cause, effect, next))
    };
    found.into_iter().filter_map(warning).collect()
}

fn clocks(before: &Conditions, after: &Conditions) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let (Some(before_khz), Some(after_khz)) = (before.frequency_khz, after.frequency_khz)
        && before_khz.abs_diff(after_khz).saturating_mul(100)
            > before_khz.max(after_khz).saturating_mul(FREQUENCY_MIN_PERCENT)
    {
        let [before, after] = [before_khz, after_khz].map(|khz| khz / 1000);
        warnings.push(Warning::new(
            "frequency-changed",
            format!("the CPU ran at {before} MHz in the beginning and at {after} MHz in the end"),
            "the same program takes another time at another frequency; means mix both",
            "set the governor to performance and turn turbo off, then measure again",
        ));
    }
    if let Some(governor) = after.governor.as_ref().filter(|it| *it != "performance") {
        warnings.push(Warning::new(
            "governor",
            format!("the CPU's frequency governor is {governor}"),
            "the frequency follows the load, so the same program takes longer after a pause",
            "set it with `cpupower frequency-set -g performance`",
        ));
    }
    if let Some(source) = after.clock_source.as_deref().filter(|it| !QUICK_CLOCKS.contains(it)) {
        warnings.push(Warning::new(
            "slow-clock",
            format!("the kernel's clock source is {source}"),
            "each reading of the clock takes longer, up to a microsecond: percentiles per invocation and \
             programs that read the clock themselves suffer",
            "choose tsc in /sys/devices/system/clocksource/clocksource0/current_clocksource if it is \
             available, else trust means more than percentiles",
        ));
    }
    warnings
}

fn few_samples(observed: &Observed) -> Option<Warning> {
    let Observed { samples, samples_wanted: wanted, .. } = *observed;
    let taken = match samples {
        0 => "no sample was taken".to_owned(),
        1 => "only 1 sample was taken".to_owned(),
        _ => format!("only {samples} samples were taken"),
    };
    (samples < wanted).then(|| {
        Warning::new(
            "few-samples",
            format!("{taken}; a reliable interval needs {wanted}"),
            "intervals are wide, and high percentiles are guesses",
            "increase --time, or measure fewer programs and inputs at once",
        )
    })
}

fn retries(observed: &Observed) -> Option<Warning> {
    let Observed { calls, retries, .. } = *observed;
    (retries > 0).then(|| {
        Warning::new(
            "retries",
            format!("signals interrupted {retries} of {calls} calls, which were repeated"),
            "what an interrupted call had measured is lost, and what its program did to maps is not undone",
            "stop what sends signals, such as profilers and timers",
        )
    })
}
