//! Stacks of programs compiled without frame pointers.

use std::{
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use crate::{
    profile::support::{Run, build_with, compile, launch, profile, turn_in_folder},
    target::{Background, WITH_FRAME_POINTERS, emulation_percent},
};

/// Default compiler flags, with tail calls disabled.
pub(crate) const BARE: &[&str] = &["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"];

/// Three functions without frame pointers.
const NESTED: &str = r#"
OWN long inner(long a, long b, long c) { long sum = 0; for (volatile long i = 0; i < 1000; i++) sum += a * i + b; return sum + c; }
OWN long middle(long a) { long b = inner(a, a + 1, a + 2); return b + inner(b, b, a); }
int main(void) { long sum = 0; while (cpu_s() < 1) for (int i = 0; i < 100; i++) sum += middle(sum); return sum == 42; }"#;

/// At most one stack in 200 is incomplete, plus one. On an emulated machine, tables come late.
fn is_whole(run: &Run) {
    let broken = run.number("/stacks/broken") + run.number("/stacks/truncated");
    let limit = run.samples() as f64 * (0.5 + emulation_percent()) / 100.0 + 1.0;
    assert!(broken as f64 <= limit, "{}", run.summary);
    assert!(!run.stderr.contains("too early"), "{}", run.stderr);
}

fn run(folder: &Path, name: &str, source: &str, flags: &[&str], options: &[&str]) -> Run {
    let program = build_with(folder, name, source, &[BARE, flags].concat());
    launch(folder, &[&["-F", "499"], options].concat(), &program, &[])
}

#[test]
fn a_program_without_frame_pointers_is_whole() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    for (name, flags) in [("bare", &[][..]), ("static", &["-static"]), ("pie", &["-static-pie"])] {
        // There is room for the tables of a small program.
        let run = run(folder.path(), name, NESTED, flags, &["--unwind-memory", "1M"]);
        is_whole(&run);
        let tower = format!("{name};_start;");
        assert!(run.percent_with(&tower) > 99.0, "{name}: {:?}", run.folded);
        assert!(run.percent_with(";main;middle;inner") > 95.0, "{name}: {:?}", run.folded);
        assert_eq!(run.number("/unwind/tables/limit_bytes"), 1 << 20);
        assert_eq!(run.number("/unwind/tables/refused"), 0, "{}", run.summary);
    }
    is_whole(&run(folder.path(), "stripped", NESTED, &["-s"], &[]));
    // Without section headers, program headers locate the call frame information.
    let program = folder.path().join("stripped");
    let mut bytes = std::fs::read(&program).expect("program");
    bytes[0x28..0x30].fill(0);
    bytes[0x3a..0x40].fill(0);
    std::fs::write(&program, bytes).expect("program");
    is_whole(&launch(folder.path(), &["-F", "499"], &program, &[]));
}

/// A chain of eight named functions, repeated `depth` times.
const DEEP: &str = r#"
#define CALLS(name, called) OWN long name(long depth) { long sum = called(depth); return sum + depth; }
OWN long again(long depth);
CALLS(seventh, again) CALLS(sixth, seventh) CALLS(fifth, sixth) CALLS(fourth, fifth)
CALLS(third, fourth) CALLS(second, third) CALLS(first, second)
OWN long leaf(long n) { for (volatile long i = 0; i < 20000; i++) n += i; return n; }
OWN long again(long depth) { return depth ? first(depth - 1) + 1 : leaf(depth) + 1; }
int main(void) { long sum = 0; while (cpu_s() < 1) for (int i = 0; i < 10; i++) sum += first(4); return sum == 42; }"#;

