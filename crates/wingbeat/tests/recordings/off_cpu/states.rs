//! Why a thread is off the CPU: distinguishes asleep, preempted, stopped, and waiting for a disk.

use std::iter;

use crate::{
    off_cpu::support::{Run, as_measured, build, launch, near, recorded},
    target::turn_in_folder,
};

#[test]
fn two_busy_threads_on_one_cpu_are_preempted_half_of_their_time() {
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
    let Some(run) = recorded("starved", source, "wall", &[]) else { return };
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
    let Some(run) = recorded("stopped", source, "off-cpu", &[]) else { return };
    let blocks = run.blocks("works", "stopped");
    assert_eq!(blocks.count, 1, "{}", run.all());
    near(&run, blocks.total_ns, run.said("stood"), 2.0, 0);
    assert_eq!(run.time_ns(&["works", "[stopped]"]), blocks.total_ns, "{}", run.all());
    assert_eq!(run.blocks("works", "sleeping").count, 0, "{}", run.all());
}

#[test]
fn waiting_for_a_disk_is_not_sleeping() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
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

// Mutex contention: who waits where, and who releases it.

/// The holder keeps the mutex for 7 ms while the waiter wants it, sixty times.
const CONTENTION: &str = r#"
#include <semaphore.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t held, again;
OWN void lets_go(void) { pthread_mutex_unlock(&mutex); }
OWN void keeps(void) { doze(7000000); }
OWN void hands_out(sem_t *to) { sem_post(to); }
OWN void takes(void) { pthread_mutex_lock(&mutex); }
static void *holder(void *unused) {
    pthread_setname_np(pthread_self(), "holder");
    for (int i = 0; i < 60; i++) {
        takes();
        hands_out(&held);
        keeps();
        lets_go();
        sem_wait(&again);
    }
    return unused;
}
OWN long wants(void) { long begun = now_ns(); pthread_mutex_lock(&mutex); return now_ns() - begun; }
static void *waiter(void *unused) {
    long total = 0;
    pthread_setname_np(pthread_self(), "waiter");
    for (int i = 0; i < 60; i++) {
        sem_wait(&held);
        total += wants();
        pthread_mutex_unlock(&mutex);
        hands_out(&again);
    }
    say("waited", total);
    return unused;
}
int main(void) {
    pthread_t threads[2];
    sem_init(&held, 0, 0);
    sem_init(&again, 0, 0);
    pthread_create(&threads[0], 0, holder, 0);
    pthread_create(&threads[1], 0, waiter, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}"#;

#[test]
fn a_waiter_for_a_mutex_is_seen_in_its_function_and_its_waker_on_request() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = build(folder.path(), "contention", CONTENTION);
    let run = launch(folder.path(), "off-cpu", &[], &program).ended_with(0);
    let blocks = run.blocks("wants", "sleeping");
    // On a busy machine the waiter may be so late that the mutex is free.
    assert!((50..=60).contains(&blocks.count), "{}", run.all());
    near(&run, blocks.total_ns, run.said("waited"), 2.0, run.blocks("wants", "preempted").total_ns);
    near(&run, blocks.p50_ns, 7_000_000, 15.0, 0);
    let whole = |stack: &str| {
        let (user, kernel) = stack.split_once(";wants;").unwrap_or_default();
        user.contains(";waiter") && kernel.contains("lock") && kernel.contains("futex_wait_[k]")
    };
    assert!(run.folded.iter().any(|(stack, _)| whole(stack)), "{}", run.all());
    assert_eq!(run.time_with_ns("[woken by"), 0, "nobody asked for wakers");

    // The holder is named, with the function that lets go.
    let run = launch(folder.path(), "off-cpu", &["--wakers"], &program);
    let waited_ns = run.time_ns(&["wants", "[sleeping]"]);
    near(&run, waited_ns, run.said("waited"), 2.0, run.blocks("wants", "preempted").total_ns);
    let woken = |stack: &str| {
        let (own, waker) = stack.split_once(";[sleeping];[woken by holder];").unwrap_or_default();
        own.contains(";wants;") && waker.contains(";lets_go;") && !waker.contains(";wants;")
    };
    let by_holder_ns = run.time_where_ns(woken);
    assert!(by_holder_ns * 10 >= waited_ns * 9, "{by_holder_ns} of {waited_ns}: {}", run.all());
    // The other way round, the waiter wakes the holder.
    let hands_out =
        |stack: &str| stack.contains(";[woken by waiter];") && stack.contains(";hands_out;");
    assert!(run.folded.iter().any(|(stack, _)| hands_out(stack)), "{}", run.all());
}

