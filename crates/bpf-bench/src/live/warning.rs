//! Warnings about the reliability of live figures.

use std::fmt;

use wingbeat_bpf_loader::{
    Capability,
    fd_holders::{Owner, Owners},
    loader::CounterEvent,
    rights::how_to_get,
};
use wingbeat_text::{duration, grouped, plural, printable};

use super::{
    Untimed,
    report::{LiveOutcome, LiveReport, ProgramReport},
};
use crate::Warning;

/// Number of hardware counters that are tried.
const HARDWARE_EVENTS: usize = CounterEvent::HARDWARE.len();

/// Means of fewer runs cause a warning.
const RUNS_FEW: u64 = 100;

/// Warnings about owners: hidden processes matter if a program has no known owner.
pub(super) fn about_owners(owners: &Owners, programs: &[ProgramReport]) -> Option<Warning> {
    let processes = owners.unreadable_processes;
    let is_any_orphaned = programs.iter().any(|program| program.owners.is_empty());
    (processes > 0 && is_any_orphaned).then(|| owners_hidden(processes))
}

/// Warnings about the runs of a program.
pub(super) fn about_runs(program: &ProgramReport) -> Vec<Warning> {
    let misses = program.recursion_misses.filter(|&misses| misses > 0);
    let runs = program.runs.filter(|runs| (1..RUNS_FEW).contains(runs));
    let left_out = misses.map(|misses| recursion(&program.label(), misses));
    left_out.into_iter().chain(runs.map(|runs| few_runs(&program.label(), runs))).collect()
}

/// Warnings about the single runs of a program.
pub(super) fn about_single_runs(report: &ProgramReport) -> Vec<Warning> {
    let Some(single) = &report.single_runs else { return Vec::new() };
    let mut warnings = Vec::new();
    if single.untimed.lost() > 0 {
        warnings.push(runs_untimed(&report.label(), single.runs, single.untimed));
    }
    if single.runs_beyond_bins > 0 {
        warnings.push(beyond_bins(&report.label(), single.runs_beyond_bins));
    }
    warnings
}

/// Statistics were already enabled: by `kernel.bpf_stats_enabled`, or by processes.
pub(super) fn statistics_were_on(by_sysctl: bool, kept_on_by: &[Owner]) -> Warning {
    let sysctl = by_sysctl.then(|| "kernel.bpf_stats_enabled=1".to_owned());
    let process = |owner: &Owner| format!("process {} ({})", owner.pid, printable(&owner.name));
    let by: Vec<String> = sysctl.into_iter().chain(kept_on_by.iter().map(process)).collect();
    let by = if by.is_empty() { "another process".to_owned() } else { by.join(" and ") };
    Warning::new(
        "statistics-were-on",
        format!("run-time statistics were on already, by {by}"),
        "the figures are right, but every program is some tens of nanoseconds slower all the time, and \
         stays so afterwards",
        match by_sysctl {
            true => "switch them off with `sysctl kernel.bpf_stats_enabled=0`",
            false => "end that process if it is not needed",
        },
    )
}

/// The descriptors of some processes are not accessible.
fn owners_hidden(processes: u32) -> Warning {
    let processes = plural(processes, "process");
    Warning::new(
        "owners-hidden",
        format!("the descriptors of {processes} cannot be seen"),
        "programs that only they hold seem to have no owner",
        format!("CAP_SYS_PTRACE shows most: {}", how_to_get(&[Capability::SysPtrace])),
    )
}

/// The kernel skipped runs.
fn recursion(program: &str, misses: u64) -> Warning {
    Warning::new(
        "recursion",
        format!(
            "{program} was left out {misses} times because it, or a program of its kind, was running \
             already on that CPU"
        ),
        "its runs are fewer than its events",
        "check what it does that triggers itself",
    )
}

/// The mean is based on few runs.
pub(super) fn few_runs(program: &str, runs: u64) -> Warning {
    Warning::new(
        "few-runs",
        format!("{program} ran {runs} times only"),
        "its mean is mostly that of cold caches",
        "measure for longer, or cause more of its events",
    )
}

/// The baseline could not be measured.
pub(super) fn no_baseline(reason: &str) -> Warning {
    Warning::new(
        "no-baseline",
        format!("an empty program cannot be run for comparison ({reason})"),
        "the time of the statistics' own clock reads, some tens of ns per run, is in the figures",
        "do not take the figures of short programs as their own cost",
    )
}

/// Single runs of a program could not be timed.
pub(super) fn not_traced(program: &str, reason: &str) -> Warning {
    Warning::new(
        "not-traced",
        format!("{program} cannot be traced ({reason})"),
        "its single runs are not timed",
        "leave out --distribution and --counters for its mean",
    )
}

