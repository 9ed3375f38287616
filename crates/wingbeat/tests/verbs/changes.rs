//! `wingbeat changes` from files to output and exit code. Needs no rights.

use std::fs;

use assert_cmd::Command;
use serde_json::Value;

use crate::ran::Ran;

/// Runs `wingbeat changes` on a file `series` with this content.
fn changes(content: &str, arguments: &[&str]) -> Ran {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("series"), content).expect("a file");
    ran(Command::cargo_bin("wingbeat")
        .expect("wingbeat")
        .current_dir(&folder)
        .args(["changes", "series"])
        .args(arguments))
}

fn ran(command: &mut Command) -> Ran {
    command.output().expect("it runs").into()
}

/// Sixty points with a wave of three; the level goes from 100 to 110 at the 41st. And a calm series.
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
    let Ran { code, stdout, stderr } = changes(&csv(), &[]);
    let labels = "note: series: column 1, \"commit\", is used as labels: \"c00\" in line 2 is not a \
         number\n";
    assert_eq!((code, stderr.as_str()), (Some(0), labels));
    let lines: Vec<Vec<&str>> =
        stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["series", "index", "label", "before", "after", "change", "p"]);
    assert_eq!(lines[1][..7], ["latency", "40", "c40", "101", "→", "111", "+10.0"]);
    assert_eq!(stdout.lines().last(), Some("no change in 1 of 2 series"));
}

#[test]
fn json_names_every_series() {
    let Ran { code, stdout, .. } = changes(&csv(), &["--format", "json"]);
    assert_eq!(code, Some(0));
    let found: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(found["series"]["size"], Value::Array(Vec::new()));
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
    let mut command = Command::cargo_bin("wingbeat").expect("wingbeat");
    let command = command.args(["changes", "-", "--format", "json"]).write_stdin(json);
    let Ran { code, stdout, stderr } = ran(command);
    assert_eq!(stderr, "note: 1 of 2 series has fewer than 8 values, too few for a change\n");
    let found: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((code, &found["series"]["a"][0]["index"]), (Some(0), &Value::from(40)));
    assert_eq!(found["series"]["b"], Value::Array(Vec::new()));
}

#[test]
fn exit_codes() {
    let csv = csv();
    let check = |arguments: &[&str], expected| {
        let Ran { code, stderr, .. } = changes(&csv, arguments);
        assert_eq!(code, Some(expected), "{arguments:?}: {stderr}");
    };
    check(&["--err"], 1);
    check(&["--err", "--last", "20"], 1);
    check(&["--err", "--last", "19"], 0);
    check(&["--err", "--min-change", "5%"], 1);
    check(&["--err", "--min-change", "12"], 0);
    check(&["--err", "--alpha", "1e-300"], 0);
    check(&["--min-change", "-1"], 2);
    check(&["--alpha", "0"], 2);
    check(&["--last", "0"], 2);
    check(&["--format", "xml"], 2);
}

#[test]
fn errors_are_one_sentence_with_the_place() {
    let check = |content: &str, expected: &str| {
        let Ran { code, stdout, stderr } = changes(content, &[]);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{content:?}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.starts_with(&format!("error: series: {expected}")), "{stderr}");
    };
    check("", "the file is empty");
    check("a,b\n1,2\n1,two\n", "line 3, column 2: \"two\" is not a finite number");
    check("{\"a\": [1, true]}", "line 1, column 14: invalid type: boolean `true`");
    let mut command = Command::cargo_bin("wingbeat").expect("wingbeat");
    let missing = ran(command.args(["changes", "/no/such/file"])).ended_with(1);
    assert!(missing.stderr.starts_with("error: cannot read /no/such/file: No such file"));
}

#[test]
fn output_goes_into_a_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("a.csv"), csv()).expect("a file");
    let mut command = Command::cargo_bin("wingbeat").expect("wingbeat");
    let command = command.current_dir(&folder).args(["changes", "a.csv", "-o", "a.txt"]);
    let Ran { code, stdout, stderr } = ran(command);
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    let stderr = stderr.lines().last().expect("a line");
    assert!(stderr.starts_with("wrote ") && stderr.contains("a.txt ("), "{stderr}");
    assert!(fs::read_to_string(folder.path().join("a.txt")).expect("text").contains("latency"));
}
