//! Output of the feature `dhat-heap`.

use std::{fs, path::Path};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    run::profiler,
    sampling::{TALLY, sampled, wait_for_samples},
};

/// Reads dhat-heap.json and returns the names of its frames.
fn check_heap_profile(folder: &Path) -> Vec<String> {
    let text = fs::read(folder.join("dhat-heap.json")).unwrap();
    let profile: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(profile["dhatFileVersion"], 2);
    assert_eq!(profile["mode"], "rust-heap");
    assert!(profile["pps"].as_array().is_some_and(|points| !points.is_empty()));
    let frames = profile["ftbl"].as_array().unwrap();
    frames.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn check_run(signal: Signal) {
    let Some((busy, folder, mut run)) = sampled("while :; do :; done") else { return };
    wait_for_samples(&mut run, &format!("pid={}", busy.pid()));
    run.signal(signal);
    run.ends_well(TALLY);
    let frames = check_heap_profile(folder.path());
    let allocates = |function: &str| frames.iter().any(|frame| frame.contains(function));
    assert!(allocates("profiler::process_sample"), "{frames:#?}");
    assert_eq!(allocates("oops::_oops"), cfg!(feature = "oops"), "{frames:#?}");
}

#[test]
fn ctrl_c_writes_a_heap_profile() {
    check_run(Signal::INT);
}

#[test]
fn sigterm_writes_a_heap_profile() {
    check_run(Signal::TERM);
}

#[test]
fn a_run_that_fails_writes_a_heap_profile() {
    let folder = tempfile::tempdir().unwrap();
    profiler(folder.path()).arg("4194305").output().unwrap();
    check_heap_profile(folder.path());
}