/// Runs are missing in the distribution.
fn runs_untimed(program: &str, timed: u64, untimed: Untimed) -> Warning {
    Warning::new(
        "runs-untimed",
        format!(
            "of {program} {} runs are not among the {} that were timed, {} because a tracer was running \
             already on that CPU, {} because too many runs were under way, or ended without an exit",
            grouped(untimed.lost()),
            grouped(timed),
            grouped(untimed.recursion),
            grouped(untimed.displaced),
        ),
        "interrupted long runs are under-represented in the percentiles",
        "trust the mean more than high percentiles",
    )
}

/// Runs exceeded the range of the bins.
fn beyond_bins(program: &str, runs: u64) -> Warning {
    let runs = plural(runs, "run");
    Warning::new(
        "beyond-bins",
        format!("{runs} of {program} took 4.29 s or more, where percentiles end"),
        "percentiles that would be among them are not shown",
        "use mean and max, which are exact anyway",
    )
}

/// A program takes part in tail calls, as caller or target.
pub(super) fn tail_calls(program: &str, has_table: bool, is_in_table: bool) -> Option<Warning> {
    let into = has_table.then_some("what it jumps to is in the time of its runs");
    let from = is_in_table.then_some("its runs after a jump from another program are not seen");
    let effect: Vec<_> = into.into_iter().chain(from).collect();
    (!effect.is_empty()).then(|| {
        Warning::new(
            "tail-calls",
            format!("{program} takes part in tail calls"),
            effect.join(", and "),
            match is_in_table {
                true => "measure the program that jumps",
                false => "measure the programs that it jumps to as well",
            },
        )
    })
}

