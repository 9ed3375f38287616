//! Blocking calls: read, epoll, futex, poll, waiting for a thread or child.

use crate::{
    support::{as_measured, launch_built},
    target::turn,
};

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
    let Some(_turn) = turn() else { return };
    let run = launch_built("calls", CALLS, "off-cpu", &[]).ended_with(0);
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
