//! Invariants of each recording: every block is counted once, and all outputs agree.

use serde_json::Value;

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}"))
}

fn rows<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("{key} in {value}"))
}

/// Checks a summary against itself and against the collapsed stacks of the same recording.
pub(crate) fn check(summary: &Value, folded: &[(String, u64)]) {
    let off_cpu = &summary["off_cpu"];
    assert!(off_cpu.is_object(), "{summary}");
    switches(off_cpu);
    threads(off_cpu);
    cpus(summary);
    names_without_meaning(summary);
    order(off_cpu);
    // Hidden threads are omitted from all tables except that of threads.
    if number(off_cpu, "idle_hidden") == 0 {
        states(off_cpu);
        if !folded.is_empty() {
            sums(summary, folded);
        }
    }
}

/// Each start has one end.
fn switches(off_cpu: &Value) {
    let switches = &off_cpu["switches"];
    let of = |key| number(switches, key);
    let lost: u64 = switches["lost"]
        .as_object()
        .expect("losses by reason")
        .values()
        .map(|lost| lost.as_u64().expect("a number"))
        .sum();
    let begun = of("out") + of("born") + of("begun_before");
    let over = of("reported") + of("below_limit") + of("ended") + of("still_blocked") + lost;
    assert_eq!(begun, over, "{switches:#}");
    let taken = &off_cpu["stacks_taken"];
    assert!(number(taken, "checked") <= number(taken, "reused"), "{taken}");
    assert!(number(taken, "wrong") <= number(taken, "checked"), "{taken}");
}

/// The sum over threads equals that over states plus what is below the limit.
fn threads(off_cpu: &Value) {
    let sum = |key| rows(off_cpu, "threads").iter().map(|thread| number(thread, key)).sum::<u64>();
    assert_eq!(
        sum("below_limit_ns"),
        number(&off_cpu["switches"], "below_limit_ns"),
        "{off_cpu:#}"
    );
    let is_off = |thread: &&Value| {
        let unaccounted = thread["unaccounted_ns"].as_i64().expect("a number").unsigned_abs();
        // For a thread that lived for microseconds, a percent is less than the cost of one switch.
        unaccounted > 100_000 && unaccounted * 100 > number(thread, "elapsed_ns")
    };
    let off = rows(off_cpu, "threads").iter().filter(is_off).count() as u64;
    assert_eq!(number(off_cpu, "threads_off"), off, "{off_cpu:#}");
    for thread in rows(off_cpu, "threads") {
        let sum = ["on_cpu_ns", "off_cpu_ns", "below_limit_ns"].map(|key| number(thread, key));
        let unaccounted = thread["unaccounted_ns"].as_i64().expect("a number");
        let elapsed = sum.iter().sum::<u64>().cast_signed() + unaccounted;
        assert_eq!(number(thread, "elapsed_ns").cast_signed(), elapsed, "{thread}");
    }
}

/// Time on the CPUs does not exceed their capacity, and none is counted twice.
fn cpus(summary: &Value) {
    let off_cpu = &summary["off_cpu"];
    let sum_ns: u64 =
        rows(off_cpu, "threads").iter().map(|thread| number(thread, "on_cpu_ns")).sum();
    let cpus_ns = number(summary, "cpus") * number(summary, "duration_ns");
    // Stopping the recording takes some milliseconds.
    assert!(sum_ns <= cpus_ns + cpus_ns / 100 + 20_000_000, "{sum_ns} of {cpus_ns}: {off_cpu:#}");
    for thread in rows(off_cpu, "threads") {
        let unaccounted = thread["unaccounted_ns"].as_i64().expect("a number");
        let spare = 100_000 + number(thread, "elapsed_ns") / 100;
        assert!(unaccounted >= -spare.cast_signed(), "{thread}");
    }
    let lost = off_cpu["switches"]["lost"].as_object().expect("losses by reason");
    if lost.values().all(|lost| lost == 0) {
        assert_eq!(number(off_cpu, "threads_off"), 0, "{off_cpu:#}");
    }
}

