//! Sandboxed targets: by seccomp, by namespaces.

use std::{thread, time::Duration};

use crate::{
    support::{HEAD, build, heap, turn_for_heap},
    target::{Background, build_with, has_namespaces},
};

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
