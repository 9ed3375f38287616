//! Invalid input gets a message and exit code 1 or 2, never a panic.

use std::fs;

use crate::{
    bench::support::{Folder, PROGRAM, QUICK, Ran, turn_with_object},
    ran::without_rights,
};

/// Checks the exit code of `wingbeat` and its messages.
#[track_caller]
fn check(folder: &Folder, arguments: &[&str], code: i32, expected: &[&str]) {
    let found = folder.run(arguments).ended_with(code);
    let said = found.said();
    for text in expected {
        assert!(said.contains(text), "{text:?} is not in: {said}");
    }
}

#[test]
fn files_that_are_no_objects() {
    let folder = Folder::with_object();
    folder.file("text.o", "int main(void) { return 0; }\n");
    for (file, expected) in [
        ("text.o", "text.o is not an eBPF object: it is a text file"),
        ("missing.o", "cannot read missing.o: No such file or directory"),
    ] {
        for words in [&["bench"][..], &["annotate"], &["bench", "looping.o", "--against"]] {
            check(&folder, &[words, &[file]].concat(), 1, &["error: ", expected]);
        }
    }
}

#[test]
fn arguments_that_do_not_fit() {
    let folder = Folder::with_object();
    folder.file("map.json", "[]");
    let check = |arguments: &[&str], expected: &[&str]| {
        check(&folder, &[&["bench", "looping.o"], arguments].concat(), 1, expected);
    };
    check(&["count_dwn"], &["looping.o has no program", "did you mean", PROGRAM]);
    check(&["--input", "missing.bin"], &["missing.bin", "No such file"]);
    check(&["--map", "nope=map.json"], &["looping.o has no map \"nope\""]);
    check(&["-o", "/no/such/folder/x"], &["/no/such/folder"]);
}

#[test]
fn a_full_disk_is_told_with_what_was_written() {
    let Some((_turn, folder)) = turn_with_object() else { return };
    for arguments in [&QUICK[..], &["annotate", "looping.o"]] {
        let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full");
        let output = folder.wingbeat(arguments).stdout(full).output().expect("run wingbeat");
        Ran::from(output).ended_with(1).tells("cannot write to stdout: No space left");
    }
}

#[test]
fn packets_that_the_kernel_refuses() {
    let Some((_turn, folder)) = turn_with_object() else { return };
    folder.file("long.bin", vec![0; 100_000]);
    folder.file("short.bin", [0; 5]);
    let check = |file: &str, expected: &[&str]| {
        check(&folder, &[&QUICK, &["--input", file][..]].concat(), 1, expected);
        check(&folder, &["annotate", "looping.o", "--input", file], 1, expected);
    };
    check("long.bin", &["refuses the input (100000 bytes of packet", "must fit into a page"]);
    check("short.bin", &["refuses the input (5 bytes of packet", "at least 14 bytes"]);
}

#[test]
fn without_rights_one_sentence() {
    let folder = Folder::with_object();
    for verb in ["bench", "annotate"] {
        let mut command = without_rights(folder.0.path());
        let found = Ran::of(command.args([verb, "looping.o"])).ended_with(1).prints_nothing();
        let texts = ["Operation not permitted", "CAP_BPF", "sudo"];
        found.tells_all(&texts).tells_in_one_line();
    }
}
