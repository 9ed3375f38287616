//! PID namespaces: of the targets, and of wingbeat itself, where PIDs differ from those that kernel programs see.

use std::process::Command;

use crate::{
    ran::{Ran, wait_for},
    support::{Background, command, profile, spinner},
    target::{namespaced, profile_beside, profile_inside, turn_with_namespaces},
};

/// The process of a program that this one started in a namespace.
fn descendant(of: &Background, name: &str) -> String {
    let mut found = None;
    wait_for("the program in its namespace", || {
        let children = format!("/proc/{0}/task/{0}/children", of.pid());
        let children = std::fs::read_to_string(children).unwrap_or_default();
        found = children.split_whitespace().next().map(str::to_owned);
        let comm = found.as_ref().map(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")));
        comm.is_some_and(|comm| comm.is_ok_and(|comm| comm.trim() == name))
    });
    found.expect("just found")
}

#[test]
fn targets_in_a_namespace_are_sampled_from_outside() {
    let Some((_turn, folder)) = turn_with_namespaces() else { return };
    let program = spinner(folder.path(), "inner");
    let path = program.to_str().expect("UTF-8");
    let words = [&["--"], &namespaced(&[path, "1"])[..]].concat();
    let run = profile(folder.path(), &["-F", "499"], &words).ended_with(0);
    assert!(run.samples_with("inner;") > 300, "{:?}", run.folded);
    assert!(run.samples_with(";busy_work") > 300, "{:?}", run.folded);

    let words = namespaced(&["--kill-child", path, "20"]);
    let target = Background::start(words[0].as_ref(), &words[1..]);
    let pid = descendant(&target, "inner");
    for flags in [&["-p", &pid] as &[&str], &["--all"]] {
        let flags = [&["-F", "499", "-d", "1s"], flags].concat();
        let run = profile(folder.path(), &flags, &[]).ended_with(0);
        let named = run.samples_with("inner;_start;");
        assert!(named > 10, "{flags:?}: {:?}", run.folded);
    }
}

#[test]
fn a_command_is_launched_inside_a_namespace() {
    let Some((_turn, folder)) = turn_with_namespaces() else { return };
    let program = spinner(folder.path(), "inner");
    let path = program.to_str().expect("UTF-8");
    let bystander = Background::start(&program, &["20"]);
    let run = profile_inside(folder.path(), &["-F", "499"], &["--", path, "1"]).ended_with(0);
    assert!(run.samples_with("inner;_start;") > 300, "{:?}", run.folded);
    assert!(run.samples() < 700, "the bystander is nobody's target: {:?}", run.folded);
    assert_eq!(run.number("/processes"), 1);
    let cpu_ns = run.number("/target_cpu_time_ns");
    assert!((950_000_000..1_300_000_000).contains(&cpu_ns), "{cpu_ns}");
    drop(bystander);

    // Children, and a nested namespace.
    let script = format!("{path} 0.5; unshare --pid --fork {path} 0.5");
    let words = ["--", "sh", "-c", &script];
    let run = profile_inside(folder.path(), &["-F", "499"], &words).ended_with(0);
    assert!(run.samples_with("inner;_start;") > 300, "{:?}", run.folded);
}

#[test]
fn a_process_in_the_same_namespace_is_sampled_by_its_inner_pid() {
    let Some((_turn, folder)) = turn_with_namespaces() else { return };
    let program = spinner(folder.path(), "inner");
    let run = profile_beside(folder.path(), &program, &["-F", "499", "-d", "1s", "--pid"]);
    let run = run.ended_with(0);
    assert!(run.samples_with("inner;_start;") > 50, "{:?}", run.folded);
    assert_eq!(run.samples_with("wingbeat;"), 0, "{:?}", run.folded);
    assert_eq!(run.number("/processes"), 1);
}

#[test]
fn everybody_is_who_is_in_the_namespace() {
    let Some((_turn, folder)) = turn_with_namespaces() else { return };
    let (inner, outer) = (spinner(folder.path(), "inner"), spinner(folder.path(), "outer"));
    let _bystander = Background::start(&outer, &["20"]);
    let run = profile_beside(folder.path(), &inner, &["-F", "499", "-d", "1s", "--all"]);
    let run = run.ended_with(0);
    assert!(run.samples_with("inner;_start;") > 50, "{:?}", run.folded);
    assert_eq!(run.samples_with("outer;"), 0, "{:?}", run.folded);
    assert!(run.number("/ticks/other") > 50, "{}", run.summary);
    let cpu_ns = run.number("/target_cpu_time_ns");
    assert!(cpu_ns > 100_000_000, "{cpu_ns}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_perf_map_is_found_by_the_inner_pid() {
    let Some((_turn, folder)) = turn_with_namespaces() else { return };
    let program = crate::stacks::jit_that(folder.path(), "jit", "", "write_map(path, text);");
    let path = program.to_str().expect("UTF-8");
    // A private `/tmp`, as containers have: the outer one may have a map with this PID. The program is on the other.
    let script = format!("exec 9<{path}; mount -t tmpfs none /tmp && exec /proc/self/fd/9");
    let words = [&["--"], &namespaced(&["sh", "-c", &script])[..]].concat();
    let run = profile(folder.path(), &["-F", "499"], &words).ended_with(0);
    assert!(run.percent_with(";runs;jitted_function") > 90.0, "{:?}", run.folded);
    let run = profile_inside(folder.path(), &["-F", "499"], &["--", path]).ended_with(0);
    assert!(run.percent_with(";runs;jitted_function") > 90.0, "{:?}", run.folded);
}

#[test]
fn a_proc_of_another_namespace_is_refused() {
    let Some((_turn, folder)) = turn_with_namespaces() else { return };
    let wingbeat = command(folder.path(), &["--", "true"]);
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork"]).arg(wingbeat.get_program()).args(wingbeat.get_args());
    Ran::of(&mut unshare).ended_with(1).tells_all(&["PID namespace", "/proc", "--mount-proc"]);
}
