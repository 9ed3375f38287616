//! Output files: four formats, and all of them after an interrupted recording.

use std::{
    fs::{self, File},
    io::Read as _,
};

use flate2::read::GzDecoder;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    off_cpu::support::{build, command, finished, launch, let_record, near},
    ran::started,
    target::{Background, WITH_FRAME_POINTERS, build_with, turn_in_folder},
};

const HALVES: &str = r#"
OWN void works(void) { long begun = thread_cpu_ns(); while (thread_cpu_ns() - begun < 10000000) spin(1000); }
OWN void naps(void) { doze(10000000); }
int main(int count, char **words) {
    for (int i = 0; i < (count > 1 ? atoi(words[1]) : 20); i++) { works(); naps(); }
    return 0;
}"#;

#[test]
fn four_formats_at_once() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = build(folder.path(), "halves", HALVES);
    let path = |name: &str| folder.path().join(name);
    for mode in ["off-cpu", "wall"] {
        let mut wingbeat = command(folder.path(), &["--mode", mode, "-F", "499"]);
        for name in ["a.svg", "a.pb.gz", "a.json"] {
            wingbeat.arg("-o").arg(path(name));
        }
        let output = wingbeat.arg("--").arg(&program).output().expect("run wingbeat");
        let run = finished(folder.path(), output).ended_with(0);
        assert_eq!(run.summary["outputs"].as_array().map(Vec::len), Some(4));
        let svg = fs::read_to_string(path("a.svg")).expect("svg");
        assert!(svg.contains("<title>naps\n") && svg.contains("<title>[sleeping]\n"));
        let mut pprof = Vec::new();
        let file = File::open(path("a.pb.gz")).expect("open");
        GzDecoder::new(file).read_to_end(&mut pprof).expect("gzip");
        for text in ["naps", "[sleeping]", "off_cpu", "blocks"] {
            assert!(pprof.windows(text.len()).any(|bytes| bytes == text.as_bytes()), "{text}");
        }
        // The timeline has a marker for each long block.
        let json = fs::read(path("a.json")).expect("json");
        let firefox: Value = serde_json::from_slice(&json).expect("JSON");
        let thread = &firefox["threads"][0];
        assert_eq!(thread["processName"], "halves");
        let times = |key: &str| -> Vec<f64> {
            let times = thread["markers"][key].as_array().expect("times").iter();
            times.map(|time| time.as_f64().unwrap_or(f64::NAN)).collect()
        };
        let lengths_ms: Vec<f64> =
            times("startTime").iter().zip(times("endTime")).map(|(from, to)| to - from).collect();
        let naps = lengths_ms.iter().filter(|length| **length > 9.9).count();
        assert!(naps >= 20, "{mode}: {lengths_ms:?}");
        let marked_ns = (lengths_ms.iter().sum::<f64>() * 1e6) as u64;
        let off_ns = run.thread("halves")["off_cpu_ns"].as_u64().expect("a number");
        // Blocks too short for a timeline have no marker.
        near(&run, marked_ns, off_ns, 5.0, 2_000_000);
    }
}

#[test]
fn interrupted_recordings_are_written() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let program = build(folder.path(), "halves", HALVES);
    let target = Background::start(&program, &["1000"]);
    for mode in ["off-cpu", "wall"] {
        let flags = ["--mode", mode, "-F", "499", "--pid", &target.pid()];
        let session = started(command(folder.path(), &flags));
        let_record(&session);
        kill_process(Pid::from_child(&session), Signal::INT).expect("kill");
        let run = finished(folder.path(), session.wait_with_output().expect("wait")).ended_with(0);
        assert!(run.time_ns(&["naps", "[sleeping]"]) > 100_000_000, "{}", run.all());
    }
}

#[test]
fn a_folded_runtime_changes_names_and_no_time() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    // A stripped C library lacks the names to fold.
    let flags = [WITH_FRAME_POINTERS, &["-static"]].concat();
    let program = build_with(folder.path(), "halves", HALVES, &flags);
    for mode in ["off-cpu", "wall"] {
        // Every run checks that all outputs have the same sums.
        let options = ["--fold-runtime", "--min-block", "0"];
        let run = launch(folder.path(), mode, &options, &program).ended_with(0);
        let naps = run.blocks("naps", "sleeping");
        assert_eq!(naps.count, 20, "{}", run.all());
        assert_eq!(
            naps,
            run.blocks_in(&["[runtime]", "main", "naps"], "sleeping"),
            "{}",
            run.all()
        );
        assert_eq!(run.time_ns(&["[runtime]", "naps", "[sleeping]"]), naps.total_ns);
        assert_eq!(run.time_ns(&["__libc_start_call_main", "naps"]), 0, "{}", run.all());
        assert!(run.number("/folded/samples") >= 20, "{}", run.summary);
    }
}
