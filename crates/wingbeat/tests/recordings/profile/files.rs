//! Output files, and when they are written.

use std::{
    fs::{self, File},
    io::Read as _,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use flate2::read::GzDecoder;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    profile::support::{
        Background, Run, SPINNER, WITH_FRAME_POINTERS, build_with, command, finished, launch,
        spinner, turn_in_folder,
    },
    ran::wait_for,
};

#[test]
fn a_folded_runtime_leaves_the_sums_and_is_told_of() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    // A stripped C library lacks the names to fold.
    let flags = [WITH_FRAME_POINTERS, &["-static"]].concat();
    let program = build_with(folder.path(), "spinner", SPINNER, &flags);
    let whole = launch(folder.path(), &["-F", "499"], &program, &["0.5"]).ended_with(0);
    assert_eq!(whole.samples_with("[runtime]"), 0, "{:?}", whole.folded);
    assert!(whole.summary["folded"].is_null());
    let flags = ["-F", "499", "--fold-runtime"];
    let run = launch(folder.path(), &flags, &program, &["0.5"]).ended_with(0);
    assert!(run.percent_with("spinner;[runtime];main;busy_work") > 90.0, "{:?}", run.folded);
    assert_eq!(run.samples(), run.number("/ticks/sampled"));
    let folded = run.number("/folded/samples");
    assert_eq!(run.samples_with("[runtime];"), folded, "{}", run.summary);
    assert_eq!(run.number("/folded/names/0/count"), folded, "{}", run.summary);
    assert!(
        run.number("/folded/functions_after") + 2 * folded
            <= run.number("/folded/functions_before")
    );
    assert!(run.stderr.contains("of the runtime in"), "{}", run.stderr);
}

#[test]
fn stacks_by_thread() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
OWN void *work(void *name) { pthread_setname_np(pthread_self(), name); spin(200000000); return 0; }
int main(void) {
    pthread_t one, two;
    pthread_create(&one, 0, work, "one");
    pthread_create(&two, 0, work, "two");
    pthread_join(one, 0);
    pthread_join(two, 0);
    return 0;
}"#;
    let program = build_with(folder.path(), "pool", source, WITH_FRAME_POINTERS);
    let run = launch(folder.path(), &["-F", "499", "--by-thread"], &program, &[]).ended_with(0);
    for thread in ["pool/one-", "pool/two-"] {
        assert!(run.percent_with(thread) > 30.0, "{thread}: {:?}", run.folded);
    }
}

#[test]
fn four_formats_at_once() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = spinner(folder.path(), "spinner");
    let path = |name: &str| folder.path().join(name);
    let mut wingbeat = Command::new(env!("CARGO_BIN_EXE_wingbeat"));
    wingbeat.args(["profile", "-F", "499"]);
    for name in ["a.svg", "a.folded", "a.pb.gz", "a.json", "a.json.gz"] {
        wingbeat.arg("-o").arg(path(name));
    }
    let output =
        wingbeat.arg("--summary-json").arg("-").arg("--").arg(&program).arg("0.5").output();
    let output = output.expect("run wingbeat");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).expect("summary on stdout");
    assert_eq!(summary["schema_version"], 1);
    assert!(summary["warnings"].is_array());
    assert_eq!(summary["outputs"].as_array().map(Vec::len), Some(5));

    let svg = fs::read_to_string(path("a.svg")).expect("svg");
    assert!(svg.contains("busy_work") && svg.contains("</svg>"));
    let unpacked = |name| {
        let mut bytes = Vec::new();
        GzDecoder::new(File::open(path(name)).expect("open"))
            .read_to_end(&mut bytes)
            .expect("gzip");
        bytes
    };
    assert!(unpacked("a.pb.gz").windows(9).any(|window| window == b"busy_work"));
    let json = fs::read(path("a.json")).expect("json");
    assert_eq!(unpacked("a.json.gz"), json);
    let firefox: Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(firefox["threads"][0]["processName"], "spinner");
}

/// Sends wingbeat a signal once it records.
fn interrupted(folder: &Path, command: &mut Command, signal: Signal) -> Run {
    let session = command.stderr(Stdio::piped()).spawn().expect("start wingbeat");
    thread::sleep(Duration::from_millis(1_500));
    kill_process(Pid::from_child(&session), signal).expect("kill");
    finished(folder, session.wait_with_output().expect("wait")).ended_with(0)
}

#[test]
fn interrupted_recordings_are_written_and_commands_ended() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let folder = folder.path();
    let program = spinner(folder, "spinner");
    let target = Background::start(&program, &["30"]);
    let mut of_target = command(folder, &["-F", "499", "-p", &target.pid()]);
    let run = interrupted(folder, &mut of_target, Signal::TERM);
    assert!(run.samples_with(";busy_work") > 100, "{}", run.stderr);
    drop(target);
    let mut of_command = command(folder, &["-F", "499", "--"]);
    let run = interrupted(folder, of_command.arg(&program).arg("30"), Signal::INT);
    assert!(run.samples_with(";busy_work") > 100, "{}", run.stderr);
    wait_for("the end of the command", || {
        let name = program.to_str().expect("UTF-8");
        !Command::new("pgrep").args(["-f", name]).output().is_ok_and(|found| found.status.success())
    });
}

#[test]
fn nothing_is_left_in_the_folder_but_what_was_asked_for() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let output = command(folder.path(), &["--", "true"]).output().expect("run wingbeat");
    // No samples: the summary is written, the empty picture is not.
    finished(folder.path(), output).ended_with(1);
    let names: Vec<_> = fs::read_dir(folder.path())
        .expect("list")
        .map(|entry| entry.expect("entry").file_name())
        .collect();
    assert_eq!(names, ["out.json"]);
}
