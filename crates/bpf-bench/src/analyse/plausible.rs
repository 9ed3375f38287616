//! Cross-checks the figures of a case. Instructions take a minimum time on any machine, timed runs
//! return what the first run did, the verifier has processed whatever runs, and quantiles have an
//! order. A violation means that the figures come from different paths, or a defect.
//!
//! Each bound holds for every correct measurement, also on a disturbed machine.

use wingbeat_text::{decimal, grouped};

use crate::{
    counts::Calls,
    result::{Case, Distribution, Latency, Method, PacketSource, RunCounts},
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

/// What contradicts itself in a case, in words. `reached` is the number of its different instructions that the
/// first run executed, `baseline_ns` what the kernel reports of an empty program of its type.
pub(super) fn contradictions(
    case: &Case,
    reached: Option<u64>,
    baseline_ns: Option<u32>,
) -> Vec<String> {
    let latency = case.latency.measured();
    let single = case.distribution.measured();
    let mut found: Vec<_> = too_fast(case, latency).into_iter().collect();
    found.extend(latency.and_then(|it| fall(&case.name, &ordered_times(it))));
    found.extend(single.and_then(|it| fall(&case.name, &ordered_single_runs(it))));
    found.extend(reached.and_then(|reached| {
        let processed = case.verifier.processed_instructions;
        unverified(&case.name, reached, processed, case.size.object_instructions as u64)
    }));
    if let (Some(latency), Some(single)) = (latency, single)
        && let Some(counts) = steady_counts(case, latency)
    {
        let what = format!("{} in single runs", case.name);
        let time_ns = single.mean_ns + BEFORE_CLOCK_NS;
        found.extend(faster_than(&what, counts.instructions, &counts.calls, time_ns));
        if counts.calls.is_empty() {
            found.extend(other_single_runs(&case.name, latency, single, counts.instructions));
        }
    }
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

/// Counts that all runs share, as far as they were looked at. `None` if runs differ, or change their packet.
fn steady_counts<'a>(case: &'a Case, latency: &Latency) -> Option<&'a RunCounts> {
    let counts = case.counts.measured()?;
    let is_steady = counts.steady_instructions.is_none() && counts.variation.is_none();
    let is_alike = latency.packet == PacketSource::Unchanged && case.tail_calls.is_empty();
    (is_steady && is_alike).then_some(counts)
}

/// How long a processor may execute a program before it reads the clock in front of it: it works
/// on a few hundred instructions at once.
const BEFORE_CLOCK_NS: f64 = 20.0;

/// How many times as long, and how many nanoseconds longer, single runs of a program without calls may take than
/// bursts of it, and the reverse: clock rates and neighbours differ by less. The clock does not wait for stores.
const SINGLE_RUNS: (f64, f64) = (16.0, 1_000.0);

/// Instructions that a processor works on at once. Runs of more cannot overlap as a whole.
const OVERLAP_INSTRUCTIONS: u64 = 1_024;

/// The same instructions take similar time alone and in bursts. Helpers and kfuncs may not: it depends on their maps.
fn other_single_runs(
    name: &str,
    latency: &Latency,
    single: &Distribution,
    instructions: u64,
) -> Option<String> {
    let (factor, more_ns) = SINGLE_RUNS;
    let is_longer = |time_ns: f64, other_ns: f64| time_ns > factor * other_ns + more_ns;
    let alone_ns = single.p50_ns - single.clock_ns?;
    let net_ns = latency.net_ns?;
    let is_slower_alone =
        instructions >= OVERLAP_INSTRUCTIONS && is_longer(alone_ns, latency.median_ns);
    // The mean, because half of the runs may take a short path.
    (is_slower_alone || is_longer(net_ns, single.mean_ns)).then(|| {
        format!(
            "{name} takes net {} ns, and in single runs {} ns without the clock",
            decimal(net_ns, 1),
            decimal(alone_ns.max(0.0), 1)
        )
    })
}

/// Times that do not decrease.
fn ordered_times(latency: &Latency) -> Vec<(&'static str, f64)> {
    let mut times = vec![
        ("fastest sample", latency.min_ns),
        ("median", latency.median_ns),
        ("slowest sample", latency.max_ns),
    ];
    // The time to put packets back is estimated for each of them.
    if (latency.method, latency.packet) != (Method::Bursts, PacketSource::Restored) {
        times[0] = ("floor", latency.floor_ns);
    }
    times
}

