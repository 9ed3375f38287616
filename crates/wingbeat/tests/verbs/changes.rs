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

    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("a.txt");
    let ran = changes(&csv(), &["-o", file.to_str().expect("UTF-8")]).ended_with(0);
    let ran = ran.prints_nothing().tells("\nwrote ").tells("a.txt (");
    assert_eq!(fs::read_to_string(file).expect("text"), stdout, "{ran}");
}

#[test]
fn json_of_stdin_with_gaps() {
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
    assert_eq!(
        (&found["series"]["a"][0]["index"], &found["series"]["b"]),
        (&40.into(), &json!([]))
    );
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
    let wrong = changes("a,b\n1,2\n1,two\n", &[]).ended_with(1).prints_nothing();
    wrong.tells("error: series: line 3, column 2: \"two\" is not a finite").tells_in_one_line();
    let missing = Ran::of(Command::new(WINGBEAT).args(["changes", "/no/such/file"]));
    missing.ended_with(1).tells("error: cannot read /no/such/file: No such file");
}
