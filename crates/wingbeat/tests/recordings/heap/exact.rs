//! Every allocation of a launched program: sums to the byte.

use crate::heap::support::{Sums, build, exact, heap, turn_for_heap};

/// Also calls that fail, blocks that stay, and threads that free what others allocated.
#[test]
fn each_function_of_the_allocator() {
    let source = r#"
OWN void by_malloc(void) { for (int i = 0; i < 1000; i++) used(malloc(100)); }
OWN void by_calloc(void) { for (int i = 0; i < 10; i++) used(calloc(7, 11)); }
OWN void by_memalign(void) {
    used(aligned_alloc(64, 128)); used(memalign(32, 96)); used(valloc(50));
}
OWN void by_posix(void) { void *to; if (posix_memalign(&to, 64, 200) == 0) used(to); }
OWN void by_realloc(void) {
    void *block = realloc(0, 10);
    for (int i = 2; i <= 5; i++) block = realloc(block, i * 1000);
    used(block);
}
OWN void by_reallocarray(void) { used(reallocarray(0, 3, 33)); }
OWN void freed(void) { for (int i = 0; i < 500; i++) free(used(malloc(24))); }
static volatile size_t huge = (size_t)1 << 60;
OWN void fails(void) { used(malloc(huge)); }
OWN void stays(void) { void *block = used(malloc(300)); if (realloc(block, huge)) abort(); }
OWN void gone(void) { used(realloc(used(malloc(400)), 0)); }
OWN void nothing(void) { free(0); used(malloc(0)); }
static void *passed[4][1000];
OWN void *give(void *at) {
    for (int i = 0; i < 1000; i++) passed[(long)at][i] = used(malloc(1 + i % 64));
    return 0;
}
OWN void *take(void *at) {
    for (int i = 0; i < 1000; i++) if (i % 2) free(passed[(long)at][i]);
    return 0;
}
static void all(void *(*work)(void *)) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
}
int main(void) {
    by_malloc(); by_calloc(); by_memalign(); by_posix(); by_realloc(); by_reallocarray(); freed();
    fails(); stays(); gone(); nothing(); all(give); all(take);
    return 0;
}
"#;
    let Some(heap) = exact(source) else { return };
    let check = |function: &str, total: (u64, u64), at_end: (u64, u64)| {
        let found = heap.below(function);
        assert_eq!((found.total, found.at_end), (total, at_end), "{function}\n{}", heap.stderr);
    };
    // It ended before any look at it, but was traced from the first instruction.
    assert!(!heap.stderr.contains("began during"), "{}", heap.stderr);
    check("by_malloc", (100_000, 1000), (100_000, 1000));
    check("by_calloc", (770, 10), (770, 10));
    check("by_memalign", (274, 3), (274, 3));
    check("by_posix", (200, 1), (200, 1));
    // Each change of the size is a separate block.
    check("by_realloc", (14_010, 5), (5000, 1));
    check("by_reallocarray", (99, 1), (99, 1));
    check("freed", (12_000, 500), (0, 0));
    check("fails", (0, 0), (0, 0));
    check("stays", (300, 1), (300, 1));
    check("gone", (400, 1), (0, 0));
    check("nothing", (0, 1), (0, 1));
    let bytes = |is_kept: fn(u64) -> bool| -> u64 {
        4 * (0..1000).filter(|i| is_kept(*i)).map(|i| 1 + i % 64).sum::<u64>()
    };
    check("give", (bytes(|_| true), 4000), (bytes(|i| i % 2 == 0), 2000));
}

#[test]
fn a_process_that_becomes_another_leaves_nothing() {
    let source = r#"
OWN void first(void) { used(malloc(700)); }
OWN void second(void) { used(malloc(900)); }
int main(int count, char **words) {
    if (count > 1) { second(); return 0; }
    first();
    execl(words[0], words[0], "again", (char *)0);
    return 1;
}
"#;
    let Some(heap) = exact(source) else { return };
    assert_eq!((heap.of("first").total, heap.of("first").at_end), ((700, 1), (0, 0)));
    assert_eq!((heap.of("second").total, heap.of("second").at_end), ((900, 1), (900, 1)));
}

/// With two traced processes, the kernel replaces return addresses in both.
#[test]
fn two_processes_reallocate_nothing() {
    let source = r#"
OWN void grow(void) { for (int i = 0; i < 100; i++) used(realloc(0, 50)); }
int main(void) {
    int is_child = fork() == 0;
    wait_ms(700);
    grow();
    wait_ms(300);
    if (is_child) _exit(0);
    wait(0);
    return 0;
}
"#;
    let Some(heap) = exact(source) else { return };
    assert_eq!(heap.of("grow").at_end, (10_000, 200), "{}", heap.stderr);
}

#[test]
fn children_are_followed() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    // Immediate allocations of a child may be missed.
    let source = r#"
OWN void of_child(void) { for (int i = 0; i < 10; i++) used(malloc(1000)); }
int main(void) {
    void *inherited = used(malloc(5000));
    if (fork() == 0) { wait_ms(700); of_child(); free(inherited); _exit(0); }
    wait(0);
    return 0;
}
"#;
    let program = build(folder.path(), "target", source);
    let words = [program.to_str().expect("UTF-8")];
    let both = heap(folder.path(), &["--exact", "--"], &words).ended_with(0);
    assert_eq!(both.of("of_child").at_end, (10_000, 10), "{}", both.stderr);
    assert_eq!(both.of("main").at_end, (5000, 1), "the child freed a copy");
    let alone = heap(folder.path(), &["--exact", "--no-inherit", "--"], &words);
    assert_eq!(alone.of("of_child"), Sums::default(), "{}", alone.stderr);
}

#[test]
fn children_that_end_before_they_are_watched_are_told() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let source = "int main(void) { used(malloc(1000)); return 0; }";
    let child = build(folder.path(), "child", source);
    let script = format!("{0}; {0}", child.display());
    let found = heap(folder.path(), &["--exact", "--"], &["sh", "-c", &script]).ended_with(0);
    let seen = found.stderr.contains("2 processes began during the recording");
    assert!(seen, "{}", found.stderr);
}

#[test]
fn a_process_goes_on_without_its_first_thread() {
    let source = r#"
OWN void late(void) { for (int i = 0; i < 10; i++) used(malloc(100)); }
OWN void *work(void *none) { wait_ms(700); late(); return none; }
int main(void) { pthread_t other; pthread_create(&other, 0, work, 0); pthread_exit(0); }"#;
    let Some(heap) = exact(source) else { return };
    assert_eq!(heap.of("late").at_end, (1000, 10), "{}", heap.stderr);
}
