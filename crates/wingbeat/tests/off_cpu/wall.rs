//! `--mode wall`: for each thread, on-CPU and off-CPU time add up to the elapsed time.

use crate::{
    support::{Run, build, launch, launch_built, near},
    target::{turn, turn_in_folder},
};

/// Three threads that alternate 30 ms of work and 70 ms of rest; six more that come and go.
const MIXED: &str = r#"
OWN void works(long ns) { long begun = thread_cpu_ns(); while (thread_cpu_ns() - begun < ns) spin(20000); }
OWN void rests(long ns) { doze(ns); }
static long rested, brief_cpu;
static void *mixed(void *name) {
    long begun = now_ns(), own = 0;
    pthread_setname_np(pthread_self(), name);
    for (int i = 0; i < 8; i++) {
        works(30000000);
        long from = now_ns();
        rests(70000000);
        own += now_ns() - from;
    }
    say_of(name, "cpu", thread_cpu_ns());
    say_of(name, "elapsed", now_ns() - begun);
    __atomic_fetch_add(&rested, own, __ATOMIC_RELAXED);
    return 0;
}
static void *brief(void *unused) {
    pthread_setname_np(pthread_self(), "brief");
    works(10000000);
    rests(20000000);
    __atomic_fetch_add(&brief_cpu, thread_cpu_ns(), __ATOMIC_RELAXED);
    return unused;
}
int main(void) {
    char *names[] = {"first", "second", "third"};
    pthread_t threads[3], thread;
    long born[3];
    for (int i = 0; i < 3; i++) {
        born[i] = now_ns();
        pthread_create(&threads[i], 0, mixed, names[i]);
    }
    for (int i = 0; i < 6; i++) {
        pthread_create(&thread, 0, brief, 0);
        pthread_join(thread, 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], 0);
        say_of(names[i], "joined", now_ns() - born[i]);
    }
    say("rested", rested);
    say("brief_cpu", brief_cpu);
    return 0;
}"#;

fn check_threads(run: &Run) {
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(run.number("/off_cpu/threads_off"), 0, "{}", run.all());
    for name in ["first", "second", "third"] {
        let thread = run.thread(name);
        let of = |key: &str| thread[key].as_u64().expect("a number");
        // It does not observe its own creation and exit, and may wait for a CPU at both.
        let elapsed_ns = of("elapsed_ns");
        assert!(elapsed_ns >= run.said(&format!("{name}.elapsed")), "{}", run.all());
        // The joining thread is notified shortly before its last switch.
        let most_ns = run.said(&format!("{name}.joined")) + 5_000_000;
        assert!(elapsed_ns <= most_ns, "{elapsed_ns}: {}", run.all());
        near(run, of("on_cpu_ns"), run.said(&format!("{name}.cpu")), 3.0, 1_000_000);
        let sum = of("on_cpu_ns") + of("off_cpu_ns") + of("below_limit_ns");
        near(run, sum, of("elapsed_ns"), 1.0, 0);
        assert_eq!(thread["idle"], false, "{}", run.all());
    }
    let brief = run.threads("brief");
    assert_eq!(brief.len(), 6, "{}", run.all());
    let of_briefs = brief.iter().map(|thread| thread["on_cpu_ns"].as_u64().expect("a number"));
    // Each works for 10 ms by its own clock, of which 3 % may be missing as above.
    assert!(of_briefs.clone().all(|on_cpu_ns| on_cpu_ns >= 9_700_000), "{}", run.all());
    // They print it before exiting, which takes time, too.
    near(run, of_briefs.sum(), run.said("brief_cpu"), 10.0, 6_000_000);
}

#[test]
fn on_and_off_make_up_the_time_that_went_by() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = build(folder.path(), "mixed", MIXED);
    for flags in [&["-F", "499"] as &[&str], &["-F", "99", "--min-block", "1ms", "--wakers"]] {
        let run = launch(folder.path(), "wall", flags, &program);
        check_threads(&run);
        // Both halves in one unit.
        let rested_ns = run.said("rested") + 6 * 20_000_000;
        near(&run, run.time_ns(&["rests", "[sleeping]"]), rested_ns, 3.0, 0);
        let off = ["[preempted]", "[sleeping]", "[uninterruptible]", "[waiting for I/O]"];
        let off_ns: u64 = off.iter().map(|state| run.time_ns(&["works", state])).sum();
        // On a busy machine a thread may have been on the CPU without a sample.
        let worked_ns = run.time_ns(&["works"]) - off_ns + run.time_ns(&["[running]"]);
        let threads = ["first.cpu", "second.cpu", "third.cpu", "brief_cpu"];
        near(&run, worked_ns, threads.iter().map(|who| run.said(who)).sum(), 3.0, 5_000_000);
        assert!(run.number("/ticks/sampled") > 50, "{}", run.all());
    }
}

#[test]
fn off_cpu_alone_takes_no_samples() {
    let Some(_turn) = turn() else { return };
    let run = launch_built("mixed", MIXED, "off-cpu", &[]);
    check_threads(&run);
    assert_eq!(run.number("/ticks/sampled"), 0, "{}", run.all());
    let state = |stack: &str| stack.rsplit(';').next().is_some_and(|last| last.starts_with('['));
    assert!(run.folded.iter().all(|(stack, _)| state(stack)), "{}", run.all());
}

#[test]
fn time_on_the_cpu_too_short_for_a_sample_is_not_lost() {
    let Some(_turn) = turn() else { return };
    let source = r#"
int main(void) { for (int i = 0; i < 20; i++) { spin(1000); doze(5000000); } return 0; }"#;
    let run = launch_built("glimpse", source, "wall", &["-F", "1"]).ended_with(0);
    if run.number("/ticks/sampled") == 0 {
        let on_cpu_ns = run.thread("glimpse")["on_cpu_ns"].as_u64().expect("a number");
        assert_eq!(run.time_ns(&["[running]"]), on_cpu_ns, "{}", run.all());
    }
}
