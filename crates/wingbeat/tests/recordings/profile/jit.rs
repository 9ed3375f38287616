//! Stacks through JIT-compiled code without frame pointers that describes how to unwind it.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    profile::{
        support::{Run, build_with, command, finished, launch, turn_in_folder},
        unwind::BARE,
    },
    target::emulation_percent,
};

/// A JIT compiler of one function, which uses the frame pointer for something else and calls back; then of another at
/// the same address, with a larger frame. `FLAGS` are those of its jitdump file.
const COMPILER: &str = r#"
#include <fcntl.h>
#include <sys/mman.h>
/* push rbx; push rbp; sub rsp,40; mov ebp,3; mov rax,rdi; mov rdi,rsi; call rax; add rsp,40; pop rbp; pop rbx; ret */
static unsigned char code[] = {0x53, 0x55, 0x48, 0x83, 0xec, 0x28, 0xbd, 3, 0, 0, 0, 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0xff, 0xd0,
    0x48, 0x83, 0xc4, 0x28, 0x5d, 0x5b, 0xc3};
/* An entry that others share, one for 26 bytes that lie 32 before, and the end. */
static unsigned char frames[] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1, 0, 0,
    36, 0, 0, 0, 28, 0, 0, 0, 0xc0, 0xff, 0xff, 0xff, 26, 0, 0, 0, 0,
    0x41, 14, 16, 0x83, 2, 0x41, 14, 24, 0x86, 3, 0x44, 14, 64, 0x51, 14, 24, 0x41, 14, 16, 0xc6, 0x41, 14, 8,
    0, 0, 0, 0};
static const char index_of_frames[20];
static int file;
static char record[512];
static int len;
static void add(const void *bytes, long size) { memcpy(record + len, bytes, size); len += size; }
static void add_int(int value) { add(&value, 4); }
static void add_long(long value) { add(&value, 8); }
static void begin(int id) { len = 0; add_int(id); add_int(0); add_long(now_ns()); }
static void end(void) { memcpy(record + 4, &len, 4); if (write(file, record, len) != len) exit(3); }
static void compile(const char *name, int locals, void *space) {
    code[5] = code[22] = locals;
    frames[53] = locals + 24;
    memcpy(space, code, sizeof code);
    begin(4);
    add_long(sizeof frames + sizeof index_of_frames);
    add_long(sizeof index_of_frames);
    add_long(0);
    add(frames, sizeof frames);
    add(index_of_frames, sizeof index_of_frames);
    if (UNWINDING) end();
    begin(0);
    add_int(getpid());
    add_int(getpid());
    add_long((long)space);
    add_long((long)space);
    add_long(sizeof code);
    add_long(now_ns());
    add(name, strlen(name) + 1);
    add(code, sizeof code);
    end();
}
OWN void inner(long deep) { spin(30000 + deep); }
static long (*jit)(void (*)(long), long);
OWN void back(long deep) { if (deep > 0) jit(back, deep - 1); else inner(deep); }
OWN void runs(double until) { while (cpu_s() < until) jit(back, 3); }
int main(void) {
    char path[256];
    sprintf(path, "FOLDER/jit-%d.dump", getpid());
    file = open(path, O_CREAT | O_TRUNC | O_RDWR, 0666);
    if (file < 0 || fchown(file, OWNER, -1)) return 4;
    len = 0;
    add("DTiJ\1\0\0\0\50\0\0\0\76\0\0\0\0\0\0\0", 20);
    add_int(getpid());
    add_long(now_ns());
    add_long(FLAGS);
    if (write(file, record, len) != len) return 5;
    if (mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED) return 6;
    void *space = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    jit = space;
    compile("_ZN5first1fEv", 0x28, space);
    // User space looks ten times a second.
    usleep(250000);
    runs(0.5);
    compile("second", 0x48, space);
    if (FLAGS) usleep(250000);
    runs(1);
    return 0;
}"#;

/// Differences from the plain compiler.
struct Compiler {
    owner: u32,
    flags: u32,
    unwinding: bool,
}

const PLAIN: Compiler = Compiler { owner: 0, flags: 0, unwinding: true };

