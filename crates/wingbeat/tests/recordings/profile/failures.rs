//! Wrong usage, missing privileges, invalid targets: one sentence, and the right exit code.

use std::{fs, process::Command};

use crate::{
    profile::support::{Background, folder, profile, turn},
    ran::Ran,
    target::check_without_rights,
};

fn check(flags: &[&str], code: i32, texts: &[&str]) {
    let folder = folder();
    let run = profile(folder.path(), flags, &[]).ended_with(code);
    for text in texts {
        assert!(run.stderr.contains(text), "{flags:?}: {text:?} in {}", run.stderr);
    }
}

#[test]
fn outputs_are_checked_before_anything_runs() {
    let folder = folder();
    let witness = folder.path().join("witness");
    let witness = witness.to_str().expect("UTF-8");
    for (output, code) in [("/no/such/folder/a.svg", 1), ("a.txt", 2), ("/proc/a.svg", 1)] {
        check(&["-o", output, "--", "touch", witness], code, &[output]);
        assert!(fs::metadata(witness).is_err(), "the command ran before {output} was checked");
    }
}

#[test]
fn two_outputs_in_one_file_are_refused() {
    let folder = folder();
    let (path, other) = (folder.path().join("a.json"), folder.path().join("./a.json"));
    let (path, other) = (path.to_str().expect("UTF-8"), other.to_str().expect("UTF-8"));
    check(&["-o", path, "-o", other, "--", "true"], 2, &["given twice"]);
    let mut wingbeat = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
    wingbeat.args(["profile", "--summary-json", "/no/such/folder/a.json", "--", "true"]);
    let ran = Ran::of(wingbeat.current_dir(folder.path()));
    ran.ended_with(1).tells("there is no folder /no/such/folder");
}

#[test]
fn flags_of_another_mode() {
    let check = |flags: &str, expected: &str| {
        let mut wingbeat = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
        wingbeat.arg("profile").args(flags.split(' ')).args(["--", "true"]);
        Ran::of(&mut wingbeat).ended_with(2).tells(expected);
    };
    check("--min-block 5ms", "--min-block is about time off the CPU: add --mode off-cpu");
    check("--mode on-cpu --wakers", "--wakers is about time off the CPU");
    check("--hide-idle", "--hide-idle is about time off the CPU");
    check("--mode pages --wakers", "--wakers is about time off the CPU");
    check("--mode pages --summary-json -", "--summary-json is about time, and --mode pages about");
    check("--mode pages --fold-runtime", "--fold-runtime is about time");
    check("--mode pages --format json", "--format json is about time");
    check("--mode pages -o x.json.gz", ".json (DHAT)");
    check("--show kept", "--show is about memory: add --mode pages");
    check(
        "--open -o a.folded",
        "--open shows a flame graph, and no output is one: add -o FILE.svg",
    );
}

#[test]
fn targets_that_are_none() {
    let Some(_turn) = turn() else { return };
    check(&["-p", "5000000"], 1, &["no process has the PID 5000000"]);
    check(&["-p", "2"], 1, &["kernel thread", "--all"]);
    check(&["--", "/no/such/program"], 1, &["cannot run /no/such/program", "No such file"]);
    check(&["--", "/etc/passwd"], 1, &["cannot run /etc/passwd", "ermission denied"]);
    check(&["-F", "10000000", "--", "true"], 1, &["perf_event_max_sample_rate"]);
}

#[test]
fn the_exit_status_of_the_command_becomes_ours() {
    let Some(_turn) = turn() else { return };
    check(&["--", "sh", "-c", "exit 7"], 7, &[]);
    check(&["--", "sh", "-c", "kill -TERM $$"], 143, &[]);
}

#[test]
fn a_sleeper_gives_no_picture_but_a_reason() {
    let Some(_turn) = turn() else { return };
    check(&["-d", "1s", "--", "sleep", "20"], 1, &["no samples", "slept", "-F"]);
    check(&["-F", "49", "--", "true"], 1, &["no samples", "took only", "-F"]);
    let sleeper = Background::start("sleep".as_ref(), &["20"]);
    check(&["-d", "1s", "-p", &sleeper.pid()], 1, &["slept or waited for a CPU 100.0 %"]);
}

#[test]
fn without_rights_it_says_which_and_how() {
    for mode in [&[][..], &["--mode", "off-cpu"], &["--mode", "wall"]] {
        check_without_rights(mode);
    }
}
