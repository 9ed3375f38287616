//! Merging the files of windows.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use wingbeat_profiler::{
    export::{Format, write_sums},
    merge::{Merge, Part},
    model::{Mode, Profile},
};

use crate::{blocked, firefox, folded, small::export, small::small};

/// The agent's files for the processes of a profile, with their names.
fn files(profile: &Profile) -> Vec<(String, Vec<u8>)> {
    let file = |(id, process): (u32, &wingbeat_profiler::model::Process)| {
        let part = profile.of_threads(|thread| profile.threads[thread as usize].process == id);
        let mut bytes = Vec::new();
        write_sums(&part, &mut bytes).unwrap();
        (process.name.clone(), bytes)
    };
    (0..).zip(&profile.processes).map(file).collect()
}

fn add(merge: &mut Merge, profile: &Profile, start: SystemTime) {
    for (process, bytes) in files(profile) {
        let duration = Duration::from_millis(100);
        merge.add(&bytes, &Part { process: &process, start, duration }).unwrap();
    }
}

/// The stacks of a profile with their counts multiplied by `times`.
fn counts(profile: &Profile, times: u64) -> BTreeMap<String, u64> {
    let lines = folded::parse(&export(profile, Format::Folded));
    lines.into_iter().map(|(stack, count)| (stack, count * times)).collect()
}

#[test]
fn windows_add_up() {
    let small = small();
    let start = small.meta.start;
    for has_timeline in [false, true] {
        let mut merge = Merge::new(Mode::OnCpu, has_timeline);
        add(&mut merge, &small, start + Duration::from_secs(15));
        add(&mut merge, &small, start);
        assert_eq!(merge.windows(), (2, Duration::from_millis(200)));
        let merged = merge.finish("two windows".to_owned());
        assert_eq!(counts(&merged, 1), counts(&small, 2));
        assert_eq!(merged.meta.duration_ns, 15_100_000_000);
        let expected = (start, 10_000_000, 100, &small.meta.system);
        let meta = &merged.meta;
        assert_eq!((meta.start, meta.period, meta.frequency_hz, &meta.system), expected);
        // Exporting the merged profile loses nothing.
        let mut again = Merge::new(Mode::OnCpu, false);
        add(&mut again, &merged, start);
        assert_eq!(counts(&again.finish(String::new()), 1), counts(&small, 2));
    }
}

#[test]
fn a_timeline_has_each_window_in_its_place() {
    let small = small();
    let mut merge = Merge::new(Mode::OnCpu, true);
    add(&mut merge, &small, small.meta.start);
    add(&mut merge, &small, small.meta.start + Duration::from_secs(3600));
    let merged = merge.finish(String::new());
    let late = merged.sums.iter().filter(|sum| sum.time_ns >= 3_600_000_000_000);
    assert_eq!(late.count() * 2, merged.sums.len());
    assert!(merged.sums.iter().all(|sum| sum.time_ns <= merged.meta.duration_ns));
    let document = firefox::document(&merged);
    let threads = document["threads"].as_array().unwrap();
    let names: Vec<_> = threads.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["amicable", "sh; <odd> 1"]);
    let samples = &threads[0]["samples"];
    let weights = samples["weight"].as_array().unwrap();
    let weight: u64 = weights.iter().map(|it| it.as_u64().unwrap()).sum();
    assert_eq!((weight, samples["weightType"].as_str()), (14, Some("samples")));
}

#[test]
fn rates_that_changed_count_as_the_highest() {
    let fast = small();
    let mut slow = small();
    slow.meta.period *= 3;
    let mut merge = Merge::new(Mode::OnCpu, false);
    add(&mut merge, &slow, fast.meta.start);
    add(&mut merge, &fast, fast.meta.start + Duration::from_secs(1));
    let merged = merge.finish(String::new());
    assert_eq!(counts(&merged, 1), counts(&fast, 4));
    assert_eq!(merged.meta.frequency_hz, 100);
}

#[test]
fn time_off_the_cpu_adds_up() {
    let profile = blocked::profile(Mode::OffCpu);
    let mut merge = Merge::new(Mode::OffCpu, false);
    let (start, duration) = (profile.meta.start, Duration::from_millis(100));
    let mut bytes = Vec::new();
    write_sums(&profile, &mut bytes).unwrap();
    merge.add(&bytes, &Part { process: "p", start, duration }).unwrap();
    let merged = merge.finish(String::new());
    let by_stack = |profile: &Profile| {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (stack, count) in folded::parse(&export(profile, Format::Folded)) {
            let (_process, rest) = stack.split_once(';').unwrap();
            *sums.entry(rest.to_owned()).or_default() += count;
        }
        sums
    };
    assert_eq!(by_stack(&merged), by_stack(&profile));
    // In nanoseconds, with state colours.
    let svg = String::from_utf8(export(&merged, Format::FlameGraph)).unwrap();
    assert!(svg.contains("off-cpu: ") && svg.contains("[sleeping]"));
    let document = firefox::document(&merged);
    assert_eq!(document["threads"][0]["samples"]["weightType"], "tracing-ms");
}

#[test]
fn what_is_damaged_adds_nothing() {
    let small = small();
    let (process, bytes) = files(&small).swap_remove(0);
    let mut merge = Merge::new(Mode::OnCpu, false);
    let mut check = |bytes: &[u8], expected: &str| {
        let (start, duration) = (small.meta.start, Duration::from_secs(1));
        let part = Part { process: &process, start, duration };
        let error = merge.add(bytes, &part).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(merge.windows().0, 0);
    };
    check(&bytes[..bytes.len() / 2], "cannot be decompressed");
    check(b"\x1f\x8b", "cannot be decompressed");
    check(b"nonsense", "not a pprof profile");
    check(b"", "no values of on-cpu");
    let mut wrong = Merge::new(Mode::OffCpu, false);
    let part = Part { process: "p", start: small.meta.start, duration: Duration::ZERO };
    let error = wrong.add(&bytes, &part).unwrap_err().to_string();
    assert_eq!(error, "it has no values of off-cpu");
}
