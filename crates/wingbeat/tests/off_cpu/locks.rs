//! Mutex contention: who waits where, and who releases it.

use crate::{
    support::{launch_built, near},
    target::turn,
};

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
fn a_waiter_for_a_mutex_is_seen_in_its_function_and_in_the_kernel_s() {
    let Some(_turn) = turn() else { return };
    let run = launch_built("contention", CONTENTION, "off-cpu", &[]).ended_with(0);
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
}

#[test]
fn the_holder_is_named_as_the_waker_with_the_function_that_lets_go() {
    let Some(_turn) = turn() else { return };
    let run = launch_built("contention", CONTENTION, "off-cpu", &["--wakers"]);
    let waited_ns = run.time_ns(&["wants", "[sleeping]"]);
    near(&run, waited_ns, run.said("waited"), 2.0, run.blocks("wants", "preempted").total_ns);
    let woken = |stack: &str| {
        let (own, waker) = stack.split_once(";[sleeping];[woken by holder];").unwrap_or_default();
        own.contains(";wants;") && waker.contains(";lets_go;") && !waker.contains(";wants;")
    };
    let by_holder_ns = run.time_where_ns(woken);
    assert!(by_holder_ns * 10 >= waited_ns * 9, "{by_holder_ns} of {waited_ns}: {}", run.all());
    // The other way round, the waiter wakes the holder.
    let hands_out = run
        .folded
        .iter()
        .any(|(stack, _)| stack.contains(";[woken by waiter];") && stack.contains(";hands_out;"));
    assert!(hands_out, "{}", run.all());
}
