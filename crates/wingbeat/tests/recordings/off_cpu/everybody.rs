//! `--all`: with all CPUs busy, and with short-lived processes. `accounts` checks the invariants of each run.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::{
    off_cpu::support::{build, near, profile},
    target::{Background, turn_in_folder},
};

fn shell(script: &str) -> Background {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).stdout(std::process::Stdio::null());
    Background(shell.spawn().expect("start a shell"))
}

/// CPU time by the scheduler's accounting, by PID.
fn cpu_times_ns(processes: &[Background]) -> BTreeMap<u64, u64> {
    let of = |process: &Background| {
        let path = format!("/proc/{}/schedstat", process.pid());
        let text = fs::read_to_string(path).expect("schedstat");
        let ran_ns = text.split(' ').next().expect("three numbers");
        (process.0.id().into(), ran_ns.parse().expect("a number"))
    };
    processes.iter().map(of).collect()
}

/// Total wait of each thread of the machine for a CPU by the scheduler's accounting, in nanoseconds, by TID. Updated at
/// the end of a wait.
fn waits_ns() -> BTreeMap<String, u64> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let threads =
        entries("/proc".as_ref()).flat_map(|process| entries(&process.path().join("task")));
    let wait = |path: &Path| {
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        text.split(' ').nth(1)?.parse().ok()
    };
    let named = |thread: fs::DirEntry| {
        Some((thread.file_name().into_string().ok()?, wait(&thread.path())?))
    };
    threads.filter_map(named).collect()
}

/// Waits until the scheduler reports that some thread waited as long as `longest_ns` since `before`.
fn expect_wait(longest_ns: u64, before: &BTreeMap<String, u64>) -> Result<(), u64> {
    let since = |(tid, wait_ns): (String, u64)| {
        wait_ns.saturating_sub(before.get(&tid).copied().unwrap_or(0))
    };
    let begun = Instant::now();
    loop {
        let most_ns = waits_ns().into_iter().map(since).max().unwrap_or(0);
        if most_ns >= longest_ns {
            return Ok(());
        }
        if begun.elapsed() > Duration::from_secs(10) {
            return Err(most_ns);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn busy_cpus_give_no_more_time_than_there_is() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = "int main(void) { for (;;) spin(1000000); }";
    let program = build(folder.path(), "spinner", source);
    let spinners: Vec<Background> =
        (0..=cpus()).map(|_| Background::start(&program, &[])).collect();
    thread::sleep(Duration::from_millis(100));
    let (begun, before_ns) = (Instant::now(), cpu_times_ns(&spinners));
    let run = profile(folder.path(), "wall", &["--all", "-d", "3s"], &[]);
    let (passed, after_ns) = (begun.elapsed(), cpu_times_ns(&spinners));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let threads = run.summary["off_cpu"]["threads"].as_array().expect("threads");
    let all = |key| threads.iter().filter_map(move |thread| thread[key].as_u64());
    // Threads that lived throughout give the recorded time. Setup and teardown take longer.
    let window_ns = all("elapsed_ns").max().expect("a thread");
    assert!(window_ns > 2_900_000_000 && window_ns <= run.number("/duration_ns"), "{window_ns}");
    let watched_ns = window_ns * cpus() as u64;
    near(&run, all("on_cpu_ns").sum(), watched_ns, 5.0, 100_000_000);
    let recorded_ns = run.number("/duration_ns") * cpus() as u64;
    near(&run, run.number("/target_cpu_time_ns"), recorded_ns, 5.0, 100_000_000);
    // They share the CPUs with other load, so their shares are unknown. The scheduler's time is longer, as it includes
    // wingbeat's symbolization.
    let is_all_there = run.number("/off_cpu/switches/lost/buffer_full") == 0;
    for spinner in run.threads("spinner") {
        let number = |key: &str| spinner[key].as_u64().expect("a number");
        let tid = number("tid");
        let most_ns = after_ns[&tid] - before_ns[&tid];
        // Gaps of up to 1/32 count as time on the CPU.
        assert!(
            number("on_cpu_ns") <= most_ns + most_ns / 32,
            "{most_ns}: {spinner}\n{}",
            run.stderr
        );
        let share = most_ns as f64 / passed.as_nanos() as f64;
        let least_ns = share / 4.0 * number("elapsed_ns") as f64;
        let on_cpu_ns = number("on_cpu_ns") as f64;
        assert!(on_cpu_ns >= least_ns, "{least_ns}: {spinner}\n{}", run.stderr);
        let is_off = number("off_cpu_ns") > 200_000_000;
        assert!(is_off || !is_all_there, "{spinner}\n{}", run.stderr);
    }
    assert_eq!(run.threads("spinner").len(), cpus() + 1, "{}", run.stderr);
}

/// Processes born before and during the recording, that exec other programs, that are killed, and some with several
/// threads.
fn bustle(folder: &Path) -> Vec<Background> {
    let source = r#"
static void *burns(void *unused) { spin(2000000); doze(3000000); return unused; }
int main(int count, char **words) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, burns, 0);
    spin(1000000);
    if (count > 1) execl(words[0], words[0], (char *)0);
    return 0; // Its threads are killed wherever they are.
}"#;
    let program = build(folder, "brood", source);
    let program = program.display();
    [
        "while :; do true | cat /dev/null; ls / >/dev/null; done".to_owned(),
        format!("while :; do {program} again; {program}; done"),
        "while :; do sleep 0.01 & sleep 0.02; kill $! 2>/dev/null; wait; done".to_owned(),
    ]
    .iter()
    .map(|script| shell(script))
    .collect()
}

#[test]
fn processes_that_come_and_go() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let _shells = bustle(folder.path());
    thread::sleep(Duration::from_millis(100));
    let waited_before = waits_ns();
    let run = profile(folder.path(), "wall", &["--all", "--wakers", "-d", "1s"], &[]).ended_with(0);
    assert!(run.number("/off_cpu/switches/born") > 50, "{}", run.stderr);
    assert!(run.number("/off_cpu/switches/ended") > 50, "{}", run.stderr);
    assert_eq!(run.number("/off_cpu/switches/lost/thread_gone"), 0, "{}", run.stderr);
    let threads = run.summary["off_cpu"]["threads"].as_array().expect("threads");
    for thread in threads {
        let number = |key: &str| thread[key].as_u64().expect("a number");
        assert!(number("on_cpu_ns") <= number("elapsed_ns") + 1_000, "{thread}");
    }
    // No thread counts as waiting for a CPU for the whole recording, unless it did: on a busy machine kernel threads
    // get no CPU for seconds.
    let longest_ns = run.blocks("", "preempted").max_ns;
    if longest_ns > run.number("/duration_ns") / 10 * 9 {
        let waited = expect_wait(longest_ns / 10 * 9, &waited_before);
        assert_eq!(waited, Ok(()), "{longest_ns}: {}", run.stderr);
    }
    // All threads have names, including new ones, unless the kernel's event was lost: if wingbeat itself gets no CPU
    // for a second.
    let unnamed: Vec<&str> = run
        .folded
        .iter()
        .map(|(stack, _)| stack.as_str())
        .filter(|stack| stack.starts_with("PID"))
        .collect();
    let is_told = run.number("/events_lost") == 0;
    assert!(unnamed.is_empty() || !is_told, "{unnamed:#?}\n{}", run.stderr);
}
