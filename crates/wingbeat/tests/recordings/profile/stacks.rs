//! Depth of stacks, and names of their frames.

#[cfg(target_arch = "x86_64")]
use std::path::{Path, PathBuf};

use crate::profile::support::{
    WITH_FRAME_POINTERS, build, compile, launch, profile, recorded, turn_in_folder,
};
#[cfg(target_arch = "x86_64")]
use crate::{profile::unwind::BARE, target::build_with};

#[test]
fn the_caller_of_a_function_without_a_frame_is_there() {
    // memset keeps no frame pointer, so the frame pointer skips its caller.
    let source = r#"
static char space[1 << 15];
OWN void calls_memset(void) { for (int i = 0; i < 1000; i++) { memset(space, i, sizeof space); __asm__ volatile("" ::: "memory"); } }
OWN void outer(void) { while (cpu_s() < 1) calls_memset(); }
int main(void) { outer(); return 0; }"#;
    let Some(run) = recorded("leaf", source, &["-F", "499"]) else { return };
    // The symbol of memset depends on the CPU, and libraries without symbols have none.
    let with_caller = run.samples_with(";outer;calls_memset;");
    let all: u64 = run.folded.iter().map(|(_, count)| count).sum();
    assert!(with_caller > 200, "{:?}", run.folded);
    assert!(with_caller * 100 >= all * 97, "{with_caller} of {all}: {:?}", run.folded);
}

#[test]
fn callers_of_equal_depth_are_told_apart_beyond_a_function_without_frame_pointer() {
    // `middle` uses the register for something else, so that frame pointers end there.
    let source = r#"
OWN void burn(long n) { spin(n); }
OWN __attribute__((optimize("omit-frame-pointer"))) void middle(void (*f)(long), long n) {
    register long k __asm__("rbp") = 3;
    __asm__ volatile("" : "+r"(k));
    f(n);
    __asm__ volatile("" :: "r"(k));
}
OWN void alpha(void) { middle(burn, 300000); }
OWN void beta(void) { middle(burn, 2700000); }
int main(void) { for (int i = 0; i < 300; i++) { alpha(); beta(); } return 0; }"#;
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let Some(run) = recorded("callers", source, &["-F", "1999"]) else { return };
    let (alpha, beta) = (run.samples_with(";alpha;middle;"), run.samples_with(";beta;middle;"));
    let share = alpha as f64 / (alpha + beta) as f64;
    assert!((alpha + beta) * 100 > run.samples() * 97, "{:?}", run.folded);
    assert!((share - 0.1).abs() < 0.03, "{alpha} of alpha, {beta} of beta");
}

#[test]
fn deep_recursion_is_kept_to_the_limit_and_counted() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
OWN long down(long depth) { if (depth == 0) { spin(100000); return 1; } return down(depth - 1) + 1; }
int main(int count, char **words) { while (cpu_s() < 1) down(atol(words[1])); return 0; }"#;
    let program = build(folder.path(), "deep", source);
    let program = program.to_str().expect("UTF-8");
    let deepest = |run: &crate::profile::support::Run| {
        let frames = |stack: &str| stack.matches(";down").count();
        run.folded.iter().map(|(stack, _)| frames(stack)).max().unwrap_or(0)
    };

    let run = profile(folder.path(), &["-F", "499"], &["--", program, "400"]);
    assert_eq!(deepest(&run), 401);
    assert_eq!(run.number("/stacks/truncated"), 0, "{}", run.summary);

    let run = profile(folder.path(), &["-F", "499"], &["--", program, "900"]);
    // On the way down and up, the stack is less deep.
    assert!(run.number("/stacks/truncated") * 100 > run.samples() * 80, "{}", run.summary);
    assert!(run.stderr.contains("deeper than 512 frames"), "{}", run.stderr);
}

