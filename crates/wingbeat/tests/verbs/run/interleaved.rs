//! With fewer than five reports of history, apparent regressions are remeasured, interleaved with the commit of the
//! nearest report, and that decides. If it is impossible, prints a notice.

use std::{fs, process};

use rustix::process::Signal;
use serde_json::Value;
use wingbeat_track::model::Measure;

use crate::{
    ran::{Ran, started, stopped, wait_for},
    repository::Repository,
};

/// Prints one benchmark with twelve samples, like hyperfine. It takes the time in the file `work`, up to 2 % more,
/// multiplied once by the factor in the file named by `SPIKE`.
const BENCH: &str = r#"#!/bin/sh
work=$(cat work)
spike=$(cat "$SPIKE" 2>/dev/null || echo 1)
rm -f "$SPIKE"
if [ -n "$WAIT" ] && [ -n "$CARGO_TARGET_DIR" ]; then echo > "$WAIT"; sleep 600; fi
awk -v work="$work" -v spike="$spike" -v seed="$(date +%N)" 'BEGIN {
    srand(seed); mean = work * spike * (1 + rand() / 50); times = mean
    for (i = 0; i < 11; i++) times = times ", " mean * (0.99 + rand() / 50)
    printf "{\"results\": [{\"command\": \"bench\", \"mean\": %f, \"stddev\": 0.1, \"median\": %f, ", mean, mean
    printf "\"min\": %f, \"max\": %f, \"user\": 0, \"system\": 0, \"times\": [%s]}]}\n", mean, mean, times
}'
"#;

/// A repository with the benchmark.
struct Bed(Repository);

impl Bed {
    /// With one report, of work 100.
    fn new() -> Self {
        let bed = Self(Repository::new());
        bed.0.write("bench.sh", BENCH);
        bed.commit("100");
        bed.run(&[], &["./bench.sh"]).ended_with(0);
        bed
    }

    /// Commits a change of the benchmark's work.
    fn commit(&self, work: &str) -> String {
        self.0.write("work", work);
        self.0.git(&["add", "bench.sh", "work"]);
        self.0.commit()
    }

    /// Slows down the next run by a factor.
    fn spike(&self, factor: &str) {
        fs::write(self.0.temporary().join("spike"), factor).expect("written");
    }

    fn wingbeat(&self, flags: &[&str], command: &[&str]) -> process::Command {
        let fixed = ["run", "--project", "p", "--adapter", "shell_hyperfine", "--format", "json"];
        let mut wingbeat = self.0.wingbeat(&[&fixed, flags, &["--"], command].concat());
        wingbeat.env("SPIKE", self.0.temporary().join("spike"));
        wingbeat
    }

    fn run(&self, flags: &[&str], command: &[&str]) -> Ran {
        Ran::of(&mut self.wingbeat(flags, command))
    }
}

fn verdict(ran: &Ran) -> Value {
    ran.json()["results"][0][0]["measures"][0]["wingbeat"].clone()
}

/// A notice in one line.
fn sentence(notice: &Value) -> String {
    let parts = ["cause", "effect", "next_step"].map(|part| notice[part].as_str().expect("a text"));
    parts.join("; ")
}

/// Notices about apparent changes.
fn notices(ran: &Ran) -> Vec<String> {
    let json = ran.json();
    let notices = json["wingbeat"]["notices"].as_array().expect("notices");
    let looks = notices.iter().filter(|notice| notice["code"] == "looks-changed");
    looks.map(sentence).collect()
}

#[test]
fn a_regression_is_an_alert_with_its_evidence() {
    let bed = Bed::new();
    let before = bed.0.git(&["rev-parse", "HEAD"]);
    bed.commit("150");
    let ran = bed.run(&["--err"], &["./bench.sh"]).ended_with(1);
    assert_eq!(notices(&ran), Vec::<String>::new());
    let verdict = verdict(&ran);
    assert_eq!(verdict["verdict"], "worse");
    let change = verdict["change"]["relative"].as_f64().expect("a change");
    assert!((0.45..0.55).contains(&change), "{change}");
    let reason = verdict["reason"].as_str().expect("a reason");
    let with = format!("measured again, alternating with {} (", &before[..10]);
    assert!(reason.starts_with(&with) && reason.contains("worse, +"), "{reason}");
    assert!(ran.remarks().contains(&with), "{}", ran.remarks());
    let stored = bed.0.reports().pop().expect("a report");
    let why = stored.verdicts[0].reason.text(&Measure::latency());
    assert_eq!((stored.alerts.len(), why.as_str()), (1, reason));
    bed.0.assert_no_worktrees();
}

#[test]
fn a_slow_moment_of_the_machine_is_none() {
    let bed = Bed::new();
    bed.commit("100.0");
    bed.spike("3");
    let ran = bed.run(&["--err"], &["./bench.sh"]).ended_with(0);
    let verdict = verdict(&ran);
    assert_eq!(verdict["verdict"], "no-change");
    assert!(verdict["change"]["relative"].as_f64().expect("a change").abs() < 0.05);
    assert!(ran.remarks().contains("not worse"), "{}", ran.remarks());
    assert_eq!(bed.0.reports()[1].alerts, []);
    assert!(ran.stderr.contains("measuring alternately with"), "{}", ran.stderr);
    bed.0.assert_no_worktrees();
}

