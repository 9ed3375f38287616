//! `wingbeat bench --against`.

use std::{env, process::Command};

use serde_json::Value;

use crate::bench::support::{Folder, TURNS, executed, looping, probe, turn, turn_with_object};

/// Compares `new.o` with `old.o`; returns the JSON.
fn compared(folder: &Folder, code: i32) -> Value {
    let arguments = ["bench", "new.o", "--against", "old.o", "--time", "12s", "--allow-stats"];
    let more = ["--err", "--threshold", "20", "--format", "json"];
    folder.run(&[&arguments[..], &more].concat()).ended_with(code).json()
}

fn measure<'a>(report: &'a Value, name: &str) -> &'a Value {
    let measures = report["cases"][0]["measures"].as_array();
    let found = measures.and_then(|all| all.iter().find(|it| it["measure"] == name));
    found.unwrap_or_else(|| panic!("no {name} in {report}"))
}

#[test]
fn three_times_the_loop_is_worse() {
    let Some(_turn) = turn() else { return };
    let folder = Folder::new();
    folder.file("old.o", looping(TURNS));
    folder.file("new.o", looping(3 * TURNS));
    let report = compared(&folder, 1);
    let counts = measure(&report, "instructions");
    assert_eq!(counts["before"].as_f64(), Some(executed(TURNS) as f64));
    assert_eq!(counts["after"].as_f64(), Some(executed(3 * TURNS) as f64));
    for name in ["latency", "instructions", "verified-instructions"] {
        let found = measure(&report, name);
        assert_eq!(found["verdict"], "worse", "{name}: {found}");
        assert_eq!(found["is_beyond_threshold"], true, "{name}: {found}");
    }
    let change = measure(&report, "latency")["change"].as_f64();
    assert!(change.is_some_and(|change| change > 0.5 && change < 5.0), "{report}");
}

#[test]
fn what_cannot_be_run_is_compared_as_the_verifier_sees_it() {
    let Some(_turn) = turn() else { return };
    let folder = Folder::new();
    folder.file("old.o", probe(true));
    folder.file("new.o", probe(true));
    let report = compared(&folder, 0);
    assert_eq!(report["cases"][0]["name"], "on_event");
    let verified = measure(&report, "verified-instructions");
    assert_eq!((&verified["verdict"], &verified["after"]), (&"same".into(), &3.0.into()));
    assert_eq!(report["unmatched"], serde_json::json!([]));
    // By name as well: nothing has failed.
    folder.run(&["bench", "new.o", "on_event", "--against", "old.o", "--err"]).ended_with(0);
    folder.run(&["bench", "new.o", "--format", "csv", "-o", "old.csv"]).ended_with(1);
    folder.run(&["bench", "new.o", "on_event", "--against", "old.csv", "--err"]).ended_with(0);
}

#[test]
fn figures_of_an_earlier_run() {
    let Some((_turn, folder)) = turn_with_object() else { return };
    let bench = ["bench", "looping.o", "--samples", "3", "--time", "20s", "--allow-stats"];
    let run = |more: &[&str]| folder.run(&[&bench[..], more].concat());
    run(&["--format", "csv", "-o", "old.csv"]).ended_with(0);
    run(&["--against", "old.csv", "--err"]).ended_with(0);
    folder.file("looping.o", looping(3 * TURNS));
    run(&["--against", "old.csv", "--err", "--threshold-exact", "200"]).ended_with(0);
    run(&["--against", "old.csv", "--err"]).ended_with(1).prints("worse");
    folder.file("old.csv", "a,b\n1,2\n");
    run(&["--against", "old.csv"]).ended_with(1);
}

/// Returns 2 while its budget lasts, which is longer than the first run and shorter than a burst.
const LIMITED: &str = r#"
unsigned long used;
__attribute__((section("xdp"), used)) int limited(void *ctx) { return used++ < 50 ? 2 : 1; }
"#;

#[test]
fn figures_that_contradict_each_other_are_an_error_of_err() {
    let Some(_turn) = turn() else { return };
    let folder = Folder::new();
    folder.file("limited.c", LIMITED);
    let clang = Command::new("clang")
        .args(["-target", "bpf", "-O2", "-g", "-c", "limited.c"])
        .current_dir(folder.path("."))
        .status();
    let Ok(status) = clang else {
        assert!(env::var_os("CI").is_none(), "CI must have clang");
        return;
    };
    assert!(status.success());
    let bench = ["bench", "limited.o", "--against", "limited.o", "--time", "3s", "--allow-stats"];
    folder.run(&bench).ended_with(0).prints("limited returned 2 in the first run");
    folder.run(&[&bench[..], &["--err"]].concat()).ended_with(1).tells("nothing is judged by them");
}
