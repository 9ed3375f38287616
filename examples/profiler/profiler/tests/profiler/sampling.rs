//! Runs that take samples.

use std::{hint, process, sync::Arc, thread};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::{Busy, kernel_permits, program::Run};

/// The profiler's message after a successful run.
const TALLY: &str = " samples logged, 0 not understood, ";

/// With the feature `oops` a sample takes half a second, so three suffice.
const SAMPLES: u32 = if cfg!(feature = "oops") { 3 } else { 50 };

/// A shell that runs this script, and a profiler run on it in its own folder. `None` if the kernel does not allow that.
fn sampled(script: &str) -> Option<(Busy, TempDir, Run)> {
    kernel_permits().then(|| {
        let busy = Busy::start(script);
        let folder = tempfile::tempdir().unwrap();
        let run = Run::start(folder.path(), busy.pid());
        (busy, folder, run)
    })
}

/// Waits for samples of a thread, or of any thread of a process.
fn wait_for_samples(run: &mut Run, of: &str) {
    let mut samples = 0;
    run.wait_for_log(&format!("samples of {of}"), |line| {
        samples += u32::from(is_sample_of(line, of));
        samples == SAMPLES
    });
}

fn is_sample_of(line: &str, of: &str) -> bool {
    line.contains(" sample ktime=") && line.contains(&format!(" {of} ")) && line.contains("=0x")
}

fn check_signal(signal: Signal) {
    let Some((busy, _folder, mut run)) = sampled("while :; do :; done") else { return };
    wait_for_samples(&mut run, &format!("pid={0} tid={0}", busy.pid()));
    run.signal(signal);
    run.ends_well(TALLY);
}

#[test]
fn ctrl_c_ends_a_run() {
    check_signal(Signal::INT);
}

#[test]
fn sigterm_ends_a_run() {
    check_signal(Signal::TERM);
}

#[test]
fn the_end_of_the_target_ends_a_run() {
    let Some((busy, _folder, mut run)) = sampled("while :; do :; done") else { return };
    wait_for_samples(&mut run, &format!("pid={}", busy.pid()));
    drop(busy);
    run.ends_well(TALLY);
}

#[test]
fn a_target_that_sleeps_gives_an_explanation() {
    let Some((_idle, _folder, mut run)) = sampled("read never") else { return };
    run.wait_for_log("start", |line| line.contains("sampling process"));
    run.signal(Signal::INT);
    run.ends_well("no samples: ");
}

#[test]
fn children_are_followed() {
    // The shell starts its child only on request, and does nothing itself.
    let Some((mut parent, _folder, mut run)) = sampled("read go; { while :; do :; done; } & wait")
    else {
        return;
    };
    run.wait_for_log("start", |line| line.contains("sampling process"));
    parent.say("go");
    let own = format!("pid={}", parent.pid());
    run.wait_for_log("sample of the child", |line| {
        is_sample_of(line, "sample") && !is_sample_of(line, &own)
    });
    run.signal(Signal::INT);
    run.ends_well(TALLY);
}

/// A perf event belongs to one thread: existing threads need one each.
#[test]
fn threads_that_are_there_already_are_sampled() {
    if !kernel_permits() {
        return;
    }
    let wanted = Arc::new(());
    let (sender, tid) = std::sync::mpsc::channel();
    let alive = Arc::downgrade(&wanted);
    thread::spawn(move || {
        sender.send(rustix::thread::gettid().as_raw_nonzero()).unwrap();
        // Until the test ends, passed or failed.
        while alive.strong_count() > 0 {
            hint::spin_loop();
        }
    });
    let tid = tid.recv().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut run = Run::start(folder.path(), process::id());
    wait_for_samples(&mut run, &format!("pid={} tid={tid}", process::id()));
    run.signal(Signal::INT);
    run.ends_well(TALLY);
}

/// Output of the feature `dhat-heap`.
#[cfg(feature = "dhat-heap")]
mod heap {
    use std::{fs, path::Path};

    use serde_json::Value;

    use super::*;
    use crate::profiler;

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
}
