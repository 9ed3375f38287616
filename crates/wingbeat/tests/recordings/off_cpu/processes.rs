//! Threads and processes that come and go, and `--all`.

use std::{thread, time::Duration};

use crate::{
    off_cpu::support::{Run, as_measured, build, launch, near, profile, recorded},
    target::{
        Background, namespaced, profile_beside, profile_inside, turn_in_folder,
        turn_with_namespaces,
    },
};

#[test]
fn threads_that_end_while_others_wait() {
    let source = r#"
static pthread_mutex_t never = PTHREAD_MUTEX_INITIALIZER;
OWN void waits_to_the_end(void) { pthread_mutex_lock(&never); }
static void *stuck(void *unused) {
    pthread_setname_np(pthread_self(), "stuck");
    say("stuck", now_ns());
    waits_to_the_end();
    return unused;
}
OWN void rests(void) { doze(10000000); }
static void *brief(void *unused) {
    pthread_setname_np(pthread_self(), "brief");
    rests();
    return unused;
}
OWN long waits_for(pthread_t thread) {
    long begun = now_ns();
    pthread_join(thread, 0);
    return now_ns() - begun;
}
int main(void) {
    pthread_t thread;
    long joined = 0;
    pthread_mutex_lock(&never);
    pthread_create(&thread, 0, stuck, 0);
    for (int i = 0; i < 30; i++) {
        pthread_create(&thread, 0, brief, 0);
        joined += waits_for(thread);
    }
    doze(500000000);
    say("joined", joined);
    say("end", now_ns());
    return 0;
}"#;
    let Some(run) = recorded("come-and-go", source, "off-cpu", &[]) else { return };
    as_measured(&run, "waits_for", "sleeping", 30, run.said("joined"));
    assert_eq!(run.blocks("rests", "sleeping").count, 30, "{}", run.all());
    assert_eq!(run.threads("brief").len(), 30, "{}", run.all());
    // The one that is killed with its process runs again to end: its block counts in full.
    let stuck = run.blocks("waits_to_the_end", "");
    assert_eq!(stuck.count, 1, "{}", run.all());
    near(&run, stuck.total_ns, run.said("end") - run.said("stuck"), 2.0, 5_000_000);
    // 30 brief ones, the stuck one and the main thread.
    let switches = |key: &str| run.number(&format!("/off_cpu/switches/{key}"));
    assert!(switches("ended") + switches("still_blocked") >= 31, "{}", run.all());
    assert!(switches("born") >= 31, "{}", run.all());
    for thread in run.threads("brief") {
        let elapsed_ns = thread["elapsed_ns"].as_u64().expect("a number");
        // The recording takes at least 800 ms.
        assert!((10_000_000..500_000_000).contains(&elapsed_ns), "{thread}");
    }
}

const FAMILY: &str = r#"
OWN void child_naps(void) {
    long begun = now_ns();
    for (int i = 0; i < 20; i++) doze(10000000);
    say("napped", now_ns() - begun);
}
OWN void parent_waits(pid_t child) {
    long begun = now_ns();
    waitpid(child, 0, 0);
    say("waited", now_ns() - begun);
}
int main(void) {
    pid_t child = fork();
    if (child == 0) { child_naps(); return 0; }
    parent_waits(child);
    return 0;
}"#;

#[test]
fn parent_and_child() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = build(folder.path(), "family", FAMILY);
    let run = launch(folder.path(), "off-cpu", &[], &program);
    as_measured(&run, "parent_waits", "sleeping", 1, run.said("waited"));
    let naps = run.blocks("child_naps", "sleeping");
    assert_eq!(naps.count, 20, "{}", run.all());
    near(&run, naps.total_ns, run.said("napped"), 3.0, 0);
    assert_eq!(run.threads("family").len(), 2, "{}", run.all());
    assert!(run.number("/off_cpu/switches/born") >= 1);

    let run = launch(folder.path(), "off-cpu", &["--no-inherit"], &program);
    as_measured(&run, "parent_waits", "sleeping", 1, run.said("waited"));
    assert_eq!(run.blocks("child_naps", "").count, 0, "{}", run.all());
    assert_eq!(run.threads("family").len(), 1, "{}", run.all());
}

const NAPPER: &str = r#"
OWN void naps(long count) { for (long i = 0; i < count; i++) doze(20000000); }
int main(int count, char **words) {
    long begun = now_ns();
    naps(atol(words[1]));
    say("napped", now_ns() - begun);
    return 0;
}"#;

