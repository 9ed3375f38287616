//! `wingbeat log`.

use super::support::{Place, REPORTS, stderr, stdout, uuid};

#[test]
fn reports_newest_first_with_what_changed() {
    let place = Place::with_history();
    let text = stdout(&place.wingbeat(&["log", "-n", "100"]).success());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len() as u64, 1 + REPORTS + 1, "{text}");
    assert!(lines[0].starts_with("time, UTC         report    branch"), "{}", lines[0]);
    assert!(lines[1].contains("feature/fast (from main)"), "{}", lines[1]);
    assert!(lines[1].starts_with("2026-11-22 22:04  0000018f"), "{}", lines[1]);
    let changed: Vec<&&str> = lines.iter().filter(|line| line.contains("kernel")).collect();
    assert_eq!(changed.len(), 1);
    assert!(changed[0].ends_with("kernel Linux 6.12 → Linux 6.18"), "{}", changed[0]);
    assert!(changed[0].starts_with("2026-11-22 06:04"), "{}", changed[0]);
    assert!(!text.contains("parser"), "one project needs no column");
}

#[test]
fn a_change_just_before_the_list_is_seen() {
    let place = Place::with_history();
    let newest = (REPORTS + 1 - 8).to_string();
    let assert = place.wingbeat(&["log", "-n", &newest]).success();
    let text = stdout(&assert);
    assert!(text.lines().last().expect("a line").contains("kernel Linux 6.12"), "{text}");
    assert!(
        stderr(&assert).starts_with("older reports are not shown; -n 85"),
        "{}",
        stderr(&assert)
    );
}

#[test]
fn filters() {
    let place = Place::with_history();
    let check = |args: &[&str], expected: usize| {
        let text = stdout(&place.wingbeat(&[&["log", "-n", "100"], args].concat()).success());
        assert_eq!(text.lines().count(), 1 + expected, "{args:?}");
    };
    check(&["--branch", "main"], 24);
    check(&["--branch", "feature/fast"], 1);
    check(&["--testbed", "ci-runner", "--project", "parser"], 25);
    check(&["--since", "2026-11-22T20:04:32"], 3);
    let fails = |args: &[&str], code: i32, expected: &str| {
        let assert = place.wingbeat(&[&["log"], args].concat()).code(code);
        assert!(stderr(&assert).contains(expected), "{args:?}: {}", stderr(&assert));
    };
    fails(&["--branch", "mian"], 1, "there is no branch mian in the store");
    fails(&["--branch", "mian"], 1, "it has feature/fast, main");
    fails(&["--project", "x"], 1, "there is no project x");
    fails(&["--since", "yesterday"], 2, "expected a time, such as 2026-11-21");
    fails(&["0000018f", "--branch", "main"], 2, "cannot be used with");
}

#[test]
fn one_report_whole() {
    let place = Place::with_history();
    let text = stdout(&place.wingbeat(&["log", "000000ef"]).success());
    for part in [
        &uuid(14).to_string(),
        "Linux 6.18",
        "parse/small  latency  1.308 µs  ± 0.026  1.004 µs  +30.0 %  worse\n",
        "worse  parse/small latency: above the limit",
        "parse/small  latency  above  0000beef",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    let text =
        stdout(&place.wingbeat(&["log", &uuid(3).to_string(), "--format", "json"]).success());
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["uuid"], uuid(3).to_string());
    assert_eq!(report["iterations"][0]["benchmarks"][0]["name"], "parse/small");
}

#[test]
fn digits_that_do_not_tell() {
    let place = Place::with_history();
    let assert = place.wingbeat(&["log", "01a2"]).failure();
    let error = stderr(&assert);
    assert!(error.contains("25 reports begin or end with 01a2; add digits"), "{error}");
    assert!(error.contains(&uuid(24).to_string()) && error.contains("and 17 more"), "{error}");
    let assert = place.wingbeat(&["log", "abcd"]).failure();
    assert!(stderr(&assert).contains("no report begins or ends with abcd; `wingbeat log` lists"));
    place.wingbeat(&["log", "xyz"]).code(2);
}

#[test]
fn json() {
    let place = Place::with_history();
    let text = stdout(&place.wingbeat(&["log", "--format", "json", "-n", "2"]).success());
    let list: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(list["schema_version"], 1);
    let list = &list["reports"];
    assert_eq!(list.as_array().map(Vec::len), Some(2));
    assert_eq!(list[0]["branch"], "feature/fast");
    assert_eq!(list[0]["start_point"]["branch"], "main");
    assert_eq!(list[1]["metrics"], 2);
    assert_eq!(list[1]["start_time"], "2026-11-22T21:04:32Z");
}

#[test]
fn without_a_store_there_is_a_sentence() {
    let place = Place::empty();
    for verb in [&["log"][..], &["alerts"], &["plot"], &["export", "out"]] {
        let assert = place.wingbeat(verb).code(1);
        let error = stderr(&assert);
        assert!(error.contains("there is no store at"), "{verb:?}: {error}");
        assert!(error.contains("`wingbeat run` makes one"), "{verb:?}: {error}");
    }
    assert!(!place.store().exists(), "looking makes no store");
}

#[test]
fn the_environment_names_the_store() {
    let place = Place::with_history();
    let mut command = place.command();
    command.args(["log", "-n", "1"]).env("WINGBEAT_STORE", place.store()).assert().success();
}