/// Frame pointers miss the caller of a leaf function on processors where a call leaves the return address in a
/// register.
#[test]
fn a_deep_chain_is_whole_in_its_order_by_every_way() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let round = ";first;second;third;fourth;fifth;sixth;seventh;again";
    let tower = format!(";main{};leaf", round.repeat(5));
    let mut ways = vec![
        ("bare", BARE, "auto"),
        ("bare", BARE, "table"),
        ("framed", WITH_FRAME_POINTERS, "auto"),
        ("framed", WITH_FRAME_POINTERS, "table"),
    ];
    const SIGNED: &[&str] = &["-mbranch-protection=standard", "-fno-optimize-sibling-calls"];
    if cfg!(target_arch = "aarch64") {
        let more = ["auto", "table", "frame-pointer"].map(|unwind| ("signed", SIGNED, unwind));
        ways.extend(more);
    }
    for (name, flags, unwind) in ways {
        let program = build_with(folder.path(), name, DEEP, flags);
        let run = launch(folder.path(), &["-F", "499", "--unwind", unwind], &program, &[]);
        is_whole(&run);
        let wanted = if unwind == "frame-pointer" {
            tower.replace("again;leaf", "leaf")
        } else {
            tower.clone()
        };
        // Some samples are on the way there.
        let (whole, all) = (run.percent_with(&wanted), run.percent_with(";leaf"));
        assert!(all > 90.0, "{name} {unwind}: {all} %, {:?}", run.folded);
        assert!(whole > 0.995 * all, "{name} {unwind}: {whole} of {all} %, {:?}", run.folded);
    }
}

/// Regardless of the number of its mappings: they are searched step by step.
#[test]
fn a_process_that_runs_already_is_whole() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
#include <sys/mman.h>
OWN long inner(long a) { long sum = 0; for (volatile long i = 0; i < 1000; i++) sum += a * i; return sum; }
OWN long middle(long a) { return inner(a) + inner(a + 1); }
int main(int count, char **words) {
    long sum = 0;
    for (int i = atoi(words[1]); i > 0; i--) {
        // With a page between them that is not run.
        char *place = mmap(0, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mprotect(place, 4096, PROT_READ | PROT_EXEC)) return 1;
    }
    while (count) sum += middle(sum);
    return sum == 42;
}"#;
    let program = build_with(folder.path(), "runs", source, BARE);
    for mappings in ["0", "1", "2", "3"] {
        let running = Background::start(&program, &[mappings]);
        thread::sleep(Duration::from_millis(100));
        let pid = running.pid();
        let run = profile(folder.path(), &["-F", "499", "-d", "500ms", "--pid", &pid], &[]);
        is_whole(&run);
        assert!(run.percent_with("runs;_start;") > 99.0, "{mappings}: {:?}", run.folded);
    }
}

/// Most of their time is in `fork`, `execve` and exit, where the memory of one program is gone, and that of the next is
/// not mapped yet.
#[test]
fn processes_of_a_millisecond_are_whole() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let script = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i + 1)); done";
    let run = profile(folder.path(), &["-F", "4999"], &["sh", "-c", script]).ended_with(0);
    let complete = run.number("/stacks/complete") as f64 / run.samples() as f64;
    assert!(complete * 100.0 > 98.0 - emulation_percent(), "{}", run.summary);
}