#[test]
fn exec_begins_another_program_in_the_same_thread() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = build(folder.path(), "second", NAPPER);
    let script = format!("sleep 0.3; exec {} 20", program.display());
    let run = profile(folder.path(), "off-cpu", &[], &["--", "sh", "-c", &script]).ended_with(0);
    assert_eq!(run.blocks("naps", "sleeping").count, 20, "{}", run.all());
    near(&run, run.blocks("naps", "sleeping").total_ns, run.said("napped"), 3.0, 0);
    // The shell waited for its child, and sleep(1) slept as long.
    for process in ["sh;", "sleep;"] {
        let of_process = run.folded.iter().filter(|(stack, _)| stack.starts_with(process));
        let longest_ns = of_process.map(|(_, time_ns)| *time_ns).max().unwrap_or(0);
        near(&run, longest_ns, 300_000_000, 30.0, 0);
    }
    let mixed = |stack: &str| stack.starts_with("sh;") && stack.contains(";naps;");
    assert!(!run.folded.iter().any(|(stack, _)| mixed(stack)), "{}", run.all());
    // The launcher's own code is not included.
    assert_eq!(run.time_with_ns("wingbeat"), 0, "{}", run.all());
}

#[test]
fn everybody_includes_strangers_and_the_kernel_s_threads_do_not_drown_them() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let (one, two) = (build(folder.path(), "one", NAPPER), build(folder.path(), "two", NAPPER));
    let _targets = [Background::start(&one, &["4000"]), Background::start(&two, &["4000"])];
    thread::sleep(Duration::from_millis(50));
    let run =
        profile(folder.path(), "off-cpu", &["--all", "--hide-idle", "-d", "1s"], &[]).ended_with(0);
    let duration_ns = run.number("/duration_ns");
    for process in ["one;", "two;"] {
        let naps = |stack: &str| {
            stack.starts_with(process) && stack.contains(";naps;") && stack.ends_with(";[sleeping]")
        };
        near(&run, run.time_where_ns(naps), duration_ns, 3.0, 10_000_000);
    }
    assert_eq!(run.time_with_ns("[idle]"), 0, "{}", run.all());
    assert!(run.number("/off_cpu/idle_hidden") > 0, "{}", run.all());

    // Without `--all`, no other process is included.
    let run = profile(folder.path(), "off-cpu", &["-d", "500ms"], &["--pid", &_targets[0].pid()]);
    assert!(run.folded.iter().all(|(stack, _)| stack.starts_with("one;")), "{}", run.all());
}

// Off-CPU time in wingbeat's own PID namespace, and in others: the IDs of a thread must be the same at each switch,
// including the last, after which the kernel has only one of them.

/// Threads that start, rest, and end.
const RESTING: &str = r#"
OWN void rests(long ns) { doze(ns); }
static void *brief(void *unused) {
    pthread_setname_np(pthread_self(), "brief");
    while (thread_cpu_ns() < 10000000) spin(20000);
    rests(30000000);
    return unused;
}
int main(int count, char **words) {
    long begun = now_ns(), seconds = count > 1 ? atol(words[1]) : 0;
    do {
        pthread_t thread;
        pthread_create(&thread, 0, brief, 0);
        pthread_join(thread, 0);
    } while (now_ns() - begun < 300000000 + seconds * 1000000000L);
    return 0;
}"#;

/// Each thread has its account, closed by its end, and its times add up.
fn check_threads(run: &Run, least: usize) {
    assert_eq!(run.number("/off_cpu/threads_off"), 0, "{}", run.all());
    let brief = run.threads("brief");
    assert!(brief.len() >= least, "{}", run.all());
    assert!(run.number("/off_cpu/switches/ended") as usize + 1 >= brief.len(), "{}", run.all());
    let blocks = run.blocks("rests", "sleeping");
    assert!(blocks.count as usize + 2 >= brief.len(), "{}", run.all());
    // The recording may begin and end within one.
    assert!(blocks.total_ns + 60_000_000 >= blocks.count * 30_000_000, "{}", run.all());
    assert_eq!(run.number("/off_cpu/switches/lost/thread_gone"), 0, "{}", run.all());
}

#[test]
fn times_of_threads_add_up_on_both_sides_of_a_namespace_and_inside() {
    let Some((_turn, folder)) = turn_with_namespaces() else { return };
    let program = build(folder.path(), "resting", RESTING);
    let path = program.to_str().expect("UTF-8");
    for mode in ["off-cpu", "wall"] {
        let words = [&["--"], &namespaced(&[path])[..]].concat();
        check_threads(&profile(folder.path(), mode, &["--wakers"], &words).ended_with(0), 6);
        let flags = ["--mode", mode, "--wakers"];
        let run = profile_inside(folder.path(), &flags, &["--", path]).ended_with(0);
        check_threads(&run, 6);
        assert!(run.time_with_ns("[woken by brief]") > 0, "{}", run.all());
        // A process that is there already.
        let flags = ["--mode", mode, "-d", "1s", "--pid"];
        let run = profile_beside(folder.path(), &program, &flags).ended_with(0);
        check_threads(&run, 15);
        assert_eq!(run.threads("resting").len(), 1, "{}", run.all());
    }
}
