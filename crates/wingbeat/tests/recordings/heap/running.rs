//! Running processes: samples, older blocks, allocators loaded later.

use std::{fs, process::Command, thread, time::Duration};

use crate::{
    heap::support::{HEAD, build, command, exact, heap, turn_for_heap},
    ran::{Ran, without_rights},
    target::{Background, build_with, compile, has_namespaces},
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

// Unsupported targets, and rejected flags.

#[test]
fn outputs_that_cannot_be_written() {
    let wingbeat = |words: &[&str]| {
        Ran::of(Command::new(env!("CARGO_BIN_EXE_wingbeat")).arg("heap").args(words))
    };
    wingbeat(&["-o", "x.json", "-o", "./x.json", "true"]).ended_with(2).tells("given twice");
    wingbeat(&["-o", "nowhere/x.json", "true"]).ended_with(1).tells("no folder nowhere");
}

#[test]
fn targets_that_are_none() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let absent = ["--pid", "4194304"];
    Ran::of(&mut command(folder.path(), &absent)).ended_with(1).tells("no process has the PID");
    let no_command = ["--", "./no-such-command"];
    Ran::of(&mut command(folder.path(), &no_command)).ended_with(1).tells("cannot run");
    assert!(!folder.path().join("out.json").exists());
}

#[test]
fn a_program_without_symbols() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let source = "int main(void) { for (;;) { free(used(malloc(10))); wait_ms(10); } }";
    let flags = ["-static", "-s"];
    let program = build_with(folder.path(), "bare", &[HEAD, source].concat(), &flags);
    let target = Background::start(&program, &[]);
    thread::sleep(Duration::from_millis(300));
    let pid = target.pid();
    let ran = Ran::of(&mut command(folder.path(), &["-d", "1s", "--pid", &pid]));
    ran.ended_with(1).tells("no allocator that wingbeat knows").tells_in_one_line();
    assert!(!folder.path().join("out.json").exists());
}

#[test]
fn a_target_that_would_be_too_slow() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let source = "int main(void) { for (;;) free(used(malloc(10))); }";
    let target = Background::start(&build(folder.path(), "busy", source), &[]);
    thread::sleep(Duration::from_millis(300));
    let pid = target.pid();
    let ran = Ran::of(&mut command(folder.path(), &["-d", "1s", "--pid", &pid]));
    ran.ended_with(1).tells_all(&["the budget is 10 %", "--budget"]).tells_in_one_line();
    assert!(!folder.path().join("out.json").exists());
}

#[test]
fn without_the_rights() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let mut wingbeat = without_rights(folder.path());
    wingbeat.args(["heap", "--", "true"]);
    Ran::of(&mut wingbeat).ended_with(1).tells("CAP_BPF and CAP_PERFMON").tells_in_one_line();
}

// Sandboxed targets: by seccomp, by namespaces.

const FLAGS: [&str; 5] = ["-d", "1s", "--exact", "--budget", "100000"];

/// A process that allocates below `fenced` until killed.
const LOOP: &str = "OWN void fenced(void) { free(used(malloc(100))); used(malloc(10)); }\n";

#[test]
fn a_filter_that_kills_at_any_other_system_call() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    // The system call of return probes (`uretprobe`, Linux 6.11) is not on the list.
    let source = r#"
#include <stddef.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#define ALLOW(NAME) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##NAME, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
int main(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(clock_nanosleep), ALLOW(brk), ALLOW(mmap), ALLOW(munmap), ALLOW(exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    // The first call asks for random numbers.
    fenced();
    struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 1;
    struct timespec ms = { 0, 1000000 };
    for (int i = 0; i < 4000; i++) { fenced(); clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, 0); }
    return 0;
}"#;
    let program = build(folder.path(), "filtered", &[LOOP, source].concat());
    let mut target = Background::start(&program, &[]);
    let pid = target.pid();
    let run = heap(folder.path(), &[&FLAGS[..], &["--pid", &pid]].concat(), &[]).ended_with(0);
    let fenced = run.of("fenced");
    assert!(fenced.total.1 > 100 && fenced.at_end.1 > 50, "{fenced:?}\n{}", run.stderr);
    let ended = target.0.wait().expect("the end of the target");
    assert!(ended.success(), "it ended by {ended}");
}

#[test]
fn a_program_that_only_its_own_mounts_and_namespaces_know() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    if !has_namespaces() {
        return;
    }
    // Static, so that its allocator is in a file that only it can see.
    let source = "int main(void) { for (;;) { fenced(); wait_ms(1); } }";
    let flags = ["-static", "-fno-builtin"];
    let program = build_with(folder.path(), "inside", &[HEAD, LOOP, source].concat(), &flags);
    let program = program.to_str().expect("UTF-8");
    let script =
        format!("mount -t tmpfs none /mnt && cp {program} /mnt/hidden && exec /mnt/hidden");
    let words = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", &script];
    let target = Background::start("unshare".as_ref(), &words);
    thread::sleep(Duration::from_millis(500));
    let pid = target.pid();
    let run = heap(folder.path(), &[&FLAGS[..], &["--pid", &pid]].concat(), &[]).ended_with(0);
    let fenced = run.of("fenced");
    assert!(fenced.total.1 > 100 && fenced.at_end.1 > 50, "{fenced:?}\n{}", run.stderr);
}

