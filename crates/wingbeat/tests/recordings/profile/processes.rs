//! Sampled processes: threads, children, short lives, other namespaces, everything.

use std::{path::Path, process::Command, thread, time::Duration};

use crate::{
    profile::support::{
        Background, WITH_FRAME_POINTERS, build, build_with, command, finished, folder, launch,
        profile, spinner, turn, turn_in_folder,
    },
    ran::{Ran, wait_for},
    target::{namespaced, profile_beside, profile_inside, turn_with_namespaces},
};

fn family(folder: &Path) -> std::path::PathBuf {
    let source = r#"
#include <sys/wait.h>
OWN void parent_work(void) { while (cpu_s() < 0.5) spin(100000); }
OWN void child_work(void) { while (cpu_s() < 0.5) spin(100000); }
int main(int count, char **words) {
    if (count > 1) sleep(1);
    for (int i = 0; i < 3; i++) if (fork() == 0) {
        if (count > 1) sleep(3);
        child_work();
        return 0;
    }
    parent_work();
    while (wait(0) > 0);
    return 0;
}"#;
    build(folder, "family", source)
}

#[test]
fn children_are_followed_unless_told_not_to() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = family(folder.path());
    let run = launch(folder.path(), &["-F", "499"], &program, &[]);
    assert_eq!(run.number("/processes"), 4, "{}", run.summary);
    let (of_parent, of_children) =
        (run.samples_with("parent_work"), run.samples_with("child_work"));
    assert!(of_children > 2 * of_parent, "{of_children} of children, {of_parent} of the parent");

    let run = launch(folder.path(), &["-F", "499", "--no-inherit"], &program, &[]);
    assert_eq!(run.number("/processes"), 1);
    assert_eq!(run.samples_with("child_work"), 0);
    assert!(run.samples_with("parent_work") > 100);
}

#[test]
fn a_running_process_is_sampled_with_its_children_of_before_and_after() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = family(folder.path());
    // The parent forks after a second, its children work after three more: attached in between.
    let target = Background::start(&program, &["late"]);
    wait_for("the children", || {
        let children = format!("/proc/{0}/task/{0}/children", target.pid());
        std::fs::read_to_string(children).is_ok_and(|text| text.split_whitespace().count() == 3)
    });
    let run = profile(folder.path(), &["-F", "499", "-d", "6s", "--pid", &target.pid()], &[]);
    assert!(run.samples_with("child_work") > 300, "{}", run.summary);
    assert_eq!(run.code, Some(0));
}

#[test]
fn several_processes_at_once_and_everybody() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let programs = ["one", "two", "bystander"].map(|name| spinner(folder.path(), name));
    let running = programs.map(|program| Background::start(&program, &["30"]));
    let pids = format!("{},{}", running[0].pid(), running[1].pid());
    let run = profile(folder.path(), &["-F", "499", "-d", "2s", "-p", &pids], &[]);
    assert!(run.percent_with("one;") > 20.0 && run.percent_with("two;") > 20.0, "{:?}", run.folded);
    assert_eq!(run.samples_with("bystander"), 0);
    assert!(run.number("/ticks/other") > 0);
    let run = profile(folder.path(), &["-F", "499", "-d", "2s", "--all"], &[]);
    assert!(run.samples_with("bystander;_start;") > 100, "{:?}", run.stderr);
    assert_eq!(run.number("/ticks/other"), 0);
}

#[test]
fn a_swarm_of_short_programs_has_names() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = spinner(folder.path(), "short");
    let script = format!("for i in $(seq 25); do {} 0.05; done", program.display());
    let run = profile(folder.path(), &["-F", "999"], &["--", "sh", "-c", &script]);
    assert!(run.number("/processes") >= 25, "{}", run.summary);
    let of_swarm = run.samples_with("short;");
    let named = run.samples_with(";busy_work");
    assert!(named * 100 >= of_swarm * 90, "{named} of {of_swarm}");
    assert!(of_swarm > 1_000, "{of_swarm}");
}

#[test]
fn a_program_deleted_while_it_runs_has_names() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
OWN void orphaned_work(void) { while (cpu_s() < 1) spin(100000); }
int main(int count, char **words) { unlink(words[0]); orphaned_work(); return 0; }"#;
    let program = build(folder.path(), "deleted", source);
    let run = launch(folder.path(), &["-F", "499"], &program, &[]);
    assert!(!program.exists());
    assert!(run.percent_with(";orphaned_work") > 95.0, "{:?}", run.folded);

    // Deleted before wingbeat starts.
    let program = spinner(folder.path(), "gone");
    let target = Background::start(&program, &["20"]);
    std::fs::remove_file(&program).expect("delete");
    let run = profile(folder.path(), &["-F", "499", "-d", "1s", "-p", &target.pid()], &[]);
    assert!(run.percent_with(";busy_work") > 95.0, "{:?}", run.folded);
}

#[test]
fn a_process_in_another_mount_namespace_has_names() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = spinner(folder.path(), "hidden");
    // The program is on a file system that only its namespace can see, and is gone at the end.
    let place = folder.path().join("mount");
    std::fs::create_dir(&place).expect("folder");
    let script = format!(
        "mount -t tmpfs none {0} && cp {1} {0}/inside && {0}/inside 1",
        place.display(),
        program.display()
    );
    let words = ["--", "unshare", "-m", "sh", "-c", &script];
    let run = profile(folder.path(), &["-F", "499"], &words).ended_with(0);
    let (named, all) = (run.samples_with(";busy_work"), run.samples_with("inside;"));
    assert!(all > 300 && named * 100 >= all * 95, "{named} of {all}");
}

