//! Run-time statistics: exact while enabled, and restored afterwards.

use std::{
    env, fs,
    io::{self, BufRead as _, BufReader},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use wingbeat_bpf_loader::{
    ProgramType,
    empty_baseline::Baseline,
    program::{ProgramInfo, StatisticsOn},
};

use crate::support::{can_load, give, load as load_program, program, run, turn};

/// Set in the process that keeps statistics enabled until it is killed.
const MARK: &str = "WINGBEAT_TEST_HOLDS_STATISTICS";

/// Printed once it has enabled them.
const HELD: &str = "statistics are held";

/// The global switch, which a descriptor does not change.
fn switch() -> String {
    fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled").expect("the switch")
}

/// Waits until statistics are off; other processes may enable them for a while.
fn wait_until_off(baseline: &Baseline) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while baseline.are_statistics_on().expect("it runs") {
        assert!(Instant::now() < deadline, "somebody holds statistics, or they were left on");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn runs_are_counted_exactly_while_they_are_on() {
    let Some(()) = can_load() else { return };
    let _turn = turn();
    let before = switch();
    let loaded = load_program(&program(ProgramType::XDP), &give(2), &[]).expect("it loads");
    let runs = |count| run(&loaded, ProgramType::XDP, &[0; 14], count).expect("it runs").runs;
    let info = || ProgramInfo::of(&loaded).expect("info");
    let on = StatisticsOn::new().expect("statistics");
    let mut expected = 0;
    for count in [1, 2, 1000, 12_345] {
        let earlier = info();
        assert_eq!(runs(count), count);
        expected += u64::from(count);
        let later = info();
        assert_eq!(later.run_count, expected);
        assert!(later.run_time_ns > earlier.run_time_ns, "{count}");
        assert_eq!(later.recursion_misses, 0);
    }
    // With two holders, one may go.
    drop(StatisticsOn::new().expect("statistics"));
    runs(10);
    assert_eq!(info().run_count, expected + 10);
    assert_eq!(switch(), before, "holding is not the switch");
    drop(on);
    if before.trim() == "0" {
        wait_until_off(&Baseline::load().expect("a baseline"));
        let earlier = info();
        runs(10);
        // Check only if nobody else has enabled them since.
        if !Baseline::load().and_then(|baseline| baseline.are_statistics_on()).expect("it runs") {
            assert_eq!(info().run_count, earlier.run_count);
        }
    }
    assert_eq!(switch(), before);
}

#[test]
fn a_process_that_is_killed_leaves_them_off() {
    if env::var_os(MARK).is_some() {
        let _on = StatisticsOn::new().expect("statistics");
        println!("\n{HELD}");
        // Until it is killed; at the latest when its stdin is closed.
        drop(io::stdin().lines().next());
        panic!("nobody has killed this process");
    }
    let Some(()) = can_load() else { return };
    let _turn = turn();
    let before = switch();
    let baseline = Baseline::load().expect("a baseline");
    if before.trim() == "0" {
        wait_until_off(&baseline);
    }
    let mut holder = Command::new(env::current_exe().expect("this program"))
        .args(["statistics::a_process_that_is_killed_leaves_them_off", "--exact", "--nocapture"])
        .env(MARK, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(holder.stdout.take().expect("a pipe")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line == HELD)), "it does not hold them");
    assert!(baseline.are_statistics_on().expect("it runs"));
    holder.kill().expect("killed");
    assert!(!holder.wait().expect("it ends").success());
    assert_eq!(switch(), before);
    if before.trim() == "0" {
        wait_until_off(&baseline);
    }
}