/// Two threads in the C library, which has no call frame information there: sorting, printing, copying, allocating,
/// sleeping, and starting other threads.
const IN_THE_LIBRARY: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static int less(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static void *nothing(void *x) { return x; }
__attribute__((noinline)) static void turn(void) {
    static __thread char text[30000], copy[30000];
    static __thread int values[2000];
    for (int i = 0; i < 2000; i++) values[i] = i * 7919 % 2000;
    qsort(values, 2000, sizeof *values, less);
    for (int i = 0; i < 200; i++) snprintf(text, sizeof text, "%d %s %.3f", i, "text", i * 1.5);
    for (int i = 0; i < 100; i++) { memcpy(copy, text, sizeof copy); memmove(text + 1, copy, 20000); free(malloc(17 * i)); }
    struct timespec pause = { 0, 50000 };
    nanosleep(&pause, 0);
    pthread_t other;
    if (!pthread_create(&other, 0, nothing, 0)) pthread_join(other, 0);
}
static void *work(void *x) {
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do { turn(); clock_gettime(CLOCK_MONOTONIC, &now); } while (now.tv_sec - begun.tv_sec < 2);
    return x;
}
int main(void) {
    // The table of such a library takes longer than others.
    struct timespec pause = { 0, 400000000 };
    nanosleep(&pause, 0);
    pthread_t other;
    pthread_create(&other, 0, work, 0); work(0);
    return pthread_join(other, 0);
}"#;

#[test]
fn a_c_library_without_call_frame_information_is_whole() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = folder.path().join("library.c");
    std::fs::write(&source, IN_THE_LIBRARY).expect("source");
    for (name, flags) in
        [("fixed", &["-static"][..]), ("bare", &["-static", "-s"]), ("dynamic", &[])]
    {
        let program = folder.path().join(name);
        let mut compiler = Command::new("musl-gcc");
        let Ok(output) =
            compiler.args(BARE).args(flags).arg("-o").arg(&program).arg(&source).output()
        else {
            eprintln!("skipped: there is no musl-gcc (package musl-tools)");
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let run = launch(folder.path(), &["-F", "999"], &program, &[]);
        is_whole(&run);
        assert!(run.samples() > 100, "{}", run.summary);
        if name == "fixed" {
            assert!(run.percent_with("_start;") > 20.0, "{:?}", run.folded);
            assert!(run.percent_with(";work;turn;") > 60.0, "{:?}", run.folded);
        }
    }
}

/// Two mutually recursive functions, on two threads.
const PLAIN: &str = include_str!("plain/main.rs");

/// The program of [`PLAIN`]; none without a compiler, as in guests, unless `cargo xtask vm` has built it for them.
fn plain(folder: &Path) -> Option<PathBuf> {
    if let Some(built) = std::env::var_os("WINGBEAT_TEST_PLAIN") {
        return Some(built.into());
    }
    // The crate's name comes from it.
    let file = folder.join("work_plain.rs");
    std::fs::write(&file, PLAIN).expect("source");
    let program = folder.join("work-plain");
    let mut rustc = Command::new("rustc");
    rustc.args(["-C", "opt-level=3", "-C", "force-frame-pointers=no", "-o"]);
    let output = rustc.arg(&program).arg(&file).output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

#[test]
fn a_rust_program_built_as_cargo_does_is_whole() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let Some(program) = plain(folder.path()) else { return };
    for unwind in ["auto", "table"] {
        let run = launch(folder.path(), &["-F", "499", "--unwind", unwind], &program, &[]);
        is_whole(&run);
        assert!(run.percent_with("_start;") > 30.0, "{unwind}: {:?}", run.folded);
        let share = run.percent_with(";work_plain::middle;work_plain::leaf");
        assert!(share > 90.0, "{unwind}: {:?}", run.folded);
    }
}

#[test]
fn a_signal_is_on_top_of_what_it_interrupted() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
#include <signal.h>
#include <sys/time.h>
static volatile long handled;
OWN void works(void) { spin(1500000); }
OWN void handler(int number) { works(); handled += number; }
// Long enough that the first tenth of a second, which an emulated machine takes for the tables, is little.
OWN void loops(void) { while (cpu_s() < 5) spin(100000); }
static char stack[1 << 16];
int main(void) {
    stack_t other = { .ss_sp = stack, .ss_size = sizeof stack };
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
    if (sigaltstack(&other, 0) || sigaction(SIGALRM, &action, 0)) return 1;
    struct itimerval often = { { 0, 20000 }, { 0, 20000 } };
    if (setitimer(ITIMER_REAL, &often, 0)) return 1;
    loops();
    return handled == 0;
}"#;
    let run = run(folder.path(), "signals", source, &[], &[]);
    is_whole(&run);
    // A copy of the handler's stack does not include the interrupted stack.
    let wanted = 99.0 - emulation_percent();
    assert!(run.percent_with("signals;_start;") > wanted, "{:?}", run.folded);
    let is_nested = |stack: &str| {
        let place = |name: &str| stack.find(name);
        let order = [";main;loops", ";handler;works"].map(place);
        order[0].is_some() && order[0] < order[1]
    };
    let nested = run.folded.iter().filter(|(stack, _)| is_nested(stack));
    let nested: u64 = nested.map(|(_, count)| count).sum();
    let handled = run.samples_with(";handler;works");
    assert!(
        handled > 4 && nested as f64 >= handled as f64 * wanted / 100.0,
        "{nested} of {handled}: {:?}",
        run.folded
    );
    // If libc has symbols, the signal trampoline has one too.
    if run.samples_with(";__libc_start_call_main;") > 0 {
        assert_eq!(run.samples_with(";__restore_rt;handler"), run.samples_with(";handler"));
    }
}

