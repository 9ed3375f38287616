//! `--profile`: runs the benchmark again under the profiler, and an alert names the function.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use wingbeat_bpf_loader::rights::Rights;
use wingbeat_track::{model::ProfileKind, store::Store};

use crate::{
    ran::{Ran, turn, without_rights},
    repository::Repository,
};

/// A benchmark of about 0.3 s that sleeps or works more if the environment says so, and prints the time per iteration.
const BENCHMARK: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}
static __attribute__((noinline)) void work(int rounds) { for (volatile int i = 0; i < rounds; i++) {} }
static __attribute__((noinline)) void oops(void) { usleep(3000); work(1); }
static __attribute__((noinline)) void parse(void) { work(1000000); if (getenv("SLOW")) oops(); }
int main(void) {
    double begin = now();
    long iterations = 0;
    for (; now() - begin < 3e8; iterations++) parse();
    printf("{\"parse\": {\"latency\": {\"value\": %f}}}\n", (now() - begin) / iterations);
}
"#;

/// An increase by half is an alert, given two earlier reports.
const FLAGS: &str = "--project p --profile --err --threshold-measure latency --threshold-test percentage \
                     --threshold-upper-boundary 0.5 --threshold-min-sample-size 2";

fn may_profile() -> Result<(), String> {
    let rights = Rights::current().map_err(|error| error.to_string())?;
    rights.check_for_profile().map_err(|error| error.to_string())
}

#[test]
fn an_alert_names_the_function_that_sleeps() {
    let Some(_turn) = turn(may_profile()) else { return };
    let repository = Repository::new();
    repository.write("bench.c", BENCHMARK);
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-g", "-o", "bench", "bench.c"]).current_dir(repository.path());
    assert!(compiler.status().expect("cc").success());
    let run = |line: &str| Ran::of(repository.wingbeat(&["run"]).args(FLAGS.split(' ')).arg(line));
    for _ in 0..3 {
        run("./bench").ended_with(0);
    }
    let slow = run("SLOW=1 ./bench").ended_with(1);
    assert!(slow.stderr.contains("profiling parse (1 of 1)"), "{slow}");
    assert!(
        slow.stdout.contains("cause   parse latency: oops (") && slow.stdout.contains("bench.c:"),
        "{slow}"
    );

    let store = Store::open_existing(repository.store_path()).expect("a store");
    for report in repository.first_reports() {
        let profiles = store.profiles(report.uuid).expect("a list");
        let [profile] = &profiles[..] else { panic!("one profile: {profiles:?}") };
        assert_eq!(
            (profile.kind, profile.tool.starts_with("wingbeat ")),
            (ProfileKind::Wall, true)
        );
        assert_eq!(profile.benchmark.as_ref().map(|name| name.as_str()), Some("parse"));
    }
    let last = repository.first_reports().last().expect("a report").uuid.to_string();
    let log = Ran::of(&mut repository.wingbeat(&["log", &last]));
    assert!(log.stdout.contains("cause  parse latency: oops ("), "{log}");
    let log = Ran::of(&mut repository.wingbeat(&["log", &last, "--format", "json"]));
    assert!(log.stdout.contains("\"sha256\"") && log.stdout.contains("\"sentences\""), "{log}");
    the_same_is_told_of(&repository);
}

/// By the alert, by both reports, and in the picture.
fn the_same_is_told_of(repository: &Repository) {
    let reports = repository.first_reports();
    let [.., before, after] = &reports[..] else { panic!("two reports") };
    let (alert, sides) =
        (after.alerts[0].uuid.to_string(), format!("{}..{}", before.uuid, after.uuid));
    let of_alert = ["--alert", &alert];
    let of_reports = ["--reports", &sides, "--benchmark", "parse", "--measure", "latency"];
    for what in [&of_alert[..], &of_reports] {
        let diff = |more: &[&str]| {
            let words = [&["diff"], what, more].concat();
            Ran::of(&mut repository.wingbeat(&words)).ended_with(0)
        };
        let told = diff(&[]).stdout;
        assert!(told.starts_with("parse latency: ") && told.contains("\noops ("), "{told}");
        let found = diff(&["--format", "json"]).json();
        assert_eq!(found["functions"][0]["function"], "oops", "{found}");
        let drawn = diff(&["-o", "cause.svg"]);
        assert!(drawn.stderr.contains("wrote cause.svg"), "{drawn}");
    }
    let unknown = ["--reports", &sides, "--benchmark", "print", "--measure", "latency"];
    let told = Ran::of(&mut repository.wingbeat(&[&["diff"][..], &unknown].concat()));
    assert!(told.stderr.contains("no metric of it in common"), "{told}");
}

#[test]
fn a_command_that_fails_the_second_time_loses_nothing() {
    let Some(_turn) = turn(may_profile()) else { return };
    let repository = Repository::new();
    let line = "[ -e ran ] && exit 3; touch ran; echo '{\"a\": {\"latency\": {\"value\": 1}}}'";
    let ran = repository.run(&["--project", "p", "--profile=cpu", line]).ended_with(0);
    assert!(ran.stdout.contains("no cpu profile of a: its run failed with status 3"), "{ran}");
    assert_eq!(repository.reports().len(), 1);
}

#[test]
fn without_rights_the_report_is_stored_all_the_same() {
    let repository = Repository::new();
    let mut wingbeat = without_rights(&repository.temporary());
    let open = repository.temporary().join("open");
    fs::create_dir(&open).expect("a folder");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("permissions");
    wingbeat.args(["run", "--project", "p", "--profile", "--store", "open/results.db"]);
    let ran = Ran::of(wingbeat.arg("echo '{\"a\": {\"latency\": {\"value\": 1}}}'"));
    assert!(ran.stdout.contains("no wall profile of a: "), "{ran}");
    assert!(ran.stdout.contains("stored in"), "{ran}");
}