/// Times of single runs that do not decrease.
fn ordered_single_runs(single: &Distribution) -> [(&'static str, f64); 6] {
    [
        ("shortest single run", single.min_ns as f64),
        ("p50", single.p50_ns),
        ("p90", single.p90_ns),
        ("p99", single.p99_ns),
        ("p99.9", single.p999_ns),
        ("max", single.max_ns as f64),
    ]
}

/// The first of these figures that is greater than the next, except by rounding.
fn fall(name: &str, figures: &[(&str, f64)]) -> Option<String> {
    let is_greater = |pair: &&[(&str, f64)]| pair[0].1 > pair[1].1 + 1e-9 * pair[1].1.abs();
    let [(first, first_ns), (second, second_ns)] = figures.windows(2).find(is_greater)? else {
        return None;
    };
    let [first_ns, second_ns] = [first_ns, second_ns].map(|&ns| decimal(ns, 1));
    Some(format!("{name}: the {first} is {first_ns} ns, and the {second} only {second_ns} ns"))
}

/// The verifier processes each instruction at least once before it can run.
fn unverified(name: &str, reached: u64, processed: Option<u64>, in_object: u64) -> Option<String> {
    let most = processed.unwrap_or(u64::MAX).min(in_object);
    (reached > most).then(|| {
        let reached = grouped(reached);
        match processed.filter(|processed| *processed <= in_object) {
            Some(processed) => {
                let processed = grouped(processed);
                format!("{name} executed {reached} different instructions, and the verifier processed {processed}")
            }
            None => format!("{name} executed {reached} different instructions of {}", grouped(in_object)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        counts::TailCalls,
        result::{Part, RunOutcome, Size, Verifier},
    };

    /// A case that takes 26 ns in bursts, and 1,744 in single runs.
    fn case(calls: Vec<Calls>, packet: PacketSource, steady_instructions: Option<u64>) -> Case {
        let latency = Latency {
            method: Method::Bursts,
            packet,
            median_ns: 35.0,
            upper_ns: 36.0,
            max_ns: 40.0,
            net_ns: Some(26.0),
            ..Latency::default()
        };
        let single = Distribution {
            p50_ns: 1_784.0,
            p90_ns: 1_790.0,
            p99_ns: 1_800.0,
            p999_ns: 1_900.0,
            max_ns: 9_000,
            mean_ns: 1_800.0,
            clock_ns: Some(40.0),
            ..Distribution::default()
        };
        let counts =
            RunCounts { instructions: 1_500, calls, steady_instructions, ..RunCounts::default() };
        Case {
            name: "nat".to_owned(),
            program: "nat".to_owned(),
            input: "default".to_owned(),
            input_bytes: 64,
            r#type: "xdp".to_owned(),
            outcome: RunOutcome { return_value: 2, ..RunOutcome::default() },
            latency: Part::Measured(latency),
            distribution: Part::Measured(single),
            counts: Part::Measured(counts),
            own_output: None,
            tail_calls: TailCalls::default(),
            verifier: Verifier { processed_instructions: Some(35), ..Verifier::default() },
            size: Size { object_instructions: 40, ..Size::default() },
            profile: None,
        }
    }

    #[test]
    fn times_are_compared_where_all_runs_are_alike() {
        let check = |case: &Case, reached, expected: &[&str]| {
            assert_eq!(contradictions(case, reached, None), expected, "{case:?}");
        };
        let slower = "nat takes net 26.0 ns, and in single runs 1,744.0 ns without the clock";
        let alike = case(Vec::new(), PacketSource::Unchanged, None);
        check(&alike, Some(35), &[slower]);
        let unverified = "nat executed 36 different instructions, and the verifier processed 35";
        check(&alike, Some(36), &[unverified, slower]);
        // What a helper does depends on its maps.
        let update = Calls { name: "bpf_map_update_elem".to_owned(), is_kfunc: false, calls: 1 };
        check(&case(vec![update], PacketSource::Unchanged, None), None, &[]);
        check(&case(Vec::new(), PacketSource::Restored, None), None, &[]);
        check(&case(Vec::new(), PacketSource::Unchanged, Some(1_400)), None, &[]);
        let mut shorter = alike.clone();
        if let Part::Measured(single) = &mut shorter.distribution {
            (single.p50_ns, single.mean_ns) = (4.0, 5.0);
        }
        let found = "nat in single runs executed 1,500 instructions in 25.0 ns, which take 28.8 ns at least";
        check(&shorter, None, &[found]);
    }

    #[test]
    fn what_runs_was_verified() {
        let check = |reached, processed, in_object, expected: Option<&str>| {
            let found = unverified("nat", reached, processed, in_object);
            assert_eq!(found.as_deref(), expected, "{reached} {processed:?} {in_object}");
        };
        check(40, Some(40), 40, None);
        check(40, None, 40, None);
        // Dead code is not processed, loops are more than once.
        check(30, Some(35), 40, None);
        check(30, Some(200), 40, None);
        let unverified = "nat executed 36 different instructions, and the verifier processed 35";
        check(36, Some(35), 40, Some(unverified));
        check(41, Some(200), 40, Some("nat executed 41 different instructions of 40"));
        check(41, None, 40, Some("nat executed 41 different instructions of 40"));
    }

    #[test]
    fn quantiles_have_an_order() {
        let check = |[min_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns]: [u64; 6], expected| {
            let [p50_ns, p90_ns, p99_ns, p999_ns] =
                [p50_ns, p90_ns, p99_ns, p999_ns].map(|ns| ns as f64);
            let nothing = Distribution::default();
            let single =
                Distribution { min_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns, ..nothing };
            let found = fall("nat", &ordered_single_runs(&single));
            assert_eq!(found.as_deref(), expected, "{single:?}");
        };
        check([40; 6], None);
        check([40, 50, 51, 60, 90, 7_000], None);
        let second = "nat: the p90 is 52.0 ns, and the p99 only 51.0 ns";
        check([40, 50, 52, 51, 90, 7_000], Some(second));
        let last = "nat: the p99.9 is 90.0 ns, and the max only 89.0 ns";
        check([40, 50, 51, 60, 90, 89], Some(last));
        let first = "nat: the shortest single run is 51.0 ns, and the p50 only 50.0 ns";
        check([51, 50, 51, 60, 90, 7_000], Some(first));
    }

    #[test]
    fn the_floor_is_below_the_median() {
        let check = |[floor_ns, median_ns, max_ns]: [f64; 3], packet, expected| {
            let nothing = Latency { method: Method::Bursts, packet, ..Latency::default() };
            let latency = Latency { floor_ns, median_ns, max_ns, ..nothing };
            let found = fall("nat", &ordered_times(&latency));
            assert_eq!(found.as_deref(), expected, "{latency:?}");
        };
        check([10.0, 12.0, 20.0], PacketSource::Unchanged, None);
        check([12.0 + 1e-12, 12.0, 12.0], PacketSource::Unchanged, None);
        let floor = "nat: the floor is 13.0 ns, and the median only 12.0 ns";
        check([13.0, 12.0, 20.0], PacketSource::Unchanged, Some(floor));
        let slowest = "nat: the median is 12.0 ns, and the slowest sample only 11.0 ns";
        check([10.0, 12.0, 11.0], PacketSource::Unchanged, Some(slowest));
        check([13.0, 12.0, 20.0], PacketSource::Restored, None);
    }

    #[test]
    fn single_runs_take_similar_time() {
        let check = |net_ns, [mean_ns, p50_ns]: [f64; 2], instructions, expected| {
            let latency =
                Latency { net_ns: Some(net_ns), median_ns: net_ns + 9.0, ..Latency::default() };
            let clock_ns = Some(40.0);
            let single = Distribution { mean_ns, p50_ns, clock_ns, ..Distribution::default() };
            let found = other_single_runs("nat", &latency, &single, instructions);
            assert_eq!(found.as_deref(), expected, "{net_ns} {single:?}");
        };
        check(26.0, [71.0, 68.0], 200, None);
        // Eight atomic additions: the clock does not wait for them.
        check(9.6, [44.0, 42.4], 20, None);
        // One run in a hundred takes long.
        check(27_000.0, [1_700.0, 50.0], 2_000, None);
        let slower = "nat takes net 26.0 ns, and in single runs 1,744.0 ns without the clock";
        check(26.0, [1_790.0, 1_784.0], 5_000, Some(slower));
        // As few may overlap.
        check(26.0, [1_790.0, 1_784.0], 500, None);
        let faster = "nat takes net 2,700.0 ns, and in single runs 20.0 ns without the clock";
        check(2_700.0, [62.0, 60.0], 5_000, Some(faster));
        check(1_700.0, [62.0, 60.0], 5_000, None);
    }

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
