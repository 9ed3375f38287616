//! The article's two jobs in all spellings, and their purpose: a regression fails, its fix passes, and unchanged code
//! raises no alert.

use crate::{
    ran::Ran,
    repository::{Repository, instructions, latency},
};

/// Output of `cargo bench` with Criterion.
fn criterion(time_ns: f64) -> String {
    let (low, high) = (time_ns * 0.98, time_ns * 1.02);
    format!("process_sample          time:   [{low:.3} ns {time_ns:.3} ns {high:.3} ns]\n")
}

/// A repository with a `cargo` that prints the file `output`.
fn with_cargo() -> Repository {
    let repository = Repository::new();
    repository.write("cargo", "#!/bin/sh\ntest \"$1\" = bench && cat output\n");
    repository.write("output", criterion(45.0));
    repository
}

#[test]
fn the_job_of_the_default_branch() {
    let repository = with_cargo();
    let path = format!("{}:{}", repository.path().display(), std::env::var("PATH").expect("PATH"));
    for _ in 0..2 {
        let mut command = repository.wingbeat(&["run", "--project", "simple-profiler", "--token"]);
        command.args(["x.y.z", "--branch", "main", "--testbed", "ci-runner", "--err"]);
        command.args(["cargo", "bench"]).env("PATH", &path);
        // The output is shown.
        Ran::of(&mut command).ended_with(0).tells("process_sample ");
    }
    let reports = repository.reports();
    assert_eq!(reports.len(), 2);
    let report = &reports[1];
    let names = (report.project.as_str(), report.branch.as_str(), report.testbed.as_str());
    assert_eq!(names, ("simple-profiler", "main", "ci-runner"));
    assert_eq!(report.hash.as_deref(), Some(repository.git(&["rev-parse", "HEAD"]).as_str()));
    assert_eq!(report.start_point, None);
    let benchmark = &report.iterations[0].benchmarks[0];
    assert_eq!((benchmark.name.as_str(), benchmark.metrics[0].1.value), ("process_sample", 45.0));
}

#[test]
fn the_job_of_candidates_catches_a_regression_and_lets_the_fix_pass() {
    let repository = Repository::new();
    let base = repository.git(&["rev-parse", "HEAD"]);
    let job = |flags: &[&str], count| {
        let fixed = ["--project", "simple-profiler", "--testbed", "ci-runner", "--err"];
        repository.run(&[&fixed, flags, &[&instructions(count)]].concat()).code
    };
    assert_eq!(job(&["--branch", "main"], 1000), Some(0));
    assert_eq!(job(&["--branch", "main"], 1000), Some(0), "the same code is no change");
    repository.branch("candidate");
    repository.commit();
    let of_start = ["--branch-start-point", "main", "--branch-start-point-hash", &base];
    let candidate = [&["--branch", "candidate"], &of_start[..]].concat();
    assert_eq!(job(&candidate, 1001), Some(1), "one instruction more");
    repository.commit();
    assert_eq!(job(&candidate, 1001), Some(1), "its own first push does not hide it");
    repository.commit();
    assert_eq!(job(&candidate, 1000), Some(0), "mended");
    assert_eq!(job(&candidate, 999), Some(0), "better is no alert");
    // The spelling of the talk.
    let talk = ["--if-branch", "candidate", "--else-if-branch", "main", "--else-branch"];
    assert_eq!(job(&talk, 1001), Some(1));
    assert_eq!(job(&talk, 1000), Some(0));

    let reports = repository.reports();
    assert_eq!(reports.len(), 8);
    let alerts: Vec<usize> = reports.iter().map(|report| report.alerts.len()).collect();
    assert_eq!(alerts, [0, 0, 1, 1, 0, 0, 1, 0]);
    for report in &reports[2..] {
        let start = report.start_point.as_ref().expect("a start point");
        assert_eq!((start.branch.as_str(), start.hash.as_deref()), ("main", Some(base.as_str())));
    }
}

#[test]
fn without_err_an_alert_is_told_and_no_failure() {
    let repository = Repository::new();
    repository.run(&[&instructions(5)]).ended_with(0);
    let ran = repository.run(&["--format", "json", &instructions(6)]);
    assert_eq!((ran.code, ran.json()["counts"]["alerts"]["active"].as_u64()), (Some(0), Some(1)));
    assert_eq!(repository.reports()[1].active_alerts(), 1);
}

#[test]
fn a_reader_that_has_seen_enough_does_not_hide_an_alert() {
    let repository = Repository::new();
    repository.run(&[&instructions(5)]).ended_with(0);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = repository.wingbeat(&["run", "--err", &instructions(6)]);
    let status = command.stdout(writer).stderr(std::process::Stdio::null()).status();
    assert_eq!(status.expect("it runs").code(), Some(1));
}

#[test]
fn noise_raises_no_alarm() {
    let repository = Repository::new();
    // A wave and a slower wave: 3 % around 100, without repetition.
    let noise = |at: u32| {
        let at = f64::from(at);
        100.0 + 2.0 * (at * 2.399).sin() + (at * 0.7).sin()
    };
    let values: Vec<f64> = (0..60).map(noise).collect();
    repository.history(&values);
    for at in 60..66 {
        repository.run(&["--project", "p", "--err", &latency(noise(at))]).ended_with(0);
    }
    repository.run(&["--project", "p", "--err", &latency(300.0)]).ended_with(1);
}
