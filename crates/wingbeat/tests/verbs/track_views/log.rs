//! `wingbeat log`.

use super::support::{Place, REPORTS, uuid};
use crate::ran::Ran;

#[test]
fn reports_newest_first_with_what_changed() {
    let place = Place::with_history();
    let text = place.wingbeat(&["log", "-n", "100"]).ended_with(0).stdout;
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
    let ran = place.wingbeat(&["log", "-n", &newest]).ended_with(0);
    let last = ran.stdout.lines().last().expect("a line");
    assert!(last.contains("kernel Linux 6.12"), "{ran}");
    assert!(ran.stderr.starts_with("older reports are not shown; -n 85"), "{ran}");
}

#[test]
fn filters() {
    let place = Place::with_history();
    let check = |args: &[&str], expected: usize| {
        let text = place.wingbeat(&[&["log", "-n", "100"], args].concat()).ended_with(0).stdout;
        assert_eq!(text.lines().count(), 1 + expected, "{args:?}");
    };
    check(&["--branch", "main"], 24);
    check(&["--branch", "feature/fast"], 1);
    check(&["--testbed", "ci-runner", "--project", "parser"], 25);
    check(&["--since", "2026-11-22T20:04:32"], 3);
    let fails = |args: &[&str], code: i32, expected: &str| {
        place.wingbeat(&[&["log"], args].concat()).ended_with(code).tells(expected);
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
    let text = place.wingbeat(&["log", "000000ef"]).ended_with(0).stdout;
    for part in [
        &uuid(14).to_string(),
        "Linux 6.18",
        "parse/small  latency  1.308 µs  ± 0.026  1.004 µs  +30.0 %  worse\n",
        "worse  parse/small latency: above the limit",
        "parse/small  latency  above  0000beef",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    let report =
        place.wingbeat(&["log", &uuid(3).to_string(), "--format", "json"]).ended_with(0).json();
    assert_eq!(report["uuid"], uuid(3).to_string());
    assert_eq!(report["iterations"][0]["benchmarks"][0]["name"], "parse/small");
}

#[test]
fn digits_that_do_not_tell() {
    let place = Place::with_history();
    let ran = place.wingbeat(&["log", "01a2"]).ended_with(1);
    ran.tells("25 reports begin or end with 01a2; add digits")
        .tells(&uuid(24).to_string())
        .tells("and 17 more");
    let ran = place.wingbeat(&["log", "abcd"]).ended_with(1);
    ran.tells("no report begins or ends with abcd; `wingbeat log` lists");
    place.wingbeat(&["log", "xyz"]).ended_with(2);
}

#[test]
fn json() {
    let place = Place::with_history();
    let list = place.wingbeat(&["log", "--format", "json", "-n", "2"]).ended_with(0).json();
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
        let ran = place.wingbeat(verb).ended_with(1);
        ran.tells("there is no store at").tells("`wingbeat run` creates one");
    }
    assert!(!place.store().exists(), "looking makes no store");
}

#[test]
fn the_environment_names_the_store() {
    let place = Place::with_history();
    let mut command = place.command();
    command.args(["log", "-n", "1"]).env("WINGBEAT_STORE", place.store());
    Ran::of(&mut command).ended_with(0);
}
