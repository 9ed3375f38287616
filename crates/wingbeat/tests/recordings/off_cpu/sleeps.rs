//! Known sleeps: count, duration, location.

use crate::{
    off_cpu::support::{as_measured, build, launch, near, recorded},
    target::turn_in_folder,
};

/// Sleeps 20 ms a hundred times in `naps`.
const NAPS: &str = r#"
static int longer(const void *a, const void *b) { return *(long *)a < *(long *)b ? -1 : 1; }
OWN void naps(int count, long *times) {
    for (int i = 0; i < count; i++) {
        long begun = now_ns();
        doze(20000000);
        times[i] = now_ns() - begun;
    }
}
int main(void) {
    long times[100], total = 0;
    naps(100, times);
    for (int i = 0; i < 100; i++) total += times[i];
    qsort(times, 100, sizeof *times, longer);
    say("total", total);
    say("p50", times[49]);
    say("p99", times[98]);
    say("max", times[99]);
    return 0;
}"#;

#[test]
fn a_hundred_naps_are_counted_and_timed() {
    let Some(run) = recorded("napper", NAPS, "off-cpu", &[]) else { return };
    as_measured(&run, "naps", "sleeping", 100, run.said("total"));
    let blocks = run.blocks("naps", "sleeping");
    // Quantiles have a precision of 1/32; the target may have been preempted after waking.
    near(&run, blocks.p50_ns, run.said("p50"), 5.0, 0);
    assert!(blocks.p99_ns * 100 >= run.said("p50") * 97, "{}", run.all());
    assert!(blocks.p99_ns >= blocks.p50_ns && blocks.p99_ns <= blocks.max_ns, "{blocks:?}");
    assert!(blocks.max_ns <= run.said("max"), "{}", run.all());
    assert!(blocks.max_ns * 100 >= blocks.total_ns, "{blocks:?}");
    // From the entry point to the kernel's scheduler.
    let whole = |stack: &str| {
        stack.starts_with("napper;_start;__libc_start_main")
            && stack.contains(";main;naps;")
            && stack.contains("_[k];")
            && stack.ends_with(";[sleeping]")
    };
    let of_naps: Vec<_> = run.folded.iter().filter(|(stack, _)| stack.contains(";naps;")).collect();
    assert!(of_naps.iter().any(|(stack, _)| whole(stack)), "{}", run.all());
    // Time with its unit, share with its sign, count. The kernel may have two paths to sleep.
    let lines =
        run.stderr.lines().filter(|line| line.contains(" sleeping: ") && line.ends_with("< naps"));
    let counts = lines.filter_map(|line| line.split_whitespace().nth(4)?.parse::<u64>().ok());
    assert_eq!(counts.sum::<u64>(), 100, "{}", run.all());
}

#[test]
fn blocks_below_the_limit_are_summed_and_the_others_shown() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
static long shorter, of_shorter, longer, of_longer;
static void tally(long time) {
    if (time < 5000000) { shorter++; of_shorter += time; } else { longer++; of_longer += time; }
}
OWN void short_naps(void) {
    for (int i = 0; i < 300; i++) { long begun = now_ns(); doze(1000000); tally(now_ns() - begun); }
}
OWN void long_naps(void) {
    for (int i = 0; i < 50; i++) { long begun = now_ns(); doze(10000000); tally(now_ns() - begun); }
}
int main(void) {
    short_naps();
    long_naps();
    say("shorter", shorter);
    say("of_shorter", of_shorter);
    say("longer", longer);
    say("of_longer", of_longer);
    return 0;
}"#;
    let program = build(folder.path(), "mixed-naps", source);
    let run = launch(folder.path(), "off-cpu", &["--min-block", "5ms"], &program);
    assert_eq!(run.number("/off_cpu/min_block_ns"), 5_000_000);
    assert_eq!(run.blocks("long_naps", "sleeping").count, 50, "{}", run.all());
    // A short nap that took long on a busy machine may be on either side.
    let shown = run.blocks("", "sleeping").count;
    assert!(shown <= run.said("longer") && shown >= 50, "{}", run.all());
    near(&run, run.time_ns(&["[sleeping]"]), run.said("of_longer"), 3.0, 5_000_000);
    // A nap that expires before the thread sleeps is not a block: that happens on a busy machine.
    let below = run.number("/off_cpu/switches/below_limit");
    assert!(below * 100 >= run.said("shorter") * 98, "{}", run.all());
    let thread = run.thread("mixed-naps");
    let below_ns = thread["below_limit_ns"].as_u64().expect("a number");
    near(&run, below_ns, run.said("of_shorter"), 5.0, 10_000_000);
    // They have an entry, so that nothing is missing.
    assert_eq!(run.time_ns(&["[short blocks]"]), below_ns, "{}", run.all());
    let run = launch(folder.path(), "wall", &["--min-block", "5ms"], &program);
    near(&run, run.time_ns(&["[short blocks]"]), run.said("of_shorter"), 5.0, 10_000_000);
}

#[test]
fn without_a_limit_every_block_is_there_and_a_nap_is_ended_by_an_interrupt() {
    let Some(run) = recorded("napper", NAPS, "off-cpu", &["--min-block", "0", "--wakers"]) else {
        return;
    };
    assert_eq!(run.number("/off_cpu/min_block_ns"), 0);
    assert_eq!(run.number("/off_cpu/switches/below_limit"), 0, "{}", run.all());
    assert_eq!(run.blocks("naps", "sleeping").count, 100, "{}", run.all());
    let slept_ns = run.time_ns(&["naps", "[sleeping]"]);
    near(&run, slept_ns, run.said("total"), 2.0, 0);
    let by_interrupt = run.time_with_ns(";[sleeping];[woken by an interrupt]");
    assert!(by_interrupt * 10 >= slept_ns * 9, "{}", run.all());
}

#[test]
fn callers_of_one_place_are_told_apart() {
    // The same code at the same depth: only return addresses differ.
    let source = r#"
OWN void nap(long ns) { doze(ns); }
OWN long early(long ns) { long begun = now_ns(); nap(ns); return now_ns() - begun; }
OWN long late(long ns) { long begun = now_ns(); nap(ns); return now_ns() - begun; }
int main(void) {
    long of_early = 0, of_late = 0;
    for (int i = 0; i < 100; i++) {
        of_early += early(2000000);
        of_late += late(8000000);
    }
    say("early", of_early);
    say("late", of_late);
    return 0;
}"#;
    let Some(run) = recorded("callers", source, "off-cpu", &[]) else { return };
    for function in ["early", "late"] {
        as_measured(&run, function, "sleeping", 100, run.said(function));
    }
    assert_eq!(run.number("/off_cpu/stacks_taken/wrong"), 0, "{}", run.all());
    // Stacks are walked only once.
    let taken = |key: &str| run.number(&format!("/off_cpu/stacks_taken/{key}"));
    assert!(taken("reused") > 350 && taken("walked") < 60, "{}", run.all());
}
