//! Depth of the stacks of blocks.

use crate::{
    off_cpu::support::{Run, build, build_with, launch, near},
    target::turn_in_folder,
};

/// Sleeps below a recursion.
const DEEP: &str = r#"
OWN long down(long depth) {
    if (depth == 0) { long begun = now_ns(); doze(10000000); return now_ns() - begun; }
    return down(depth - 1) + 1;
}
int main(void) {
    long total = 0;
    for (int i = 0; i < 20; i++) total += down(DEPTH) - DEPTH;
    say("slept", total);
    return 0;
}"#;

fn deepest(run: &Run) -> usize {
    let frames = |stack: &str| stack.split(';').filter(|frame| *frame == "down").count();
    run.folded.iter().map(|(stack, _)| frames(stack)).max().unwrap_or(0)
}

#[test]
fn deep_recursion_is_kept_to_the_limit_and_counted() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = build(folder.path(), "deep", &DEEP.replace("DEPTH", "400"));
    let run = launch(folder.path(), "off-cpu", &[], &program);
    assert_eq!(deepest(&run), 401, "{}", run.stderr);
    near(&run, run.time_ns(&["main", "down", "[sleeping]"]), run.said("slept"), 2.0, 0);
    assert_eq!(run.number("/stacks/truncated"), 0, "{}", run.summary);

    let program = build(folder.path(), "deeper", &DEEP.replace("DEPTH", "900"));
    let run = launch(folder.path(), "off-cpu", &[], &program);
    assert!((400..900).contains(&deepest(&run)), "{}", deepest(&run));
    near(&run, run.time_ns(&["down", "[sleeping]"]), run.said("slept"), 2.0, 0);
    assert!(run.number("/stacks/truncated") >= 1, "{}", run.summary);
    assert!(run.stderr.contains("deeper than 512 frames"), "{}", run.stderr);
}

#[test]
fn without_frame_pointers_a_stack_reaches_main() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
OWN long inner(long ns) { long begun = now_ns(); doze(ns); return now_ns() - begun; }
OWN long middle(long ns) { long slept = inner(ns); return slept + inner(ns + slept % 2); }
int main(void) {
    long total = 0;
    for (int i = 0; i < 20; i++) total += middle(10000000);
    say("slept", total);
    return 0;
}"#;
    let program = build_with(folder.path(), "bare", source, &["-O2", "-fomit-frame-pointer"]);
    let run = launch(folder.path(), "off-cpu", &[], &program);
    assert_eq!(run.blocks("inner", "sleeping").count, 40, "{}", run.all());
    near(&run, run.time_ns(&["inner", "[sleeping]"]), run.said("slept"), 2.0, 0);
    let reaches_main = run.time_ns(&["main", "middle", "inner", "[sleeping]"]);
    let all = run.time_ns(&["inner", "[sleeping]"]);
    assert!(reaches_main * 100 >= all * 98, "{}", run.all());
}

#[test]
fn one_half_of_the_stacks() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
OWN void naps(void) { for (int i = 0; i < 20; i++) doze(10000000); }
int main(void) { naps(); return 0; }"#;
    let program = build(folder.path(), "halves", source);
    // Kernel stacks need no frame pointers.
    let bare = ["-fomit-frame-pointer", "-fno-asynchronous-unwind-tables"];
    let bare = build_with(folder.path(), "bare", source, &bare);
    let run = launch(folder.path(), "off-cpu", &["--stacks", "kernel"], &bare).ended_with(0);
    assert!(!run.stderr.contains("frame pointers"), "{}", run.stderr);
    assert_eq!(run.number("/stacks/broken"), 0, "{}", run.all());
    let user = launch(folder.path(), "off-cpu", &["--stacks", "user"], &program);
    assert_eq!(user.time_with_ns("_[k]"), 0, "{}", user.all());
    let kernel = launch(folder.path(), "off-cpu", &["--stacks", "kernel"], &program);
    assert_eq!(kernel.time_with_ns(";naps"), 0, "{}", kernel.all());
    for (run, function) in [(user, "naps"), (kernel, "nanosleep")] {
        let naps = 20 - run.untold().min(10);
        let blocks = run.blocks_in(&[function], "sleeping");
        assert!(blocks.count >= naps, "{function}: {}", run.all());
        assert!(blocks.total_ns >= naps * 10_000_000, "{function}: {}", run.all());
        let is_there = |stack: &str| stack.contains(function) && stack.ends_with(";[sleeping]");
        assert_eq!(run.time_where_ns(is_there), blocks.total_ns, "{function}: {}", run.all());
    }
}
