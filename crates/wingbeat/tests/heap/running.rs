//! Running processes: samples, older blocks, allocators loaded later.

use std::{fs, thread, time::Duration};

use crate::{
    support::{build, heap, turn_for_heap},
    target::{Background, compile},
};

/// Allocates in two functions until killed: sizes 16 to 4111, and a leak of 1,000 bytes now and then.
const CHURN: &str = r#"
static void *ring[512];
OWN void *various(unsigned i) { return used(malloc(16 + i * 2654435761u % 4096)); }
OWN void leak(void) { used(malloc(1000)); }
int main(void) {
    for (unsigned i = 0;; i++) {
        free(ring[i % 512]);
        ring[i % 512] = various(i);
        if (i % 50 == 0) leak();
        if (i % 20 == 0) wait_ms(1);
    }
}
"#;

#[test]
fn samples_stand_for_all() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let target = Background::start(&build(folder.path(), "churn", CHURN), &[]);
    thread::sleep(Duration::from_millis(300));
    let pid = target.pid();
    let flags = ["-d", "3s", "--budget", "100000", "--sample", "16K", "--pid", &pid];
    let run = heap(folder.path(), &flags, &[]).ended_with(0);
    let calls = |word: &str| -> f64 {
        let line = run.stderr.lines().find(|line| line.contains("  calls ")).expect("calls");
        let before = line.split(word).next().expect("text").trim_end();
        let digits = before.rsplit(' ').next().expect("a number").replace(',', "");
        digits.parse().expect("a number")
    };
    let (various, leak) = (run.of("various"), run.of("leak"));
    // The counts are exact. With some hundred samples, the sum is off by a tenth in one of a thousand runs.
    let expected = calls("allocations") / 51.0 * (50.0 * 2063.5 + 1000.0);
    let found = (various.total.0 + leak.total.0) as f64;
    assert!((found / expected - 1.0).abs() < 0.2, "{found}, {expected}\n{}", run.stderr);
    // The ring holds 512 blocks; a leak grows.
    assert!(various.at_end.0 < various.total.0 / 2, "{various:?}\n{}", run.stderr);
    assert_eq!(leak.at_end, leak.total, "{}", run.stderr);
    assert!(run.stderr.contains("expected to take "), "{}", run.stderr);
    assert!(run.stderr.contains("Perhaps leaks"), "{}", run.stderr);
    let leaks = run.stderr.split("Perhaps leaks").nth(1).expect("leaks");
    assert!(leaks.contains("leak (") && !leaks.contains("various ("), "{}", run.stderr);
}

#[test]
fn blocks_older_than_the_recording_are_not_counted() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let source = r#"
int main(void) {
    void *old[100];
    for (int i = 0; i < 100; i++) old[i] = used(malloc(10000));
    wait_ms(2500);
    for (int i = 0; i < 100; i++) free(old[i]);
    for (int i = 0; i < 10; i++) used(malloc(300));
    wait_ms(100000);
}
"#;
    let target = Background::start(&build(folder.path(), "old", source), &[]);
    let pid = target.pid();
    let run = heap(folder.path(), &["-d", "3s", "--exact", "--pid", &pid], &[]).ended_with(0);
    let main = run.of("main");
    assert_eq!((main.total, main.at_end, main.at_peak), ((3000, 10), (3000, 10), (3000, 10)));
    assert!(run.stderr.contains("100 frees"), "{}", run.stderr);
}

#[test]
fn an_allocator_that_is_loaded_later() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    // A prefixed allocator, as programs bundle them.
    let library = r#"
static char memory[1 << 16];
static size_t taken;
__attribute__((noinline)) void *je_malloc(size_t size) { taken += (size + 15) & ~15ul; return memory + taken - size; }
__attribute__((noinline)) void je_free(void *block) { (void)block; }
"#;
    let library = ["#include <stddef.h>\n", library].concat();
    compile(folder.path(), "later.so", &library, &["-shared", "-fPIC"]);
    let source = r#"
static void *(*allocate)(size_t);
OWN void by_library(void) { for (int i = 0; i < 20; i++) used(allocate(100)); }
int main(int count, char **words) {
    wait_ms(1500);
    void *library = dlopen(words[1], RTLD_NOW);
    if (!library) return 1;
    allocate = (void *(*)(size_t))dlsym(library, "je_malloc");
    void (*release)(void *) = (void (*)(void *))dlsym(library, "je_free");
    wait_ms(1000);
    by_library();
    release(used(allocate(50)));
    return count;
}
"#;
    let path = folder.path().join("later.so");
    let program = build(folder.path(), "loads", source);
    let target = Background::start(&program, &[path.to_str().expect("UTF-8")]);
    let pid = target.pid();
    let run = heap(folder.path(), &["-d", "20s", "--exact", "--pid", &pid], &[]).ended_with(0);
    assert_eq!(run.of("by_library").at_end, (2000, 20), "{}", run.stderr);
    assert_eq!((run.of("main").total, run.of("main").at_end), ((50, 1), (0, 0)), "{}", run.stderr);
}

#[test]
fn a_static_program_with_symbols() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let source = "OWN void own(void) { for (int i = 0; i < 30; i++) used(malloc(100)); } \
                  int main(void) { own(); return 0; }";
    let flags = ["-static", "-fno-builtin"];
    let source = [crate::support::HEAD, source].concat();
    let program = crate::target::build_with(folder.path(), "fixed", &source, &flags);
    let words = [program.to_str().expect("UTF-8")];
    let run = heap(folder.path(), &["--exact", "--"], &words).ended_with(0);
    assert_eq!(run.of("own").at_end, (3000, 30), "{}", run.stderr);
}

#[test]
fn what_is_killed_is_not_in_pieces() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let program = build(folder.path(), "churn", CHURN);
    let mut target = Background::start(&program, &[]);
    let pid = target.pid();
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(2500));
        target.0.kill().expect("killed");
        target.0.wait().expect("it ends");
    });
    let flags = ["-d", "30s", "--budget", "100000", "--sample", "4K", "--pid", &pid];
    let run = heap(folder.path(), &flags, &[]).ended_with(0);
    killer.join().expect("joined");
    assert!(run.of("various").total.0 > 0, "{}", run.stderr);
    assert!(fs::metadata(folder.path().join("out.json")).is_ok_and(|it| it.len() > 0));
}