#[test]
fn kernel_frames_lie_on_top_of_user_frames() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
#include <fcntl.h>
static char space[1 << 20];
OWN void reads(int file) { while (cpu_s() < 1) for (int i = 0; i < 100; i++) if (read(file, space, sizeof space) < 0) exit(1); }
int main(void) { reads(open("/dev/zero", O_RDONLY)); return 0; }"#;
    let program = build(folder.path(), "reader", source);
    let run = launch(folder.path(), &["-F", "499"], &program, &[]);
    let both = run.folded.iter().filter(|(stack, _)| {
        let kernel = stack.find("_[k]");
        kernel.is_some() && stack.find(";reads;").is_some_and(|user| Some(user) < kernel)
    });
    assert!(both.map(|(_, count)| count).sum::<u64>() > 300, "{:?}", run.folded);

    let run = launch(folder.path(), &["-F", "499", "--stacks", "user"], &program, &[]);
    assert_eq!(run.samples_with("_[k]"), 0);
    assert!(run.samples_with(";reads;") > 300);
    let run = launch(folder.path(), &["-F", "499", "--stacks", "kernel"], &program, &[]);
    assert_eq!(run.samples_with(";reads"), 0);
    assert!(run.samples_with("_[k]") > 300);
}

#[test]
fn the_vdso_and_stripped_programs_have_the_names_that_there_are() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = "#include <time.h>
int main(void) { struct timespec now, then; clock_gettime(CLOCK_MONOTONIC, &then);
    do clock_gettime(CLOCK_MONOTONIC, &now); while (now.tv_sec - then.tv_sec < 2); return 0; }";
    let flags = [WITH_FRAME_POINTERS, &["-s"]].concat();
    let program = compile(folder.path(), "clock", source, &flags);
    let run = launch(folder.path(), &["-F", "499"], &program, &[]);
    assert!(run.samples_with(";clock_gettime") > 100, "{:?}", run.folded);
    assert!(run.samples_with(";clock+0x") > 100, "{:?}", run.folded);
}

/// A program that runs generated code: its initialization, and how it publishes the name, in C with the `path` of its
/// perf map and the `text` for it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn jit_that(folder: &Path, name: &str, begin: &str, publish: &str) -> PathBuf {
    let source = r#"
#include <sys/mman.h>
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0x40, 0x42, 0x0f, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};
OWN void runs(void (*jit)(void)) { while (cpu_s() < 1) jit(); }
static void write_map(const char *path, const char *text) {
    FILE *map = fopen(path, "w");
    if (!map || fputs(text, map) < 0 || fclose(map)) exit(3);
}
int main(void) {
    char path[64], text[64];
    BEGIN
    void *space = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(space, code, sizeof code);
    sprintf(path, "/tmp/perf-%d.map", getpid());
    sprintf(text, "%lx %lx jitted_function\n", (unsigned long)space, (unsigned long)sizeof code);
    PUBLISH
    runs((void (*)(void))space);
    return 0;
}"#;
    let source = source.replace("BEGIN", begin).replace("PUBLISH", publish);
    build_with(folder, name, &source, BARE)
}

#[cfg(target_arch = "x86_64")]
#[test]
fn only_the_perf_map_of_the_user_of_a_process_is_believed() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let check = |name: &str, begin: &str, publish: &str, refused: Option<&str>| {
        let program = jit_that(folder.path(), name, begin, publish);
        let run = launch(folder.path(), &["-F", "499"], &program, &[]).ended_with(0);
        let named = run.percent_with(";runs;jitted_function");
        match refused {
            None => assert!(named > 90.0, "{name}: {:?}", run.folded),
            Some(_) => assert!(named == 0.0, "{name}: {:?}", run.folded),
        }
        let files = run.summary["jit"]["refused"].as_array().expect("a list");
        assert_eq!(files.len(), usize::from(refused.is_some()), "{name}: {files:?}");
        let is_told = run.stderr.contains("was not used, because");
        assert_eq!(is_told, refused.is_some(), "{name}: {}", run.stderr);
        assert!(run.stderr.contains(refused.unwrap_or_default()), "{name}: {}", run.stderr);
    };
    let write = "write_map(path, text);";
    check("own_map", "if (setgid(65534) || setuid(65534)) return 4;", write, None);
    // A mapping that is not needed is not reported.
    let stranger = format!("{write} if (chown(path, 4242, -1)) return 4;");
    let unused = format!("{stranger} while (cpu_s() < 1) spin(100000); return 0;");
    let program = jit_that(folder.path(), "unused_map", "", &unused);
    let run = launch(folder.path(), &["-F", "499"], &program, &[]).ended_with(0);
    assert!(!run.stderr.contains("was not used"), "{}", run.stderr);
    let reason = "it belongs to user 4242, and the process to user 0";
    check("stranger_map", "", &stranger, Some(reason));
}