impl Compiler {
    fn build(&self, folder: &Path, name: &str) -> PathBuf {
        let source = COMPILER
            .replace("FOLDER", folder.to_str().expect("UTF-8"))
            .replace("OWNER", &self.owner.to_string())
            .replace("FLAGS", &self.flags.to_string())
            .replace("UNWINDING", &u32::from(self.unwinding).to_string());
        build_with(folder, name, &source, BARE)
    }
}

/// The innermost part of a complete stack.
fn tower(name: &str) -> String {
    format!(";main;runs;{}inner", format!("{name};back;").repeat(4))
}

fn is_whole(run: &Run) {
    let wanted = 95.0 - emulation_percent();
    assert!(run.percent_with("_start;") > wanted, "{:?}\n{}", run.folded, run.summary);
    for name in ["first::f()", "second"] {
        let share = run.percent_with(&tower(name));
        assert!((40.0..60.0).contains(&share), "{name}: {share} %: {:?}", run.folded);
    }
}

#[test]
fn stacks_reach_main_through_code_that_tells_how_it_is_unwound() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = PLAIN.build(folder.path(), "jit_bare");
    is_whole(&launch(folder.path(), &["-F", "499"], &program, &[]).ended_with(0));
    is_whole(&launch(folder.path(), &["-F", "499", "--unwind", "table"], &program, &[]));
}

#[test]
fn what_is_not_told_or_not_believed_ends_the_stack() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let check = |name: &str, compiler: Compiler| {
        let program = compiler.build(folder.path(), name);
        let run = launch(folder.path(), &["-F", "499"], &program, &[]).ended_with(0);
        let share = run.percent_with(";main;runs;first::f();back");
        assert!(share < 5.0, "{name}: {share} %: {:?}", run.folded);
        assert!(run.number("/stacks/broken") * 2 > run.samples(), "{}", run.summary);
        run
    };
    check("jit_silent", Compiler { unwinding: false, ..PLAIN });
    let run = check("jit_stranger", Compiler { owner: 4242, ..PLAIN });
    assert_eq!(run.samples_with("second"), 0, "{:?}", run.folded);
    assert!(run.stderr.contains(".dump of PID"), "{}", run.stderr);
    assert!(run.stderr.contains("it belongs to user 4242"), "{}", run.stderr);
}

#[test]
fn code_with_the_clock_of_the_processor_has_the_rules_that_were_told_last() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = Compiler { flags: 1, ..PLAIN }.build(folder.path(), "jit_clock");
    let run = launch(folder.path(), &["-F", "499"], &program, &[]).ended_with(0);
    // Names are those of the latest code.
    let share = run.percent_with(&tower("second"));
    assert!(share > 85.0, "{share} %: {:?}", run.folded);
}

#[test]
fn stacks_of_node_stay_whole_with_its_unwinding_information() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    if Command::new("node").arg("--version").output().is_err() {
        eprintln!("skipped: there is no node (package nodejs)");
        return;
    }
    let source = "
function leaf(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) | 0; return s; }
function middle(depth, n) { return depth === 0 ? leaf(n) : middle(depth - 1, n) + 1; }
const begun = Date.now(); let x = 0;
while (Date.now() - begun < 1500) for (let i = 0; i < 200; i++) x += middle(20, 2000 + i);
console.log(x);";
    let file = folder.path().join("nested.js");
    std::fs::write(&file, source).expect("source");
    let mut wingbeat = command(folder.path(), &["-F", "499", "--", "node"]);
    // The jitdump file is written to the program's working directory.
    wingbeat.current_dir(folder.path()).args(["--perf-prof", "--perf-prof-unwinding-info"]);
    let output = wingbeat.arg(&file).output().expect("run wingbeat");
    let run = finished(folder.path(), output).ended_with(0);
    let broken = run.number("/stacks/broken") + run.number("/stacks/truncated");
    assert!(broken * 100 <= run.samples() * 2, "{}", run.summary);
    // V8 inlines `leaf`, and `middle` into itself.
    let nested = run.folded.iter().filter(|(stack, _)| {
        let begin = stack.find("_start;");
        begin.is_some() && begin < stack.find("middle ")
    });
    let nested: u64 = nested.map(|(_, count)| count).sum();
    assert!(nested * 100 > run.samples() * 75, "{nested}: {:?}", run.folded);
}
