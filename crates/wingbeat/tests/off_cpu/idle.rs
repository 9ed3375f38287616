//! Threads that never wake: included with the length of the recording, and hidden on request.

use std::{thread, time::Duration};

use crate::{
    support::{Run, build, command, finished, launch_built, near, profile, start_ready},
    target::{turn, turn_in_folder},
};

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
fn a_thread_that_begins_to_wait_in_the_recording() {
    let Some(_turn) = turn() else { return };
    let run = launch_built("half-idle", HALF_IDLE, "off-cpu", &["-d", "1s"]);
    check_idle(&run, "waits_for_ever");
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