#[test]
fn what_cannot_be_walked_is_blamed() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    // Neither the code nor a frame pointer shows how much `odd` pops off the stack.
    #[cfg(target_arch = "aarch64")]
    let source = r#"
asm(".text; .globl odd; .type odd, %function\n"
    "odd: stp x29, x30, [sp, #-32]!; str x19, [sp, #16]; adrp x19, taken; ldr x19, [x19, #:lo12:taken]; sub sp, sp, x19; mov x29, #1; "
    "blr x0; add sp, sp, x19; ldr x19, [sp, #16]; ldp x29, x30, [sp], #32; ret");
long taken = 64;
void odd(void (*called)(void));
OWN void works(void) { while (cpu_s() < 1) spin(100000); }
int main(void) { odd(works); return 0; }"#;
    #[cfg(not(target_arch = "aarch64"))]
    let source = r#"
asm(".text; .globl odd; .type odd, @function\n"
    "odd: push %rbp; mov taken(%rip), %rax; sub %rax, %rsp; mov $1, %ebp; call *%rdi; add taken(%rip), %rsp; pop %rbp; ret");
long taken = 64;
void odd(void (*called)(void));
OWN void works(void) { while (cpu_s() < 1) spin(100000); }
int main(void) { odd(works); return 0; }"#;
    let check = |source: &str, options: &[&str], expected: [&str; 2]| {
        let run = run(folder.path(), "bare", source, &[], options);
        assert!(run.number("/stacks/broken") * 2 > run.samples(), "{}", run.summary);
        for text in expected {
            assert!(run.stderr.contains(text), "{}", run.stderr);
        }
    };
    let missing = "missing unwind information and frame pointers in bare";
    check(source, &[], [missing, "-fno-omit-frame-pointer"]);
    // Elsewhere the C library's frame pointer is still in its register, and skips all callers.
    if cfg!(target_arch = "x86_64") {
        let by_frame_pointers = ["--unwind", "frame-pointer"];
        check(NESTED, &by_frame_pointers, ["missing frame pointers in", "use --unwind auto"]);
    }
}

/// Sixty thousand functions of 64 bytes, which save two registers and call their argument; and calls of all of them.
/// Their tables take more than 1 MiB.
const MANY: &str = r#"
__asm__(".text\n.p2align 6\n.globl many\n.type many, @function\nmany:\n"
        ".rept 60000\n.p2align 6\n.cfi_startproc\n"
        "push %rbx\n.cfi_adjust_cfa_offset 8\npush %r12\n.cfi_adjust_cfa_offset 8\n"
        "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\ncall *%rdi\nadd $8, %rsp\n.cfi_adjust_cfa_offset -8\n"
        "pop %r12\n.cfi_adjust_cfa_offset -8\npop %rbx\n.cfi_adjust_cfa_offset -8\nret\n"
        ".cfi_endproc\n.endr\n.size many, .-many\n");
extern const char many[];
OWN void works(void) { spin(200000); }
OWN void loops(void) {
    for (unsigned long i = 0; cpu_s() < 3; i += 7919)
        ((void (*)(void (*)(void)))(many + i % 60000 * 64))(works);
}
int main(void) { loops(); return 0; }"#;

