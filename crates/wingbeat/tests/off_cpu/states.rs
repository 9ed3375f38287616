//! Why a thread is off the CPU: distinguishes asleep, preempted, stopped, and waiting for a disk.

use std::iter;

use crate::{
    support::{Run, build, launch, launch_built, near},
    target::{folder, turn},
};

#[test]
fn two_busy_threads_on_one_cpu_are_preempted_half_of_their_time() {
    let Some(_turn) = turn() else { return };
    let source = r#"
OWN void busy(const char *name) {
    long begun = now_ns(), cpu = thread_cpu_ns();
    while (now_ns() - begun < 1000000000) spin(10000);
    say_of(name, "off", now_ns() - begun - (thread_cpu_ns() - cpu));
    say_of(name, "elapsed", now_ns() - begun);
}
static void *thread(void *name) {
    pthread_setname_np(pthread_self(), name);
    busy(name);
    return 0;
}
int main(void) {
    cpu_set_t cpus;
    pthread_t left, right;
    sched_getaffinity(0, sizeof cpus, &cpus);
    for (int cpu = 0, found = 0; cpu < CPU_SETSIZE; cpu++) {
        if (found) CPU_CLR(cpu, &cpus);
        found |= CPU_ISSET(cpu, &cpus);
    }
    if (sched_setaffinity(0, sizeof cpus, &cpus)) return 1;
    pthread_create(&left, 0, thread, "left");
    pthread_create(&right, 0, thread, "right");
    pthread_join(left, 0);
    pthread_join(right, 0);
    return 0;
}"#;
    let run = launch_built("starved", source, "wall", &[]).ended_with(0);
    let mut off_ns = 0;
    for name in ["left", "right"] {
        let off = run.said(&format!("{name}.off"));
        off_ns += off;
        // Others may want that CPU too: at least half.
        let share = off as f64 / run.said(&format!("{name}.elapsed")) as f64;
        assert!(share > 0.4, "{share}: {}", run.all());
        let thread = run.thread(name);
        let blocked_ns = thread["off_cpu_ns"].as_u64().expect("a number");
        near(&run, blocked_ns, off, 3.0, 5_000_000);
        assert_eq!(thread["idle"], false, "{}", run.all());
    }
    // Time taken by a hypervisor counts as preempted, and has no stack; neither has a wait before the first run.
    let seen_ns = run.time_ns(&["busy", "[preempted]"]);
    let unseen_ns = run.time_where_ns(|stack| stack == "starved;[preempted]");
    near(&run, off_ns.clamp(seen_ns, seen_ns + unseen_ns), off_ns, 3.0, 5_000_000);
    assert_eq!(run.time_ns(&["busy", "[sleeping]"]), 0, "{}", run.all());
}

#[test]
fn a_stopped_process_is_not_asleep() {
    let Some(_turn) = turn() else { return };
    // Stopped while running: the longest gap between two clock reads is the duration of the stop.
    let source = r#"
OWN long works(long ns) {
    long begun = now_ns(), last = begun, longest = 0;
    while (last - begun < ns) {
        spin(20000);
        long now = now_ns();
        if (now - last > longest) longest = now - last;
        last = now;
    }
    return longest;
}
int main(void) {
    pid_t child = fork();
    if (child == 0) {
        say("stood", works(1000000000));
        return 0;
    }
    doze(200000000);
    kill(child, SIGSTOP);
    doze(500000000);
    kill(child, SIGCONT);
    waitpid(child, 0, 0);
    return 0;
}"#;
    let run = launch_built("stopped", source, "off-cpu", &[]).ended_with(0);
    let blocks = run.blocks("works", "stopped");
    assert_eq!(blocks.count, 1, "{}", run.all());
    near(&run, blocks.total_ns, run.said("stood"), 2.0, 0);
    assert_eq!(run.time_ns(&["works", "[stopped]"]), blocks.total_ns, "{}", run.all());
    assert_eq!(run.blocks("works", "sleeping").count, 0, "{}", run.all());
}

#[test]
fn waiting_for_a_disk_is_not_sleeping() {
    let Some(_turn) = turn() else { return };
    let source = r#"
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#define BLOCK 4096
static char space[BLOCK] __attribute__((aligned(BLOCK)));
OWN void reads(int file) {
    for (int i = 0; i < 1000; i++)
        if (pread(file, space, BLOCK, (long)(i * 37 % 1000) * BLOCK) != BLOCK) exit(1);
}
int main(int count, char **words) {
    char path[4096];
    struct rusage before, after;
    snprintf(path, sizeof path, "%s.data", words[0]);
    int file = open(path, O_CREAT | O_RDWR, 0600);
    for (int i = 0; i < 1000; i++) if (write(file, space, BLOCK) != BLOCK) return 1;
    fsync(file);
    close(file);
    file = open(path, O_RDONLY | O_DIRECT);
    if (file < 0) { say("refused", errno); return 0; }
    getrusage(RUSAGE_SELF, &before);
    long begun = now_ns(), cpu = thread_cpu_ns();
    reads(file);
    say("elapsed", now_ns() - begun);
    say("off", now_ns() - begun - (thread_cpu_ns() - cpu));
    getrusage(RUSAGE_SELF, &after);
    say("waits", after.ru_nvcsw - before.ru_nvcsw);
    return 0;
}"#;
    let folder = folder();
    let program = build(folder.path(), "reader", source);
    let read = || launch(folder.path(), "off-cpu", &["--min-block", "0"], &program).ended_with(0);
    let first = read();
    if first.said.contains_key("refused") {
        eprintln!("skipped: the file system of temporary files reads through its cache only");
        return;
    }
    if first.said("waits") < 500 {
        eprintln!("skipped: the kernel counts no waits for this disk");
        return;
    }
    // Time taken by a hypervisor has no stack. It does not happen every time.
    let mut runs = iter::once(first).chain(iter::repeat_with(read).take(4));
    let is_complete = runs.any(|run| {
        let (seen_ns, off_ns) = (disk_waits(&run), run.said("off"));
        eprintln!("{seen_ns} ns of {off_ns} have a stack");
        seen_ns * 100 >= off_ns * 95
    });
    assert!(is_complete);
}

/// Checks the recording of `reads`, and sums its off-CPU time.
fn disk_waits(run: &Run) -> u64 {
    let blocks = run.blocks("reads", "io");
    near(run, blocks.count, run.said("waits"), 2.0, 5);
    // The kernel charges part of each switch to CPU time.
    let off_ns = run.time_ns(&["reads"]);
    assert!(off_ns <= run.said("elapsed"), "{}", run.all());
    assert_eq!(run.time_ns(&["reads", "[waiting for I/O]"]), blocks.total_ns, "{}", run.all());
    assert!(blocks.total_ns * 10 >= off_ns * 8, "{}", run.all());
    off_ns + run.time_where_ns(|stack| stack == "reader;[preempted]")
}
