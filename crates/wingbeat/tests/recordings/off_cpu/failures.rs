//! Wrong usage, missing privileges, nothing to show, a full buffer: one sentence, and the right exit code.

use std::{path::Path, process::Command};

use crate::{
    off_cpu::support::{build, launch, profile},
    ran::Ran,
    target::turn_in_folder,
};

/// Runs `wingbeat profile` in a folder; checks the exit code and messages.
#[track_caller]
fn said(folder: &Path, arguments: &[&str], code: i32, texts: &[&str]) -> Ran {
    let mut wingbeat = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
    let ran = Ran::of(wingbeat.arg("profile").args(arguments).current_dir(folder));
    ran.ended_with(code).tells_all(texts)
}

#[test]
fn a_target_without_any_block() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
OWN void works(void) { while (cpu_s() < 0.5) spin(1000000); }
int main(void) { works(); return 0; }"#;
    let program = build(folder.path(), "busy", source);
    // On a busy machine it is preempted, but never for that long.
    let limit = ["--min-block", "5s"];
    let run = launch(folder.path(), "off-cpu", &limit, &program);
    assert_eq!(run.number("/off_cpu/switches/reported"), 0, "{}", run.all());
    assert!(run.number("/off_cpu/switches/ended") >= 1, "{}", run.all());
    assert!(run.folded.iter().all(|(stack, _)| stack == "busy;[short blocks]"), "{}", run.all());
    // Without even a short one there is nothing to draw.
    assert_eq!(run.code, Some(i32::from(run.folded.is_empty())), "{}", run.stderr);
    assert!(run.stderr.contains("--mode"), "what to do next: {}", run.stderr);
    // Its on-CPU time is still there.
    let run = launch(folder.path(), "wall", &limit, &program).ended_with(0);
    assert!(run.time_ns(&["works"]) > 450_000_000, "{}", run.all());
    assert_eq!(run.number("/off_cpu/threads_off"), 0, "{}", run.all());
}

#[test]
fn a_full_buffer_is_counted_and_told() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    // Two threads pass a token: one block per pass, and a new stack for most.
    let source = r#"
static int there[2], back[2];
static void *echo(void *unused) {
    char token;
    while (read(there[0], &token, 1) == 1) if (write(back[1], &token, 1) != 1) break;
    return unused;
}
OWN int turn(int depth) {
    char token = 0;
    int failed = depth ? turn(depth - 1) : write(there[1], &token, 1) != 1 || read(back[0], &token, 1) != 1;
    __asm__ volatile("" : "+r"(failed));
    return failed;
}
int main(void) {
    pthread_t thread;
    if (pipe(there) || pipe(back)) return 1;
    pthread_create(&thread, 0, echo, 0);
    for (int i = 0; i < 5000; i++) if (turn(i % 64)) return 1;
    close(there[1]);
    pthread_join(thread, 0);
    return 0;
}"#;
    let program = build(folder.path(), "token", source);
    let flags = ["--min-block", "0", "--buffer-size", "4096"];
    let run = launch(folder.path(), "off-cpu", &flags, &program);
    let lost = run.summary["off_cpu"]["switches"]["lost"].as_object().expect("losses");
    let lost: u64 = lost.values().filter_map(serde_json::Value::as_u64).sum();
    assert!(lost > 0, "{}", run.all());
    assert!(run.stderr.contains("lost"), "{}", run.stderr);
    assert!(run.stderr.contains("--buffer-size"), "{}", run.stderr);
    assert!(!run.stderr.contains("--frequency"), "there are no samples: {}", run.stderr);
    // There is no room for stacks either: blocked threads lack theirs.
    assert!(run.number("/off_cpu/stacks_taken/lost") > 0, "{}", run.all());
    assert!(run.number("/off_cpu/stacks_taken/missing") > 0, "{}", run.all());
    assert!(run.number("/stacks/broken_by_reason/not_taken") > 0, "{}", run.all());
    assert!(run.stderr.contains("lack a part of their stack"), "{}", run.stderr);

    // The default buffer holds all of it, even if the machine stalls while the recorder should read.
    let run = profile(folder.path(), "off-cpu", &[], &["--", program.to_str().expect("UTF-8")]);
    assert!(run.number("/off_cpu/switches/out") > 5_000, "{}", run.all());
    let lost = run.summary["off_cpu"]["switches"]["lost"].as_object().expect("losses");
    let lost: u64 = lost.values().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(lost, 0, "{}", run.all());
}

#[test]
fn one_file_that_cannot_be_written_does_not_cost_the_others() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"int main(void) { doze(50000000); return 0; }"#;
    let program = build(folder.path(), "naps", source);
    let full = folder.path().join("full.folded");
    std::os::unix::fs::symlink("/dev/full", &full).expect("link");
    let full = full.to_str().expect("UTF-8");
    let svg = folder.path().join("a.svg");
    let flags = ["-o", full, "-o", svg.to_str().expect("UTF-8")];
    for mode in ["off-cpu", "wall"] {
        let run = launch(folder.path(), mode, &flags, &program).ended_with(1);
        for text in ["Most blocked time", "No space left", "the other outputs were written"] {
            assert!(run.stderr.contains(text), "{text} in {}", run.stderr);
        }
        assert!(!run.folded.is_empty() && svg.exists(), "{}", run.stderr);
        let outputs = run.summary["outputs"].as_array().expect("outputs");
        assert_eq!(outputs.len(), 2, "{outputs:?}");
    }
    // The cause once, and nothing about others that there are not.
    let alone = ["--mode", "off-cpu", "-o", full, "--", program.to_str().expect("UTF-8")];
    let ran = said(folder.path(), &alone, 1, &["No space left"]);
    assert_eq!(ran.stderr.matches("No space left").count(), 1, "{ran}");
    assert!(!ran.stderr.contains("other outputs"), "{ran}");
    // The summary is one of them.
    let [svg, program] = [&svg, &program].map(|path| path.to_str().expect("UTF-8"));
    let flags = ["--mode", "off-cpu", "-o", svg, "--summary-json", "/dev/full", "--", program];
    said(folder.path(), &flags, 1, &["/dev/full", "Most blocked time"]);
}