/// Some counters are unavailable; `reason` is the kernel's error for the first.
pub(super) fn no_counters(events: &[&'static str], reason: &str) -> Warning {
    let is_all = events.len() == HARDWARE_EVENTS;
    Warning::new(
        "no-counters",
        format!("no {} here ({reason})", events.join(", ")),
        match is_all {
            true => {
                "this machine has no usable hardware counters, as is common for virtual machines; \
                 the kernel's own events are counted instead"
            }
            false => "the other counters are read",
        },
        "measure on a machine with hardware counters",
    )
}

// Measured programs that never ran: an error, because 0.0 ns is not a result.

/// A program that never ran, with advice.
#[derive(Debug, Clone, PartialEq)]
pub struct NeverRan {
    program: ProgramReport,
    duration_ns: u64,
}

impl LiveReport {
    /// Selected programs that never ran. With `any_suffices`, if none was selected explicitly:
    /// either all of them or none.
    pub fn never_ran(&self, any_suffices: bool) -> Vec<NeverRan> {
        let ran = |program: &&ProgramReport| program.outcome == LiveOutcome::Ran;
        if any_suffices && self.programs.iter().any(|program| ran(&program)) {
            return Vec::new();
        }
        let idle = self.programs.iter().filter(|program| !ran(program));
        let never_ran = |program: &ProgramReport| NeverRan {
            program: program.clone(),
            duration_ns: self.duration_ns,
        };
        idle.map(never_ran).collect()
    }
}

impl fmt::Display for NeverRan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = &self.program;
        write!(f, "{} never ran in {}: ", program.label(), duration(self.duration_ns))?;
        match program.attached.as_slice() {
            [] => f.write_str(
                "is it attached? No link attaches it, and no interface of this network namespace has it as XDP or as a filter of tc; `bpftool net` in other namespaces, `bpftool perf`, `bpftool cgroup tree` and `bpftool struct_ops` list what wingbeat does not look at",
            )?,
            links => write!(f, "it is attached ({}), but nothing happened there", links.join(", "))?,
        }
        write!(f, "; {}", cause(&program.r#type))
    }
}

/// How to trigger a program of a type.
fn cause(r#type: &str) -> &'static str {
    match r#type {
        "xdp" => {
            "send it traffic: it sees what arrives at its interface, not what leaves it. If it is reached by tail calls only, its runs and time are in the figures of its caller"
        }
        "sched_cls" | "sched_act" => {
            "send traffic through its interface, in the direction that it is attached to. If it is reached by tail calls only, its runs and time are in the figures of its caller"
        }
        "socket_filter" | "sk_skb" | "sk_msg" | "sk_reuseport" | "sk_lookup" | "sock_ops" => {
            "send traffic to its sockets"
        }
        "syscall" => "programs of this type run only when a process requests it",
        "struct_ops" => {
            "register its structure (`bpftool struct_ops register`) and select it, for example \
             with `sysctl net.ipv4.tcp_congestion_control` and new connections"
        }
        "ext" => "trigger the function that it replaces",
        name if name.starts_with("cgroup") => {
            "run what it watches inside the cgroup that it is attached to"
        }
        _ => {
            "trigger the event that it is attached to. If it is reached by tail calls only, its \
             runs and time are in the figures of its caller"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{
        SingleRuns,
        format::tests::{program, report, single_runs},
    };

    #[test]
    fn what_warnings_say() {
        let check = |warning: &Warning, code: &str, parts: &[&str]| {
            assert_eq!(warning.code, code);
            let text = warning.to_string();
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        };
        let statistics = |by_sysctl, pids: &[u32], expected: &[&str]| {
            let owner = |&pid| Owner { pid, name: "top\u{1b}".to_owned() };
            let kept_on_by: Vec<_> = pids.iter().map(owner).collect();
            check(&statistics_were_on(by_sysctl, &kept_on_by), "statistics-were-on", expected);
        };
        let by_sysctl = "by kernel.bpf_stats_enabled=1";
        statistics(true, &[], &[by_sysctl, ":", "sysctl kernel.bpf_stats_enabled=0"]);
        statistics(false, &[7, 9], &["by process 7 (top?) and process 9 (top?):"]);
        statistics(true, &[7], &["by kernel.bpf_stats_enabled=1 and process 7 (top?):"]);
        statistics(false, &[], &["by another process:"]);
        let untimed = Untimed { recursion: 1_200, displaced: 3, unmatched: 9, unfinished: 9 };
        check(
            &runs_untimed("p (id 7)", 50_000, untimed),
            "runs-untimed",
            &["of p (id 7) 1,203 runs are not among the 50,000", "1,200 because", "3 because"],
        );
        let jumps = |has_table, is_in_table, expected: &[&str]| {
            let warning = tail_calls("p", has_table, is_in_table).expect("a warning");
            check(&warning, "tail-calls", expected);
        };
        let (into, from) = ("what it jumps to is in the time", "its runs after a jump");
        jumps(true, false, &[into]);
        jumps(false, true, &[from]);
        jumps(true, true, &[into, "and its runs", from]);
        assert_eq!(tail_calls("p", false, false), None);
        check(&beyond_bins("p", 1), "beyond-bins", &["1 run of p took 4.29 s or more"]);
        check(&beyond_bins("p", 2), "beyond-bins", &["2 runs of "]);
        let all = CounterEvent::HARDWARE.map(CounterEvent::name);
        let names = "cycles, instructions, cache-misses";
        check(&no_counters(&all, "gone"), "no-counters", &[names, "the kernel's own"]);
        let one = &["no cycles here (gone)", "the other counters"];
        check(&no_counters(&["cycles"], "gone"), "no-counters", one);
    }

    #[test]
    fn only_what_is_missing_is_told() {
        let check = |untimed: Untimed, runs_beyond_bins, expected: &[&str]| {
            let mut report = program(7, "p", 10, 1_000);
            report.single_runs =
                Some(SingleRuns { untimed, runs_beyond_bins, ..single_runs(10, 100.0) });
            let codes: Vec<_> = about_single_runs(&report).iter().map(|it| it.code).collect();
            assert_eq!(codes, expected, "{untimed:?}");
        };
        let none = Untimed::default();
        check(none, 0, &[]);
        // This is normal at both ends of the measured time.
        check(Untimed { unmatched: 1, unfinished: 2, ..none }, 0, &[]);
        check(Untimed { recursion: 1, ..none }, 0, &["runs-untimed"]);
        check(Untimed { displaced: 1, ..none }, 3, &["runs-untimed", "beyond-bins"]);
    }

    #[test]
    fn what_has_to_have_run() {
        let check = |runs: &[u64], any_suffices, expected: usize| {
            let programs =
                runs.iter().zip(1..).map(|(&runs, id)| program(id, "p", runs, 10 * runs));
            let found = report(programs.collect()).never_ran(any_suffices);
            assert_eq!(found.len(), expected, "{runs:?}");
        };
        check(&[1, 2], false, 0);
        check(&[1, 0], false, 1);
        check(&[1, 0], true, 0);
        check(&[0, 0], true, 2);
        check(&[0, 0], false, 2);
        check(&[], true, 0);
    }

    #[test]
    fn sentences() {
        let mut idle = program(7, "fun_xdp_v3", 0, 0);
        let text =
            |program: &ProgramReport| report(vec![program.clone()]).never_ran(false)[0].to_string();
        assert!(text(&idle).starts_with(
            "fun_xdp_v3 (id 7) never ran in 2.00 s: is it attached? No link attaches it, and no interface"
        ));
        idle.attached = vec!["xdp on veth0".to_owned()];
        idle.name.clear();
        assert!(text(&idle).starts_with(
            "program 7 never ran in 2.00 s: it is attached (xdp on veth0), but nothing happened there; send it traffic: "
        ));
    }
}
