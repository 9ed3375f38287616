//! `wingbeat changes` from files to output and exit code. Needs no privileges.

use std::{fs, process::Command};

use serde_json::json;

use crate::{ran::Ran, repository::WINGBEAT};

/// Runs `wingbeat changes` on a file `series` with this content.
fn changes(content: &str, arguments: &[&str]) -> Ran {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("series"), content).expect("a file");
    let mut command = Command::new(WINGBEAT);
    Ran::of(command.current_dir(&folder).args(["changes", "series"]).args(arguments))
}

/// Sixty points with a wave of three; the level rises from 100 to 110 at the 41st. And a stable series.
fn csv() -> String {
    let line = |at: u32| {
        let level = if at < 40 { 100 } else { 110 };
        format!("c{at:02},{},{}\n", level + at % 3, 7 + at % 2)
    };
    let lines: String = (0..60).map(line).collect();
    format!("commit,latency,size\n{lines}")
}

#[test]
fn a_table_with_labels() {
    let Ran { stdout, stderr, .. } = changes(&csv(), &[]).ended_with(0);
    let labels = "note: series: column 1, \"commit\", is used as labels: \"c00\" in line 2 is not a \
         number\n";
    assert_eq!(stderr, labels);
    let lines: Vec<Vec<&str>> =
        stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["series", "index", "label", "before", "after", "change", "p"]);
    assert_eq!(lines[1][..7], ["latency", "40", "c40", "101", "→", "111", "+10.0"]);
    assert_eq!(stdout.lines().last(), Some("no change in 1 of 2 series"));
}

#[test]
fn json_names_every_series() {
    let found = changes(&csv(), &["--format", "json"]).ended_with(0).json();
    assert_eq!(found["series"]["size"], json!([]));
    let change = &found["series"]["latency"][0];
    assert_eq!(change["index"], 40);
    for key in ["before", "after", "change", "p"] {
        assert!(change[key].is_f64(), "{key}: {change}");
    }
}

#[test]
fn stdin_and_gaps() {
    let mut values: Vec<String> =
        (0..60).map(|at| (if at < 40 { 100 } else { 110 } + at % 3).to_string()).collect();
    values[0] = "null".to_owned();
    values[39] = "null".to_owned();
    let json = format!("{{\"a\": [{}], \"b\": [null, 1]}}", values.join(","));
    let mut command = Command::new(WINGBEAT);
    command.args(["changes", "-", "--format", "json"]);
    let ran = Ran::with_stdin(command, &json);
    assert_eq!(ran.stderr, "note: 1 of 2 series has fewer than 8 values, too few for a change\n");
    let found = ran.ended_with(0).json();
    assert_eq!(found["series"]["a"][0]["index"], 40);
    assert_eq!(found["series"]["b"], json!([]));
}

#[test]
fn exit_codes() {
    let csv = csv();
    let check = |arguments: &[&str], expected| {
        changes(&csv, arguments).ended_with(expected);
    };
    check(&["--err"], 1);
    check(&["--err", "--last", "20"], 1);
    check(&["--err", "--last", "19"], 0);
    check(&["--err", "--min-change", "5%"], 1);
    check(&["--err", "--min-change", "12"], 0);
    check(&["--err", "--alpha", "1e-300"], 0);
}

#[test]
fn errors_are_one_sentence_with_the_place() {
    let check = |content: &str, expected: &str| {
        let Ran { stderr, .. } = changes(content, &[]).ended_with(1).prints_nothing();
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.starts_with(&format!("error: series: {expected}")), "{stderr}");
    };
    check("", "the file is empty");
    check("a,b\n1,2\n1,two\n", "line 3, column 2: \"two\" is not a finite number");
    check("{\"a\": [1, true]}", "line 1, column 14: invalid type: boolean `true`");
    let missing = Ran::of(Command::new(WINGBEAT).args(["changes", "/no/such/file"]));
    missing.ended_with(1).tells("error: cannot read /no/such/file: No such file");
}

#[test]
fn output_goes_into_a_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("a.csv"), csv()).expect("a file");
    let mut command = Command::new(WINGBEAT);
    let ran = Ran::of(command.current_dir(&folder).args(["changes", "a.csv", "-o", "a.txt"]));
    let ran = ran.ended_with(0).prints_nothing();
    let stderr = ran.stderr.lines().last().expect("a line");
    assert!(stderr.starts_with("wrote ") && stderr.contains("a.txt ("), "{stderr}");
    assert!(fs::read_to_string(folder.path().join("a.txt")).expect("text").contains("latency"));
}