/// Names without information.
fn names_without_meaning(summary: &Value) {
    let off_cpu = &summary["off_cpu"];
    for row in rows(off_cpu, "stacks").iter().filter(|row| row["state"] == "preempted") {
        let frames = row["stack"].as_array().expect("frames");
        let woken = frames.iter().filter_map(Value::as_str).find(|f| f.starts_with("[woken by"));
        assert_eq!(woken, None, "who could run needs nobody: {row}");
    }
    for row in rows(&summary["stacks"], "broken_by_file") {
        assert_ne!(number(row, "count"), 0, "{row}");
    }
    let is_idle = |thread: &&Value| thread["idle"] == true && number(thread, "off_cpu_ns") > 0;
    let idle = rows(off_cpu, "threads").iter().find(is_idle);
    if number(off_cpu, "idle_hidden") == 0 {
        let states = off_cpu["states"].as_object().expect("states");
        assert_eq!(idle.is_some(), states.contains_key("idle"), "{idle:?} in {states:?}");
    }
}

/// Blocks by state match the reported ones, with all stacks.
fn states(off_cpu: &Value) {
    let switches = &off_cpu["switches"];
    let count: u64 = blocked_states(off_cpu).map(|(_, state)| number(state, "count")).sum();
    assert_eq!(count, number(switches, "reported") + number(switches, "still_blocked"));
    let total: u64 = blocked_states(off_cpu).map(|(_, state)| number(state, "total_ns")).sum();
    let of_threads: u64 =
        rows(off_cpu, "threads").iter().map(|thread| number(thread, "off_cpu_ns")).sum();
    assert_eq!(of_threads, total, "{off_cpu:#}");
    for (name, state) in blocked_states(off_cpu) {
        let of_state: Vec<&Value> =
            rows(off_cpu, "stacks").iter().filter(|row| row["state"] == *name).collect();
        for key in ["count", "total_ns"] {
            let sum: u64 = of_state.iter().map(|row| number(row, key)).sum();
            assert_eq!(sum, number(state, key), "{key} of {name}: {off_cpu:#}");
        }
        for row in of_state {
            let [p50, p99, max, total] =
                ["p50_ns", "p99_ns", "max_ns", "total_ns"].map(|key| number(row, key));
            assert!(p50 <= p99 && p99 <= max && max <= total, "{row}");
            // An unfinished one may be arbitrarily short.
            let all_over = number(switches, "still_blocked") == 0;
            assert!(max >= number(off_cpu, "min_block_ns") || !all_over, "{row}");
        }
    }
}

/// Stacks are sorted by time, descending.
fn order(off_cpu: &Value) {
    let totals: Vec<u64> =
        rows(off_cpu, "stacks").iter().map(|row| number(row, "total_ns")).collect();
    assert!(totals.is_sorted_by(|a, b| a >= b), "most time first: {totals:?}");
}

/// Collapsed stacks add up to the summary's totals.
fn sums(summary: &Value, folded: &[(String, u64)]) {
    let off_cpu = &summary["off_cpu"];
    let sum = |key| rows(off_cpu, "threads").iter().map(|thread| number(thread, key)).sum::<u64>();
    let expected = match summary["mode"].as_str() {
        Some("off-cpu") => sum("off_cpu_ns") + sum("below_limit_ns"),
        Some("wall") => sum("on_cpu_ns") + sum("off_cpu_ns") + sum("below_limit_ns"),
        mode => panic!("mode {mode:?}"),
    };
    let written: u64 = folded.iter().map(|(_, time_ns)| time_ns).sum();
    assert_eq!(written, expected, "{summary:#}");
}

/// States of reported blocks.
fn blocked_states(off_cpu: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let states = off_cpu["states"].as_object().expect("states");
    states.iter().filter(|(name, _)| *name != "short" && *name != "running")
}