#[test]
fn a_library_loaded_in_mid_run_has_names() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let library = r#"
 OWN void library_work(void) { while (cpu_s() < 1.2) spin(100000); }"#;
    let flags = [WITH_FRAME_POINTERS, &["-shared", "-fPIC"]].concat();
    let library = build_with(folder.path(), "late.so", library, &flags);
    let source = r#"
#include <dlfcn.h>
int main(int count, char **words) {
    while (cpu_s() < 0.2) spin(100000);
    void *library = dlopen(words[1], RTLD_NOW);
    if (!library) return 1;
    ((void (*)(void))dlsym(library, "library_work"))();
    dlclose(library);
    return 0;
}"#;
    let program =
        build_with(folder.path(), "loader", source, &[WITH_FRAME_POINTERS, &["-ldl"]].concat());
    let words = ["--", program.to_str().expect("UTF-8"), library.to_str().expect("UTF-8")];
    let run = profile(folder.path(), &["-F", "499"], &words).ended_with(0);
    assert!(run.percent_with(";library_work") > 75.0, "{:?}", run.folded);
}

#[test]
fn two_sessions_see_their_own_targets() {
    let Some(_turn) = turn() else { return };
    let folders = [folder(), folder()];
    let programs = [spinner(folders[0].path(), "left"), spinner(folders[1].path(), "right")];
    let sessions: Vec<_> = folders
        .iter()
        .zip(&programs)
        .map(|(folder, program)| {
            command(folder.path(), &["-F", "499", "--"])
                .arg(program)
                .arg("1")
                .stderr(std::process::Stdio::piped())
                .spawn()
                .expect("start wingbeat")
        })
        .collect();
    let runs: Vec<_> = sessions
        .into_iter()
        .zip(&folders)
        .map(|(session, folder)| finished(folder.path(), session.wait_with_output().expect("wait")))
        .collect();
    for (run, (own, other)) in runs.iter().zip([("left;", "right;"), ("right;", "left;")]) {
        assert!(run.samples_with(own) > 300, "{}", run.stderr);
        assert_eq!(run.samples_with(other), 0);
    }
}

#[test]
fn exec_begins_another_program_in_the_same_process() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = spinner(folder.path(), "second");
    let script = format!(
        "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exec {} 0.5",
        program.display()
    );
    let run = profile(folder.path(), &["-F", "499"], &["--", "sh", "-c", &script]);
    assert!(run.samples_with("sh;") > 5, "{:?}", run.folded);
    assert!(run.samples_with("second;") > 150);
    assert_eq!(
        run.folded.iter().filter(|(s, _)| s.starts_with("sh;") && s.contains("busy_work")).count(),
        0
    );
    // The launcher's own code is not included.
    assert_eq!(run.samples_with("wingbeat"), 0, "{:?}", run.folded);
}

#[test]
fn a_target_that_ends_during_set_up_is_told_of() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    for delay_ms in [0_u64, 5, 10, 20, 40, 80] {
        let script = format!("sleep 0.0{delay_ms:02}");
        let mut target = Command::new("sh").args(["-c", &script]).spawn().expect("start");
        let pid = target.id().to_string();
        let reaper = thread::spawn(move || target.wait());
        let run = profile(folder.path(), &["-p", &pid, "-d", "2s"], &[]);
        reaper.join().expect("thread").expect("wait");
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        assert!(
            ["no process has", "has ended", "ended while", "no samples"]
                .iter()
                .any(|text| run.stderr.contains(text)),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn the_end_of_all_targets_ends_the_recording() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = spinner(folder.path(), "spinner");
    // Longer than the setup of a recording on a slow CPU.
    let mut target = Background::start(&program, &["3"]);
    let pid = target.pid();
    let waiter = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        target.0.wait()
    });
    let run = profile(folder.path(), &["-F", "499", "-p", &pid], &[]);
    waiter.join().expect("thread").expect("wait");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.samples_with(";busy_work") > 50);
}

#[test]
fn a_process_whose_first_thread_has_ended() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
OWN void *work(void *none) { while (cpu_s() < 20) spin(200000); return none; }
int main(void) { pthread_t other; pthread_create(&other, 0, work, 0); pthread_exit(0); }"#;
    let program = build(folder.path(), "headless", source);
    let target = Background::start(&program, &[]);
    wait_for("the end of the first thread", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", target.pid()));
        stat.is_ok_and(|text| text.contains(") Z "))
    });
    let run = profile(folder.path(), &["-F", "499", "-d", "1s", "--pid", &target.pid()], &[]);
    // The C library of a guest has no symbols.
    let share = run.percent_with(";work;spin");
    assert!(share > 90.0, "{:?}\n{}", run.folded, run.stderr);
    assert!(run.stderr.contains(" complete, 0 truncated, 0 broken"), "{}", run.stderr);
}

// PID namespaces: of the targets, and of wingbeat itself, where PIDs differ from those that kernel programs see.

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
    let program =
        crate::profile::stacks::jit_that(folder.path(), "jit", "", "write_map(path, text);");
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
