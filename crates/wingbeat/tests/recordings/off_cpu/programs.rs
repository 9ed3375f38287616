//! Threads that exec, and their names before and after.

use std::collections::BTreeMap;

use crate::{
    off_cpu::support::{
        Run, build, command, finished, launch, let_record, near, profile, start_ready,
    },
    ran::started,
    target::turn_in_folder,
};

/// Time by thread name, and by the first frame of the collapsed stacks.
fn by_name(run: &Run) -> [BTreeMap<String, u64>; 2] {
    let mut names = [BTreeMap::new(), BTreeMap::new()];
    for thread in run.summary["off_cpu"]["threads"].as_array().expect("threads") {
        let time_ns: u64 = ["on_cpu_ns", "off_cpu_ns", "below_limit_ns"]
            .iter()
            .filter_map(|key| thread[*key].as_u64())
            .sum();
        let name = thread["name"].as_str().expect("a name").to_owned();
        *names[0].entry(name).or_default() += time_ns;
    }
    for (stack, time_ns) in &run.folded {
        let name = stack.split(';').next().unwrap_or_default().to_owned();
        *names[1].entry(name).or_default() += time_ns;
    }
    names
}

#[test]
fn children_of_a_shell_are_called_so_until_they_are_another_program() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    // The children burn some time as shells, and sleep(1) sleeps.
    let burn = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let script = format!("for n in 1 2 3; do ( {burn}; exec sleep 0.1 ) & done; wait");
    let run = profile(folder.path(), "wall", &[], &["--", "sh", "-c", &script]).ended_with(0);
    let [threads, folded] = by_name(&run);
    assert_eq!(threads.keys().collect::<Vec<_>>(), ["sh", "sleep"], "{}", run.all());
    for (name, time_ns) in &threads {
        near(&run, folded[name], *time_ns, 1.0, 300_000);
    }
    // Each child appears as both.
    assert_eq!(run.threads("sh").len(), 4, "{}", run.all());
    assert_eq!(run.threads("sleep").len(), 3, "{}", run.all());
    let burnt = |name: &str| -> u64 {
        run.threads(name).iter().filter_map(|thread| thread["on_cpu_ns"].as_u64()).sum()
    };
    assert!(burnt("sh") > 5 * burnt("sleep"), "{}", run.all());
}

#[test]
fn a_thread_that_is_not_the_first_calls_exec() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let second = build(
        folder.path(),
        "second",
        "OWN void naps_anew(void) { doze(200000000); } int main(void) { naps_anew(); return 0; }",
    );
    let source = format!(
        r#"
OWN void naps(void) {{ doze(150000000); }}
static void *worker(void *unused) {{
    pthread_setname_np(pthread_self(), "worker");
    naps();
    execl("{}", "second", (char *)0);
    return unused;
}}
OWN void waits_for_ever(void) {{ for (;;) pause(); }}
int main(void) {{
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    waits_for_ever();
}}"#,
        second.display()
    );
    let program = build(folder.path(), "first", &source);
    for mode in ["off-cpu", "wall"] {
        let run = launch(folder.path(), mode, &[], &program).ended_with(0);
        // One account each, without overlap.
        for (name, elapsed_ns) in
            [("first", 150_000_000), ("worker", 150_000_000), ("second", 200_000_000)]
        {
            let found_ns = run.thread(name)["elapsed_ns"].as_u64().expect("a number");
            near(&run, found_ns, elapsed_ns, 20.0, 30_000_000);
        }
        assert_eq!(run.blocks("naps", "sleeping").count, 1, "{}", run.all());
        assert_eq!(run.blocks("naps_anew", "sleeping").count, 1, "{}", run.all());
        let stack = |stack: &str| stack.starts_with("second;") && stack.contains(";naps_anew;");
        assert!(run.folded.iter().any(|(line, _)| stack(line)), "{}", run.all());
    }
}

#[test]
fn a_target_that_is_killed_keeps_its_name() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
OWN void waits_for_ever(void) { for (;;) pause(); }
int main(void) { say("ready", 1); waits_for_ever(); }"#;
    let program = build(folder.path(), "victim", source);
    let mut target = start_ready(folder.path(), &program);
    let flags = ["--mode", "off-cpu", "--pid", &target.pid()];
    let session = started(command(folder.path(), &flags));
    let_record(&session);
    target.0.kill().expect("kill");
    target.0.wait().expect("wait");
    let run = finished(folder.path(), session.wait_with_output().expect("wait")).ended_with(0);
    assert!(!run.folded.is_empty());
    assert!(run.folded.iter().all(|(stack, _)| stack.starts_with("victim;")), "{}", run.all());
    assert_eq!(run.threads("victim").len(), 1, "{}", run.all());
}