#[test]
fn what_looks_better_is_not_measured_again() {
    let bed = Bed::new();
    bed.commit("50");
    let ran = bed.run(&["--err"], &["./bench.sh"]).ended_with(0);
    let [notice] = &notices(&ran)[..] else { panic!("{}", ran.stdout) };
    assert!(
        notice.contains("bench latency −49") || notice.contains("bench latency −50"),
        "{notice}"
    );
    assert!(notice.contains("looks better; 1 report of history cannot show"), "{notice}");
    assert!(!ran.stderr.contains("alternat"), "{}", ran.stderr);
}

/// Compares with the commit of the start point, not with the branch's last push.
#[test]
fn a_branch_is_compared_with_its_start_point() {
    let bed = Bed::new();
    let main = bed.0.git(&["rev-parse", "HEAD"]);
    bed.0.branch("candidate");
    for work in ["150", "151"] {
        bed.commit(work);
        bed.run(&["--err", "--start-point", "main"], &["./bench.sh"])
            .ended_with(1)
            .remarks_on(&main[..10]);
    }
}

/// Any obstacle is reported as a notice, and never as a failure.
#[test]
fn what_cannot_be_measured_again_fails_nothing() {
    let check = |prepare: &dyn Fn(&Bed), flags: &[&str], command: &[&str], why: &str| {
        let bed = Bed::new();
        bed.commit("150");
        prepare(&bed);
        let ran = bed.run(&[&["--err"], flags].concat(), command).ended_with(0);
        assert_eq!(verdict(&ran)["verdict"], "too-little-history");
        let [notice] = &notices(&ran)[..] else { panic!("{why}: {}", ran.stdout) };
        assert!(notice.contains("looks worse; 1 report of history cannot show"), "{notice}");
        assert!(notice.contains(why), "{notice}");
        assert!(bed.0.worktrees().is_empty());
    };
    let nothing = |_: &Bed| {};
    let bench = ["./bench.sh"];
    check(&nothing, &["--confirm", "0"], &bench, "--confirm 0 says so");
    let dirty = |bed: &Bed| bed.0.write("work", "160");
    check(&dirty, &[], &bench, "changes that are not committed");
    let same = |bed: &Bed| {
        bed.0.git(&["checkout", "-q", "HEAD~1"]);
        bed.spike("2");
    };
    check(&same, &["--branch", "main"], &bench, "is of the same commit");
    let other = "0123456789012345678901234567890123456789";
    check(&nothing, &["--hash", other], &bench, "--hash names another commit");
    let line = "./bench.sh > results";
    check(&nothing, &["--file", "results"], &[line], "the results are in files");
    let written = |bed: &Bed| bed.0.write("results", output_of(bed));
    check(&written, &["--file", "results"], &[], "without a command");
    let elsewhere = |bed: &Bed| {
        let from = bed.0.path().join("bench.sh");
        fs::copy(from, bed.0.path().join("built")).expect("copied");
    };
    check(&elsewhere, &[], &["./built"], "\"./built\" failed with status 127 in base");
    let outside = |bed: &Bed| fs::remove_dir_all(bed.0.path().join(".git")).expect("removed");
    check(&outside, &["--branch", "main"], &bench, "there is no git repository here");
    // Like a clone of depth 1.
    let shallow = |bed: &Bed| {
        let head = bed.0.git(&["rev-parse", "HEAD"]);
        bed.0.write(".git/shallow", format!("{head}\n"));
        bed.0.git(&["reflog", "expire", "--expire=now", "--all"]);
        bed.0.git(&["gc", "-q", "--prune=now"]);
    };
    check(&shallow, &[], &bench, "is not in this clone");
}

fn output_of(bed: &Bed) -> String {
    let mut script = process::Command::new("./bench.sh");
    let output = script.current_dir(bed.0.path()).output().expect("it runs");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_whole_path_into_the_working_tree_is_the_same_for_both_commits() {
    let bed = Bed::new();
    bed.commit("150");
    let root = bed.0.git(&["rev-parse", "--show-toplevel"]);
    let ran = bed.run(&["--err"], &[&format!("cd {root} && ./bench.sh")]).ended_with(0);
    let [notice] = &notices(&ran)[..] else { panic!("{}", ran.stdout) };
    assert!(notice.contains("which is the same file for both commits"), "{notice}");
}

#[test]
fn after_ctrl_c_the_report_is_stored_and_the_worktrees_are_gone() {
    let bed = Bed::new();
    bed.commit("150");
    let waits = bed.0.temporary().join("waits");
    let mut wingbeat = bed.wingbeat(&["--err"], &["./bench.sh"]);
    wingbeat.env("WAIT", &waits);
    let child = started(wingbeat);
    wait_for("a measurement in turns", || waits.exists());
    assert_eq!(bed.0.worktrees().len(), 2);
    let ran = stopped(child, Signal::INT).ended_by(Signal::INT);
    let ran = ran.tells("interrupted; earlier results are kept");
    let notice = sentence(&ran.json()["wingbeat"]["notices"][0]);
    assert!(notice.contains("it was interrupted"), "{notice}");
    assert_eq!(bed.0.reports().len(), 2);
    bed.0.assert_no_worktrees();
}