// The text output: which function is blamed, what counts as a leak, and the reliability of figures.

/// The part of a text below a title.
fn below<'a>(text: &'a str, title: &str) -> &'a str {
    let rest = text.split_once(title).unwrap_or_else(|| panic!("no {title:?} in {text}")).1;
    rest.split("\n\n").next().expect("a part")
}

#[test]
fn who_calls_a_wrapper_is_blamed() {
    // Nested calls, like `strdup` of a library with its own allocator.
    let source = r#"
#include <string.h>
OWN void *zmalloc(size_t size) { return used(malloc(size)); }
OWN char *zstrdup(const char *text) { char *copy = zmalloc(strlen(text) + 1); strcpy(copy, text); return copy; }
OWN void answer(void) { free(used(zmalloc(20000))); }
OWN void remember(void) { used(zmalloc(5000)); }
OWN void name(void) { used(zstrdup("a name that stays")); }
OWN void title(void) { free(used(zstrdup("another"))); }
// In parts, of which one is called by the next alone.
OWN void *part(size_t size) { return used(malloc(size)); }
OWN void *whole(size_t size) { return used(part(size)); }
OWN void ask(void) { free(used(whole(90))); }
OWN void note(void) { used(whole(60)); }
// Not a wrapper: it is one thing to both who call it.
OWN void *session(void) { return used(malloc(700)); }
OWN void log_in(void) { session(); }
OWN void sign_up(void) { session(); }
int main(void) {
    for (int i = 0; i < 50; i++) { answer(); remember(); name(); title(); log_in(); sign_up(); ask(); note(); }
    return 0;
}
"#;
    let Some(heap) = exact(source) else { return };
    let text = heap.stderr;
    let check = |title: &str, expected: &[&str], absent: &[&str]| {
        let found = below(&text, title);
        let has = |row: &&&str| found.lines().any(|line| line.contains(**row));
        assert!(expected.iter().all(|row| has(&row)), "{expected:?} in {text}");
        assert!(!absent.iter().any(|row| has(&row)), "none of {absent:?} in {text}");
    };
    let kept =
        ["250 KB", "remember (target.c:", "← main, by zmalloc", "name (target.c:", ", by zstrdup"];
    check("Most bytes live at the end", &kept, &["answer (", "title ("]);
    check("Most bytes live at the peak", &["answer (target.c:"], &[]);
    check("Most bytes allocated", &["1,000 KB", "answer (target.c:", "session (target.c:"], &[]);
    check(
        "Perhaps leaks",
        &[
            "remember (target.c:",
            "name (target.c:",
            "← log_in and 1 more",
            "note (target.c:",
            "by whole",
        ],
        &["answer (", "title (", "zmalloc (", "zstrdup ("],
    );
}

#[test]
fn how_far_figures_can_be_trusted() {
    let Some((_turn, folder)) = turn_for_heap() else { return };
    let check = |source: &str, expected: &[&str], absent: &[&str]| {
        let program = build(folder.path(), "target", source);
        let mut command = command(folder.path(), &["--exact", "--"]);
        let ran = Ran::of(command.arg(program));
        assert!(expected.iter().all(|text| ran.stderr.contains(text)), "{}", ran.stderr);
        assert!(!absent.iter().any(|text| ran.stderr.contains(text)), "{}", ran.stderr);
    };
    check(
        "static volatile size_t huge = (size_t)1 << 62; \
         int main(void) { for (int i = 0; i < 9; i++) malloc(huge); used(malloc(104857600)); return 0; }",
        &[
            "10 allocations, 0 frees",
            "of which 9 got no block",
            "105 MB in 1 block",
            "which is the peak",
        ],
        &["at least", "at most", "memory-elsewhere"],
    );
    // Memory that no probe sees.
    check(
        "#include <string.h>\n#include <sys/mman.h>\nint main(void) { used(malloc(100)); for (int i = 0; i < 50; i++) \
         memset(mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 1 << 20); \
         wait_ms(300); return 0; }",
        &["the memory of the target grew by", "`wingbeat profile --mode pages`"],
        &[],
    );
    check(
        "int main(void) { if (fork()) { wait_ms(300); return 0; } for (int i = 0; i < 20; i++) { wait_ms(100); \
         used(malloc(100)); } return 0; }",
        &["total   at least ", "and its child target (PID ", " runs on", "--pid "],
        &[],
    );
}