/// It is left along its own frame pointer, into a program without any.
#[cfg(target_arch = "x86_64")]
#[test]
fn code_of_a_jit_without_names_is_one_function_and_comes_with_a_hint() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    // The hint depends on the program's name.
    for (name, hint) in [("node", "start Node with --perf-basic-prof"), ("other", "a jitdump file")]
    {
        let program = jit_that(folder.path(), name, "", "(void)write_map;");
        let run = launch(folder.path(), &["-F", "499"], &program, &[]).ended_with(0);
        assert!(run.percent_with(";_start;") > 99.0, "{:?}", run.folded);
        assert!(run.percent_with(";main;runs;[anon]") > 90.0, "{:?}", run.folded);
        assert_eq!(run.samples_with("[anon]+0x"), 0, "{:?}", run.folded);
        assert!(run.stderr.contains("JIT compiler without names"), "{}", run.stderr);
        assert!(run.stderr.contains(hint), "{}", run.stderr);
        let process = &run.summary["jit"]["nameless"][0];
        assert_eq!(process["process"], name, "{}", run.summary);
        assert!(run.number("/jit/nameless/0/nameless") * 100 > run.samples() * 90);
    }
    // With tables only, it does not guess.
    let program = folder.path().join("other");
    let run = launch(folder.path(), &["-F", "499", "--unwind", "table"], &program, &[]);
    assert!(run.number("/stacks/broken") * 2 > run.samples(), "{}", run.summary);
}

#[test]
fn a_bpf_program_that_is_gone_has_its_name() {
    // A socket filter of 4,000 additions, run a million times by the kernel, then unloaded.
    let source = r#"
#include <linux/bpf.h>
#include <sys/syscall.h>
static struct bpf_insn code[4002];
static char packet[64];
int main(void) {
    union bpf_attr load = {0}, run = {0};
    code[0] = (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = 0};
    for (int i = 1; i <= 4000; i++) code[i] = (struct bpf_insn){.code = BPF_ALU64 | BPF_ADD | BPF_K, .imm = i};
    code[4001] = (struct bpf_insn){.code = BPF_JMP | BPF_EXIT};
    load.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
    load.insns = (unsigned long)code;
    load.insn_cnt = 4002;
    load.license = (unsigned long)"GPL";
    strcpy(load.prog_name, "hot_filter");
    int program = syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof load);
    if (program < 0) return 1;
    run.test.prog_fd = program;
    run.test.data_in = (unsigned long)packet;
    run.test.data_size_in = sizeof packet;
    run.test.repeat = 10000;
    while (cpu_s() < 1) if (syscall(SYS_bpf, BPF_PROG_TEST_RUN, &run, sizeof run)) return 2;
    close(program);
    return 0;
}"#;
    let Some(run) = recorded("filter", source, &["-F", "499"]) else { return };
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    // How long the verifier takes depends on the kernel.
    let (named, all) =
        (run.samples_with(";hot_filter [bpf]"), run.samples_with(";bpf_test_run_[k]"));
    assert!(named > 100 && named * 10 > all * 9, "{named} of {all}: {:?}", run.folded);
}
