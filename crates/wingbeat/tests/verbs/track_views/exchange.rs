//! `wingbeat export` and `import`.

use std::fs;

use super::support::Place;
use crate::ran::Ran;

#[test]
fn there_and_back() {
    let place = Place::with_history();
    place.wingbeat(&["alerts", "dismiss", "beef"]).ended_with(0);
    let check = |place: &Place, args: &[&str], code: i32, expected: &str| {
        place.wingbeat(args).ended_with(code).tells(expected);
    };
    let folder = place.folder.path().join("out");
    let folder = folder.to_str().expect("a text");
    check(&place, &["export", folder], 0, "wrote 25 reports and 1 change of an alert to");
    check(&place, &["export", folder], 0, "wrote 0 reports to");
    check(&place, &["export", folder], 0, "; 26 were already there");
    let other = Place::empty();
    check(&other, &["import", folder], 0, "imported 25 reports and 1 change of an alert into");
    check(&other, &["import", folder], 0, "; 26 were already there");
    let log = |place: &Place| place.wingbeat(&["log", "-n", "100"]).ended_with(0).stdout;
    assert_eq!(log(&place), log(&other));
    fs::write(place.folder.path().join("out/broken.json"), "{").expect("written");
    check(&other, &["import", folder], 1, "broken.json was skipped: ");
    check(&other, &["import", folder], 1, "already there, 1 file skipped");
    check(&other, &["import", "nowhere"], 1, "cannot read nowhere");
    let both = ["import", folder, "--host", "http://localhost:6610"];
    check(&other, &both, 2, "wingbeat export --host http://localhost:6610");
}

#[test]
fn one_file() {
    let place = Place::with_history();
    let run = |place: &Place, args: &[&str], code: i32, expected: &str| {
        place.wingbeat(args).ended_with(code).tells(expected);
    };
    let name = |name: &str| place.folder.path().join(name).to_str().expect("a text").to_owned();
    for file in [name("a.jsonl"), name("a.jsonl.gz")] {
        run(&place, &["export", &file], 0, "wrote 25 reports to");
        run(&place, &["export", &file], 1, "it is there");
        let other = Place::empty();
        run(&other, &["import", &file], 0, "imported 25 reports into");
        run(&other, &["import", &file], 0, "imported 0 reports into");
        let log = |place: &Place| place.wingbeat(&["log", "-n", "100"]).ended_with(0).stdout;
        assert_eq!(log(&place), log(&other));
    }
    let packed = fs::read(name("a.jsonl.gz")).expect("a file");
    let plain = fs::read(name("a.jsonl")).expect("a file");
    assert!(packed.starts_with(&[0x1f, 0x8b]) && packed.len() < plain.len() / 3);
    let mut piped = place.command();
    let piped = piped.args(["export", "--gzip", "-", "--store"]).arg(place.store()).output();
    let piped = piped.expect("it runs");
    assert!(piped.stdout == packed);
    assert!(String::from_utf8_lossy(&piped.stderr).contains("to stdout"), "{:?}", piped.stderr);
    run(&place, &["export", "--gzip", "folder"], 2, "--gzip compresses one file");
    let lines: Vec<_> = plain.split_inclusive(|byte| *byte == b'\n').collect();
    let check = |content: &[u8], expected: &str| {
        let other = Place::empty();
        let file = name("broken");
        fs::write(&file, content).expect("written");
        run(&other, &["import", &file], 1, expected);
        other.wingbeat(&["log"]).ended_with(0).tells("no reports in");
    };
    check(&plain[..plain.len() / 2], "cut off");
    check(&lines[..20].concat(), "it is cut off after 19 reports: its last line is missing");
    check(&[&lines[..3], &lines[4..]].concat().concat(), "lines are missing");
    check(&packed[..packed.len() / 2], "cut off");
    check(b"name,value\na,1\n", "it was not written by `wingbeat export`");
    check(b"{\"a\": 1}\n", "it was not written by `wingbeat export`");
    check(b"", "it is empty");
    let newer = String::from_utf8_lossy(&plain).replace("\"format\":1", "\"format\":2");
    check(newer.as_bytes(), "a newer wingbeat has written it");
    // Concatenated files of a folder.
    fs::write(name("joined"), lines[1..4].concat()).expect("written");
    run(&Place::empty(), &["import", &name("joined")], 0, "imported 3 reports into");
}

#[test]
fn damage_is_told() {
    let place = Place::with_history();
    let check = |args: &[&str], code: i32, out: &str, err: &str| {
        place.wingbeat(args).ended_with(code).prints(out).tells(err);
    };
    check(&["log", "--check"], 0, "", "is whole: 25 reports with 50 metrics, 0 changes");
    // The lower bound of a value, anywhere in the file.
    let value = 2000.0_f64 * (1.0 + 3.0 / 500.0) * 0.98;
    let mut bytes = fs::read(place.store()).expect("the store");
    let at = bytes.windows(8).position(|eight| eight == value.to_be_bytes()).expect("the value");
    bytes[at + 6] ^= 4;
    fs::write(place.store(), &bytes).expect("written");
    check(&["log", "--check"], 1, "benchmark print, measure latency: ", "24 of the 25 reports");
    check(&["log", "--check", "--format", "json"], 1, "\"benchmark\": \"print\"", "is damaged");
    check(&["export", "saved"], 1, "", "wrote 24 reports to saved");
    check(&["export", "saved"], 1, "", "a row of the table metric differs from what was written");
    check(&["plot", "-o", "a.svg"], 1, "", "`wingbeat log --check` lists");
}

#[test]
fn a_store_is_copied_to_another() {
    let place = Place::with_history();
    let copy = |from: &str, to: &str| Ran::of(place.command().args(["store", "copy", from, to]));
    let to = place.folder.path().join("copy.db");
    let to = to.to_str().expect("a text");
    copy("results.db", to).ended_with(0).tells("all 25 documents of results.db are in ");
    copy("results.db", to).ended_with(0).tells("25 of them were there before");
    copy("nowhere.db", to).ended_with(1).tells("there is no store at nowhere.db");
    let unreachable = "postgres://me:secret@127.0.0.1:1/results";
    let refused = copy("results.db", unreachable).ended_with(1);
    refused.tells("the connection to postgres://me@127.0.0.1:1/results failed while opening it");
}
