//! `wingbeat diff` without a picture, from files to output and exit code. Needs no privileges.

use std::{fs, process::Command};

use crate::{ran::Ran, repository::WINGBEAT};

/// Compares two files of these contents.
fn diff((before, after): (&str, &str), arguments: &[&str]) -> Ran {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("before.folded"), before).expect("a file");
    fs::write(folder.path().join("after.folded"), after).expect("a file");
    let mut command = Command::new(WINGBEAT);
    command.current_dir(&folder).args(["diff", "before.folded", "after.folded"]).args(arguments);
    Ran::of(&mut command)
}

const BEFORE: &str = "main;parse 5000\nmain;print 5000\nmain;old 400\n";
const AFTER: &str = "main;parse 9000\nmain;print 5000\nmain;new 800\n";

#[test]
fn the_functions_that_changed() {
    let Ran { stdout, stderr, .. } = diff((BEFORE, AFTER), &[]).ended_with(0);
    assert_eq!(stderr, "");
    let lines: Vec<&str> = stdout.lines().collect();
    assert!(lines[0].starts_with("before.folded → after.folded: "), "{stdout}");
    assert!(lines[1].starts_with("parse, called by main, adds 4.000 k samples of "), "{stdout}");
    let rows = lines.iter().filter_map(|line| line.split_whitespace().next());
    let rows: Vec<_> = rows.skip_while(|first| *first != "function").skip(1).collect();
    assert_eq!(rows, ["parse", "new", "old"], "{stdout}");

    let found = diff((BEFORE, AFTER), &["--format", "json"]).ended_with(0).json();
    assert_eq!((&found["schema_version"], &found["difference"]), (&1.into(), &4400.0.into()));
    let functions = found["functions"].as_array().expect("functions");
    let sum: f64 = functions.iter().filter_map(|one| one["difference"].as_f64()).sum();
    assert_eq!(sum, 4400.0, "{found}");
    let first = &functions[0];
    assert_eq!((&first["function"], &first["before"]), (&"parse".into(), &5000.0.into()));

    let check = |files: (&str, &str), expected: &str| {
        diff(files, &[]).ended_with(1).prints_nothing().tells(expected);
    };
    check(("", AFTER), "before.folded: holds no samples");
    check(("main;a", AFTER), "before.folded");
    check((BEFORE, "other;x 100\n"), "different programs");
}
