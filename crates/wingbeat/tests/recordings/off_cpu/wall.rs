//! `--mode wall`: for each thread, on-CPU and off-CPU time add up to the elapsed time.

use std::{thread, time::Duration};

use crate::{
    off_cpu::support::{
        Run, build, command, finished, launch, near, profile, recorded, start_ready,
    },
    target::turn_in_folder,
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
    let Some(run) = recorded("mixed", MIXED, "off-cpu", &[]) else { return };
    check_threads(&run);
    assert_eq!(run.number("/ticks/sampled"), 0, "{}", run.all());
    let state = |stack: &str| stack.rsplit(';').next().is_some_and(|last| last.starts_with('['));
    assert!(run.folded.iter().all(|(stack, _)| state(stack)), "{}", run.all());
}

#[test]
fn time_on_the_cpu_too_short_for_a_sample_is_not_lost() {
    let source = r#"
int main(void) { for (int i = 0; i < 20; i++) { spin(1000); doze(5000000); } return 0; }"#;
    let Some(run) = recorded("glimpse", source, "wall", &["-F", "1"]) else { return };
    if run.number("/ticks/sampled") == 0 {
        let on_cpu_ns = run.thread("glimpse")["on_cpu_ns"].as_u64().expect("a number");
        assert_eq!(run.time_ns(&["[running]"]), on_cpu_ns, "{}", run.all());
    }
}

// Threads that never wake: included with the length of the recording, and hidden on request.

/// A thread waits forever, the main thread naps.
const HALF_IDLE: &str = r#"
OWN void waits_for_ever(void) { for (;;) pause(); }
static void *worker(void *unused) {
    pthread_setname_np(pthread_self(), "worker");
    waits_for_ever();
    return unused;
}
OWN void naps(void) { for (;;) doze(20000000); }
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    say("ready", 1);
    naps();
    return 0;
}"#;

fn check_idle(run: &Run, function: &str) {
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let blocks = run.blocks(function, "idle");
    assert_eq!(blocks.count, 1, "{}", run.all());
    near(run, blocks.total_ns, run.number("/duration_ns"), 2.0, 10_000_000);
    assert_eq!(run.time_ns(&[function, "[idle]"]), blocks.total_ns, "{}", run.all());
    assert!(run.number("/off_cpu/switches/still_blocked") >= 1);
    assert_eq!(run.number("/off_cpu/idle_hidden"), 0);
}

#[test]
fn a_thread_that_waited_before_the_recording_and_after() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = build(folder.path(), "half-idle", HALF_IDLE);
    let target = start_ready(folder.path(), &program);
    thread::sleep(Duration::from_millis(100));
    let words = ["-d", "1s", "--pid", &target.pid()];
    for mode in ["off-cpu", "wall"] {
        let run = profile(folder.path(), mode, &[], &words);
        check_idle(&run, "waits_for_ever");
        // The main thread naps, or has just woken.
        assert!(run.number("/off_cpu/switches/begun_before") >= 1, "{}", run.all());
        assert_eq!(run.thread("worker")["idle"], true, "{}", run.all());
        near(
            &run,
            run.time_ns(&["naps", "[sleeping]"]),
            run.number("/duration_ns"),
            3.0,
            10_000_000,
        );
        // One walk over the threads finds all, some milliseconds after the clock was started.
        let elapsed_ns =
            ["worker", "half-idle"].map(|name| run.thread(name)["elapsed_ns"].as_u64());
        let [worker_ns, main_ns] = elapsed_ns.map(|elapsed_ns| elapsed_ns.expect("a number"));
        near(&run, worker_ns, main_ns, 0.1, 1_000_000);
        near(&run, worker_ns, run.number("/duration_ns"), 3.0, 10_000_000);
    }
    let run = profile(folder.path(), "off-cpu", &["--hide-idle"], &words).ended_with(0);
    assert_eq!(run.time_with_ns("[idle]") + run.time_with_ns("waits_for_ever"), 0, "{}", run.all());
    assert!(run.time_ns(&["naps", "[sleeping]"]) > 0, "{}", run.all());
    assert_eq!(run.number("/off_cpu/idle_hidden"), 1, "{}", run.all());
    assert_eq!(run.thread("worker")["idle"], true, "{}", run.all());
    let idled_ns = run.thread("worker")["off_cpu_ns"].as_u64().expect("a number");
    near(&run, idled_ns, run.number("/duration_ns"), 2.0, 10_000_000);
}

#[test]
fn a_thread_that_begins_to_wait_in_a_recording_as_long_as_asked() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = build(folder.path(), "half-idle", HALF_IDLE);
    for mode in ["off-cpu", "wall"] {
        let run = launch(folder.path(), mode, &["-d", "1s"], &program);
        check_idle(&run, "waits_for_ever");
        let duration_ns = run.number("/duration_ns");
        assert!((1_000_000_000..1_500_000_000).contains(&duration_ns), "{duration_ns}");
        near(&run, run.time_ns(&["naps", "[sleeping]"]), duration_ns, 3.0, 10_000_000);
    }
}

#[test]
fn a_process_that_does_nothing_at_all() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
OWN void waits_for_ever(void) { for (;;) pause(); }
int main(void) { say("ready", 1); waits_for_ever(); return 0; }"#;
    let program = build(folder.path(), "nothing", source);
    let target = start_ready(folder.path(), &program);
    thread::sleep(Duration::from_millis(100));
    let words = ["-d", "500ms", "--pid", &target.pid()];
    let run = profile(folder.path(), "off-cpu", &[], &words);
    check_idle(&run, "waits_for_ever");
    assert_eq!(run.number("/off_cpu/switches/begun_before"), 1, "{}", run.all());
    assert_eq!(run.number("/off_cpu/switches/out"), 0, "{}", run.all());

    // Without the idle ones nothing is left: prints that, and leaves no picture.
    std::fs::remove_file(folder.path().join("out.folded")).expect("remove");
    let output = command(folder.path(), &["--mode", "off-cpu", "--hide-idle"]).args(words).output();
    let run = finished(folder.path(), output.expect("run wingbeat")).ended_with(1);
    assert!(run.stderr.contains("--hide-idle"), "{}", run.stderr);
    assert!(run.folded.is_empty(), "{}", run.all());
    assert_eq!(run.number("/off_cpu/idle_hidden"), 1, "{}", run.all());
}