// Blocking calls: read, epoll, futex, poll, waiting for a thread or child.

const CALLS: &str = r#"
#include <poll.h>
#include <sys/epoll.h>
static int ends[2];
static void *writer(void *unused) {
    for (int i = 0; i < 20; i++) { doze(10000000); if (write(ends[1], "x", 1) != 1) exit(1); }
    return unused;
}
#define MEASURED(name, count, call) \
    OWN void name(void) { \
        long total = 0; \
        for (int i = 0; i < count; i++) { \
            long begun = now_ns(); \
            call; \
            total += now_ns() - begun; \
        } \
        say(#name, total); \
    }
static int epoll;
static struct epoll_event event;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static void wait_for_never(void) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += 15000000;
    if (end.tv_nsec >= 1000000000) { end.tv_sec++; end.tv_nsec -= 1000000000; }
    pthread_mutex_lock(&mutex);
    pthread_cond_timedwait(&never, &mutex, &end);
    pthread_mutex_unlock(&mutex);
}
static char byte;
MEASURED(in_read, 20, if (read(ends[0], &byte, 1) != 1) exit(1))
MEASURED(in_epoll, 20, epoll_wait(epoll, &event, 1, 15))
MEASURED(in_poll, 20, poll(0, 0, 15))
MEASURED(in_condvar, 20, wait_for_never())
static pthread_t thread;
static void *short_lived(void *unused) { doze(100000000); return unused; }
MEASURED(in_join, 1, pthread_join(thread, 0))
int main(void) {
    if (pipe(ends)) return 1;
    pthread_create(&thread, 0, writer, 0);
    in_read();
    pthread_join(thread, 0);
    epoll = epoll_create1(0);
    in_epoll();
    in_poll();
    in_condvar();
    pthread_create(&thread, 0, short_lived, 0);
    in_join();
    return 0;
}"#;

#[test]
fn each_call_has_its_stack_and_time() {
    let Some(run) = recorded("calls", CALLS, "off-cpu", &[]) else { return };
    for (function, count, kernel) in [
        ("in_read", 20, "pipe_read"),
        ("in_epoll", 20, "epoll_wait"),
        ("in_poll", 20, "sys_poll"),
        ("in_condvar", 20, "futex_wait"),
        ("in_join", 1, "futex_wait"),
    ] {
        as_measured(&run, function, "sleeping", count, run.said(function));
        // Kernel symbols get prefixes and suffixes between versions.
        let is_there = |stack: &str| {
            let frames = stack.split(';').filter(|frame| frame.ends_with("_[k]"));
            stack.contains(&format!(";{function};"))
                && stack.ends_with(";[sleeping]")
                && frames.into_iter().any(|frame| frame.contains(kernel))
        };
        let in_kernel = run.time_where_ns(is_there);
        // A return that the kernel did not report has no kernel stack, and nothing else lacks it.
        let is_without = |stack: &str| {
            stack.contains(&format!(";{function};"))
                && stack.ends_with(";[sleeping]")
                && !stack.contains("_[k];")
        };
        let without_ns = run.time_where_ns(is_without);
        let blocks = run.blocks(function, "sleeping");
        let with_count = run.blocks_in(&[function, kernel], "sleeping").count;
        assert!(blocks.count - with_count <= run.untold(), "{kernel}: {}", run.all());
        assert_eq!(in_kernel + without_ns, blocks.total_ns, "{kernel}: {}", run.all());
    }
}