#[test]
fn stacks_are_whole_when_tables_find_no_room() {
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let check = |memory: &str, is_tight: bool| {
        let run = run(folder.path(), "many", MANY, &[], &["--unwind-memory", memory]);
        is_whole(&run);
        let share = run.percent_with(";main;loops;many;works;spin");
        assert!(share > 95.0 - emulation_percent(), "{memory}: {:?}", run.folded);
        let [refused, evicted, rebuilt] =
            ["refused", "evicted", "rebuilt"].map(|of| run.number(&format!("/unwind/tables/{of}")));
        assert_eq!(refused + evicted > 0, is_tight, "{memory}: {}", run.summary);
        // Each table is rebuilt at most after 1 and 2 seconds.
        assert!(rebuilt <= 3 * run.number("/unwind/tables/files"), "{memory}: {}", run.summary);
        let is_warned = run.stderr.contains("the unwind tables did not fit into 1M")
            && run.stderr.contains("use a larger --unwind-memory");
        assert_eq!(is_warned, is_tight, "{memory}: {}", run.stderr);
    };
    check("1M", true);
    check("64M", false);
}

#[test]
fn a_library_of_assembly_without_any_entry() {
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
__asm__(".globl outer\n.type outer,@function\nouter: push %rbx\npush %r12\nmov $100000,%ecx\n"
        "1: dec %ecx\njnz 1b\npop %r12\npop %rbx\nret\n.size outer,.-outer\n");"#;
    let flags = ["-shared", "-fPIC", "-nostdlib", "-g0", "-fno-asynchronous-unwind-tables"];
    compile(folder.path(), "libouter.so", source, &flags);
    let source = "void outer(void); OWN void calls(void) { while (cpu_s() < 1) for (int i = 0; i < 99; i++) outer(); } \
                  int main(void) { calls(); return 0; }";
    let here = folder.path().to_str().expect("UTF-8");
    let flags = ["-fomit-frame-pointer", "-L", here, "-louter", &format!("-Wl,-rpath,{here}")];
    let program = build_with(folder.path(), "calls_assembly", source, &flags);
    let run = launch(folder.path(), &["-F", "499"], &program, &[]);
    assert!(run.percent_with(";main;calls;outer") > 90.0, "{:?}", run.folded);
}

/// Like programs that move their code to huge pages: mapped empty, then copied, then protected.
#[test]
fn code_that_was_copied_over_itself() {
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
#include <sys/mman.h>
extern const char move_code[], move_end[];
__asm__("move_code: push %rbx\npush %r12\npush %r13\npush %r14\nmov %rdi,%rbx\nmov %rsi,%r12\nmov %rdx,%r13\n"
        "mov $9,%eax\nmov $7,%edx\nmov $0x32,%r10d\nmov $-1,%r8\nxor %r9d,%r9d\nsyscall\n"
        "mov %rbx,%rdi\nmov %r13,%rsi\nmov %r12,%rcx\nrep movsb\n"
        "mov %rbx,%rdi\nmov %r12,%rsi\nmov $5,%edx\nmov $10,%eax\nsyscall\n"
        "pop %r14\npop %r13\npop %r12\npop %rbx\nret\nmove_end:\n");
OWN void work(double until) { while (cpu_s() < until) spin(200000); }
int main(int count, char **words) {
    unsigned long start = 0, end = 0, from, to;
    char line[512], rights[5];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        sscanf(line, "%lx-%lx %4s", &from, &to, rights);
        if (rights[2] == 'x' && from <= (unsigned long)main && (unsigned long)main < to) { start = from; end = to; }
    }
    void *copy = mmap(0, end - start, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *moves = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(copy, (void *)start, end - start);
    memcpy(moves, move_code, move_end - move_code);
    ((void (*)(unsigned long, unsigned long, void *))moves)(start, end - start, copy);
    work(count > 1 ? 20 : 1);
    return 0;
}"#;
    let program = build_with(folder.path(), "remapped", source, &["-fomit-frame-pointer"]);
    let share = |run: &Run| {
        let share = run.percent_with("remapped;_start;");
        let named = run.percent_with(";main;work;spin");
        assert!(share > 90.0 && named > 90.0, "{:?}\n{}", run.folded, run.stderr);
    };
    share(&launch(folder.path(), &["-F", "499"], &program, &[]));
    let target = Background::start(&program, &["long"]);
    thread::sleep(Duration::from_millis(500));
    share(&profile(folder.path(), &["-F", "499", "-d", "1s", "--pid", &target.pid()], &[]));
}

