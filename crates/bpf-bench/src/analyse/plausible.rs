//! Cross-checks the figures of a case. Instructions take a minimum time on any machine, and timed
//! runs return what the first run did. A violation means that the figures come from different
//! paths, or a defect.

use wingbeat_text::{decimal, grouped};

use crate::{
    counts::Calls,
    result::{Case, Latency, Method, PacketSource},
};

/// Code of the warning.
pub const FIGURES_DISAGREE: &str = "figures-disagree";

/// Maximum eBPF instructions per nanosecond: eight per cycle at 6.5 GHz. The JIT compiler emits at
/// least one machine instruction for each. No x86-64 core takes in more than eight per cycle (Zen
/// 5, Lion Cove) or has a faster clock.
const INSTRUCTIONS_PER_NS_MAX: f64 = 52.0;

/// Minimum time of a helper call: a call and a return are two taken branches, and no core follows
/// more than two per cycle.
const CALL_NS_MIN: f64 = 0.15;

/// Helpers that the verifier or the JIT compiler inlines on some kernel (`do_misc_fixups` in
/// kernel/bpf/verifier.c, Linux 6.18). Calls of these may take no longer than an instruction.
const INLINED: [&str; 11] = [
    "bpf_get_current_task",
    "bpf_get_current_task_btf",
    "bpf_get_func_arg_cnt",
    "bpf_get_func_ip",
    "bpf_get_smp_processor_id",
    "bpf_jiffies64",
    "bpf_kptr_xchg",
    "bpf_loop",
    "bpf_map_lookup_elem",
    "bpf_map_lookup_percpu_elem",
    "bpf_tail_call",
];

/// Minimum time to execute this on any core.
fn least_ns(instructions: u64, calls: &[Calls]) -> f64 {
    let are_calls = |it: &&Calls| !it.is_kfunc && !INLINED.contains(&&*it.name);
    let calls: u64 = calls.iter().filter(are_calls).map(|it| it.calls).sum();
    let others = instructions.saturating_sub(calls);
    others as f64 / INSTRUCTIONS_PER_NS_MAX + calls as f64 * CALL_NS_MIN
}

/// What contradicts itself in a case, in words. `baseline_ns` is what the kernel reports of an empty program of
/// its type.
pub(super) fn contradictions(case: &Case, baseline_ns: Option<u32>) -> Vec<String> {
    let latency = case.latency.measured();
    let mut found: Vec<_> = too_fast(case, latency).into_iter().collect();
    found.extend(latency.zip(baseline_ns).and_then(|it| slower_by_kernel(case, it)));
    if let Some(own) = &case.own_output
        && let Some((instructions, median_ns)) = own.instructions.zip(own.median_ns)
    {
        let what = format!("{} on its own output", case.name);
        found.extend(faster_than(&what, instructions, &[], median_ns));
    }
    if let Some(later) = case.outcome.later_return_value {
        found.push(format!(
            "{} returned {} in the first run and {later} in the timed runs",
            case.name, case.outcome.return_value
        ));
    }
    found
}

/// How many times as long, and how many nanoseconds longer, the kernel's repetition may take than bursts of the
/// same runs: it overlaps them less, and reports whole nanoseconds.
const BY_KERNEL: (f64, f64) = (4.0, 30.0);

/// The kernel begins each run it repeats with an empty result; calls of a burst share one.
fn slower_by_kernel(case: &Case, (latency, baseline_ns): (&Latency, u32)) -> Option<String> {
    let is_alike = case
        .counts
        .measured()
        .is_some_and(|counts| counts.steady_instructions.is_none() && counts.variation.is_none());
    let how = (latency.method, latency.packet);
    if how != (Method::Bursts, PacketSource::Unchanged) || !is_alike || latency.kernel_ns == 0 {
        return None;
    }
    let net_ns = latency.net_ns?;
    let by_kernel_ns = f64::from(latency.kernel_ns.saturating_sub(baseline_ns));
    is_another_path(net_ns, by_kernel_ns).then(|| {
        format!(
            "{} takes net {} ns in bursts and {} ns when the kernel repeats it",
            case.name,
            decimal(net_ns, 1),
            decimal(by_kernel_ns, 1)
        )
    })
}

fn is_another_path(net_ns: f64, by_kernel_ns: f64) -> bool {
    by_kernel_ns > BY_KERNEL.0 * net_ns + BY_KERNEL.1
}

/// Checks the time of a run including the loop, so that a program whose instructions overlap with
/// those of the loop is not a contradiction.
fn too_fast(case: &Case, latency: Option<&Latency>) -> Option<String> {
    // Times on a program's own output are marked and belong to another path than its counts.
    let latency = latency.filter(|latency| !latency.is_on_own_output())?;
    let counts = case.counts.measured()?;
    // The calls of later runs are unknown.
    let (instructions, calls) = match counts.steady_instructions {
        Some(steady) => (steady, &[][..]),
        None => match &counts.variation {
            Some(found) => (found.lowest, &[][..]),
            None => (counts.instructions, &*counts.calls),
        },
    };
    faster_than(&case.name, instructions, calls, latency.upper_ns)
}

fn faster_than(what: &str, instructions: u64, calls: &[Calls], time_ns: f64) -> Option<String> {
    let least_ns = least_ns(instructions, calls);
    (time_ns < least_ns).then(|| {
        format!(
            "{what} executed {} instructions in {} ns, which take {} ns at least",
            grouped(instructions),
            decimal(time_ns, 1),
            decimal(least_ns, 1)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_and_the_kernel_time_the_same_path() {
        let check = |net_ns, by_kernel_ns, expected| {
            assert_eq!(is_another_path(net_ns, by_kernel_ns), expected, "{net_ns} {by_kernel_ns}");
        };
        // A flow dissector whose keys all calls of a burst shared.
        check(0.2, 68.0, true);
        check(1.0, 20.0, false);
        check(60.0, 200.0, false);
        check(60.0, 280.0, true);
    }

    #[test]
    fn no_core_is_that_fast() {
        let call = |name: &str| Calls { name: name.to_owned(), is_kfunc: false, calls: 100 };
        let check = |instructions, calls: &[Calls], time_ns, expected| {
            let found = faster_than("nat", instructions, calls, time_ns);
            assert_eq!(found.as_deref(), expected, "{instructions} {time_ns}");
        };
        let nat = "nat executed 2,018 instructions in 9.6 ns, which take 38.8 ns at least";
        check(2_018, &[], 9.6, Some(nat));
        check(2_018, &[], 60.0, None);
        // The surrounding loop may hide all of it.
        check(300, &[], 9.0, None);
        let called = "nat executed 101 instructions in 12.0 ns, which take 15.0 ns at least";
        check(101, &[call("bpf_ktime_get_ns")], 12.0, Some(called));
        check(101, &[call("bpf_jiffies64")], 12.0, None);
    }
}
