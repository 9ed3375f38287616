//! Off-CPU time in wingbeat's own PID namespace, and in others: the IDs of a thread must be the same at each switch,
//! including the last, after which the kernel has only one of them.

use crate::{
    support::{Run, build, profile},
    target::{namespaced, profile_beside, profile_inside, turn_with_namespaces},
};

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
fn times_of_a_launched_command_add_up_on_both_sides_of_a_namespace() {
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
    }
}

#[test]
fn times_of_a_process_in_the_same_namespace_add_up() {
    let Some((_turn, folder)) = turn_with_namespaces() else { return };
    let program = build(folder.path(), "resting", RESTING);
    for mode in ["off-cpu", "wall"] {
        let flags = ["--mode", mode, "-d", "1s", "--pid"];
        let run = profile_beside(folder.path(), &program, &flags).ended_with(0);
        check_threads(&run, 15);
        assert_eq!(run.threads("resting").len(), 1, "{}", run.all());
    }
}