// Stacks and names of Go programs, with and without symbols and DWARF.

/// Builds a program; `None` without Go, and where its table is not used for unwinding.
fn build(folder: &Path, source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    if cfg!(not(target_arch = "x86_64")) {
        return None;
    }
    let program = folder.join(name);
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/profile/go").join(source);
    let mut go = Command::new("go");
    go.env("GOFLAGS", "").arg("build").args(flags).arg("-o").arg(&program).arg(source);
    let Ok(output) = go.output() else {
        eprintln!("skipped: there is no go (package golang-go)");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// Functions without a caller: of goroutines, of the scheduler's threads, of stack growth.
const OUTERMOST: [&str; 5] =
    ["runtime.goexit", "runtime.mcall", "runtime.mstart", "runtime.morestack", "runtime.rt0_go"];

/// Samples whose outermost function is one of these.
fn samples_from(run: &Run, functions: &[&str]) -> u64 {
    let outermost = |stack: &str| {
        let function = stack.split(';').nth(1).unwrap_or_default();
        // Symbols include the calling convention.
        functions.contains(&function.trim_end_matches(".abi0"))
    };
    run.folded.iter().filter(|(stack, _)| outermost(stack)).map(|(_, count)| count).sum()
}

#[test]
fn a_server_in_go_is_whole_and_has_names() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let stripped = "-ldflags=-s -w";
    let builds = [
        ("plain", &[][..]),
        ("stripped", &[stripped]),
        ("independent", &["-buildmode=pie", stripped]),
    ];
    for (name, flags) in builds {
        let Some(program) = build(folder.path(), "server.go", name, flags) else { return };
        let run = launch(folder.path(), &["-F", "499"], &program, &["2000"]);
        let samples = run.samples();
        let broken = run.number("/stacks/broken") + run.number("/stacks/truncated");
        // A few more at the start and end, as processes come and go.
        let limit = samples as f64 * (0.5 + emulation_percent()) / 100.0 + 3.0;
        assert!(samples > 300 && broken as f64 <= limit, "{name}: {}", run.summary);
        assert!(samples_from(&run, &OUTERMOST) * 100 > samples * 99, "{name}: {:?}", run.folded);
        let serving = run.percent_with(";net/http.(*conn).serve;");
        let handling = run.percent_with(";main.handle;main.items;");
        assert!(serving > 20.0 && handling > 5.0, "{name}: {:?}", run.folded);
        assert!(run.samples_with("+0x") * 100 < samples, "{name}: {:?}", run.folded);
    }
}

/// Each of them has its own stack: the goroutine's, and the thread's.
#[test]
fn walks_go_through_c_and_back() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let Some(program) = build(folder.path(), "calls.go", "calls", &[]) else { return };
    let run = launch(folder.path(), &["-F", "499"], &program, &["1500"]);
    let is_whole = |stack: &str| {
        let names = ["goexit", ";main.callsC;", "asmcgocall", ";c_middle;", ";main.goWork;"];
        let places = names.map(|name| stack.find(name));
        places.is_sorted() && places[0].is_some() && stack.contains(";main.spin")
    };
    let whole = run.folded.iter().filter(|(stack, _)| is_whole(stack));
    let whole: u64 = whole.map(|(_, count)| count).sum();
    assert!(run.samples() > 300 && whole * 100 > run.samples() * 90, "{:?}", run.folded);
}
