//! Output files: four formats, and all of them after an interrupted recording.

use std::{
    fs::{self, File},
    io::Read as _,
    path::Path,
};

use flate2::read::GzDecoder;
use prost::Message;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    off_cpu::support::{Run, build, command, finished, launch, let_record, near},
    ran::started,
    target::{Background, WITH_FRAME_POINTERS, build_with, folder, turn, turn_in_folder},
};

const HALVES: &str = r#"
OWN void works(void) { long begun = thread_cpu_ns(); while (thread_cpu_ns() - begun < 10000000) spin(1000); }
OWN void naps(void) { doze(10000000); }
int main(int count, char **words) {
    for (int i = 0; i < (count > 1 ? atoi(words[1]) : 20); i++) { works(); naps(); }
    return 0;
}"#;

/// The part of pprof's `profile.proto` that these tests need.
#[derive(Clone, PartialEq, Message)]
struct Pprof {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

impl Pprof {
    fn read(path: &Path) -> Self {
        let mut bytes = Vec::new();
        GzDecoder::new(File::open(path).expect("open")).read_to_end(&mut bytes).expect("gzip");
        Self::decode(bytes.as_slice()).expect("pprof")
    }

    fn text(&self, index: i64) -> &str {
        &self.string_table[usize::try_from(index).expect("an index")]
    }

    /// `TYPE/UNIT` of each value, and the sum over all samples.
    fn sums(&self) -> Vec<(String, u64)> {
        let sum = |index: usize| self.sample.iter().map(|sample| sample.value[index]).sum::<i64>();
        let types = self.sample_type.iter().enumerate();
        let name = |of: &ValueType| format!("{}/{}", self.text(of.r#type), self.text(of.unit));
        types.map(|(index, of)| (name(of), sum(index).cast_unsigned())).collect()
    }
}

fn sums(run: &Run, keys: &[&str]) -> u64 {
    let threads = run.summary["off_cpu"]["threads"].as_array().expect("threads");
    let number = |thread: &Value, key: &str| thread[key].as_u64().expect("a number");
    threads.iter().map(|thread| keys.iter().map(|key| number(thread, key)).sum::<u64>()).sum()
}

fn four_formats(mode: &str) -> (tempfile::TempDir, Run) {
    let folder = folder();
    let program = build(folder.path(), "halves", HALVES);
    let mut wingbeat = command(folder.path(), &["--mode", mode, "-F", "499"]);
    for name in ["a.svg", "a.pb.gz", "a.json"] {
        wingbeat.arg("-o").arg(folder.path().join(name));
    }
    let run =
        finished(folder.path(), wingbeat.arg("--").arg(&program).output().expect("run wingbeat"))
            .ended_with(0);
    assert_eq!(run.summary["outputs"].as_array().map(Vec::len), Some(4));
    (folder, run)
}

#[test]
fn pprof_has_a_sample_type_for_each_measure() {
    let Some(_turn) = turn() else { return };
    let (folder, run) = four_formats("off-cpu");
    let pprof = Pprof::read(&folder.path().join("a.pb.gz"));
    // Blocks below the limit have no stacks, but still count.
    let blocks = ["reported", "still_blocked", "below_limit"]
        .map(|key| run.number(&format!("/off_cpu/switches/{key}")))
        .iter()
        .sum();
    let off_cpu_ns = sums(&run, &["off_cpu_ns", "below_limit_ns"]);
    let expected =
        [("blocks/count".to_owned(), blocks), ("off_cpu/nanoseconds".to_owned(), off_cpu_ns)];
    assert_eq!(pprof.sums(), expected);
    assert_eq!(pprof.text(pprof.default_sample_type), "off_cpu");

    let (folder, run) = four_formats("wall");
    let pprof = Pprof::read(&folder.path().join("a.pb.gz"));
    let sums = |keys| sums(&run, keys);
    let wall_ns = sums(&["on_cpu_ns", "off_cpu_ns", "below_limit_ns"]);
    let of = |name: &str| {
        let found = pprof.sums().into_iter().find(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("{name} in {:?}", pprof.sums())).1
    };
    assert_eq!(of("samples/count"), run.number("/ticks/sampled"));
    assert_eq!(of("cpu/nanoseconds"), sums(&["on_cpu_ns"]));
    assert_eq!(of("off_cpu/nanoseconds"), sums(&["off_cpu_ns", "below_limit_ns"]));
    assert_eq!(of("wall/nanoseconds"), wall_ns);
    assert!(of("blocks/count") >= 20);
    assert_eq!(pprof.text(pprof.default_sample_type), "wall");
    for text in ["[sleeping]", "naps", "works", "state"] {
        assert!(pprof.string_table.iter().any(|known| known == text), "{text}");
    }
}

#[test]
fn a_flame_graph_has_states_in_colours_of_their_own() {
    let Some(_turn) = turn() else { return };
    let (folder, _) = four_formats("wall");
    let svg = fs::read_to_string(folder.path().join("a.svg")).expect("svg");
    assert!(svg.trim_end().ends_with("</svg>"));
    // A frame is `<title>NAME, line break, …</title><rect … fill="COLOUR" …/>`.
    let colour = |name: &str| {
        let frame = svg.split("<title>").find(|frame| frame.starts_with(&format!("{name}\n")));
        let frame = frame.unwrap_or_else(|| panic!("no frame of {name}"));
        let (_, colour) = frame.split_once("fill=\"").expect("a colour");
        colour.split('"').next().expect("a colour").to_owned()
    };
    let sleeping = colour("[sleeping]");
    for name in ["works", "naps", "main", "halves"] {
        assert_ne!(sleeping, colour(name), "{name}");
    }
}

#[test]
fn the_timeline_has_a_marker_for_each_long_block() {
    let Some(_turn) = turn() else { return };
    for mode in ["off-cpu", "wall"] {
        let (folder, run) = four_formats(mode);
        let json = fs::read(folder.path().join("a.json")).expect("json");
        let firefox: Value = serde_json::from_slice(&json).expect("JSON");
        let thread = &firefox["threads"][0];
        assert_eq!(thread["processName"], "halves");
        let markers = &thread["markers"];
        let times = |key: &str| -> Vec<f64> {
            let times = markers[key].as_array().expect("times").iter();
            times.map(|time| time.as_f64().unwrap_or(f64::NAN)).collect()
        };
        let lengths_ms: Vec<f64> =
            times("startTime").iter().zip(times("endTime")).map(|(from, to)| to - from).collect();
        let naps = lengths_ms.iter().filter(|length| **length > 9.9).count();
        assert!(naps >= 20, "{mode}: {lengths_ms:?}");
        let marked_ns = (lengths_ms.iter().sum::<f64>() * 1e6) as u64;
        // Blocks too short for a timeline have no marker.
        near(&run, marked_ns, sums(&run, &["off_cpu_ns"]), 5.0, 2_000_000);
        let schemas = firefox["meta"]["markerSchema"].as_array().expect("schemas");
        assert!(!schemas.is_empty(), "{mode}");
        let shared = firefox.pointer("/shared/stringArray").unwrap_or(&thread["stringArray"]);
        let strings = shared.as_array().expect("strings");
        assert!(strings.iter().any(|text| text.as_str().is_some_and(|t| t.contains("sleeping"))));
    }
}

#[test]
fn interrupted_recordings_are_written() {
    let Some(_turn) = turn() else { return };
    for mode in ["off-cpu", "wall"] {
        let folder = folder();
        let program = build(folder.path(), "halves", HALVES);
        let target = Background::start(&program, &["1000"]);
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
